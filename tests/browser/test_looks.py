"""What a page looks like: on a phone, in light and dark, and with payloads that mean it no good."""

from __future__ import annotations

import pytest

from tests.api.serving import accepted

pytestmark = pytest.mark.browser

HOSTILE = {
    "script": "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>",
    "link": "javascript:window.owned = 1",
    "long": "W" * 20_000,
    "turned": "\u202egpj.exe\u202c שלום \u2066x\u2069",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_payload_is_text(page, worker, name):
    interaction = worker.waiting(customerName=HOSTILE[name], restaurantName="<b>Roma</b>", items=HOSTILE[name])
    page.width(360)
    page.go()
    page.until("#entries a")
    assert page.overflow() == 0
    page.open_first()
    page.choose("accepted")
    shown = page.until("#decision .payload").text
    if name == "long":
        assert "All 20,000 characters" in shown and len(shown) < 5_000
        page.until("#decision .payload details summary").click()
        page.until("#decision .payload details .value", "W" * 20_000)
    elif name == "turned":
        assert "[U+202E]gpj.exe[U+202C]" in shown and "שלום" in shown
    else:
        assert HOSTILE[name] in shown
    assert "<b>Roma</b>" in shown
    assert page.overflow() == 0
    assert page.run("return window.owned") is None
    assert page.all("#decision img, #decision script, #entries b, #decision b, a[href^='javascript']") == []
    worker.do(worker.served.complete(interaction, accepted(interaction, note=HOSTILE[name])))
    page.outcome("Somebody was faster.")
    page.go(f"/executions/{interaction['executionId']}")
    page.until("#summary", "SUCCEEDED")
    assert page.run("return window.owned") is None and page.overflow() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everything_can_be_read(page, worker, scheme, width):
    """Contrast AA (4.5:1) of every text there is, and no scrolling sideways."""
    first = worker.waiting("o-1")
    worker.waiting("o-2")
    page.scheme(scheme)
    page.width(width)
    page.go()
    page.until("#entries li", count=2)
    check(page)
    page.open_first()
    page.choose("declined")
    page.until("#decision .cancel summary").click()
    check(page)
    page.fill("declineReason", "closed")
    page.send()
    page.outcome("Recorded.")
    check(page)
    page.go(f"/executions/{first['executionId']}")
    page.until("#events td", "await_interaction_dispatched")
    check(page)
    back = page.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (back > 128) == (scheme == "light")


def check(page):
    contrasts = page.contrasts()
    assert len(contrasts) > 10 and min(contrasts)[0] >= 4.5, min(contrasts)
    assert page.overflow() == 0
    unnamed = (
        "return [...document.querySelectorAll('input, select, textarea')].filter((it) => !it.labels.length).length"
    )
    assert page.run(unnamed) == 0


def test_nothing_is_asked_but_of_the_worker(page, worker):
    interaction = worker.waiting()
    page.go()
    page.open_first()
    page.go(f"/executions/{interaction['executionId']}")
    page.until("#events td", "start")
    asked = page.asked()
    assert len(asked) > 10 and [it for it in asked if not it.startswith(page.url + "/")] == []
