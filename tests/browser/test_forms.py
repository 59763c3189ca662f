"""Forms: a field for every type, what is known filled in, what is wrong said, and each digit sent as it was typed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import loaded_with
from tests.browser.looking import Page, one_window
from tests.browser.serving import Worker, working

pytestmark = pytest.mark.browser

ASKED = {
    "amount": "1234567890123456789.10",
    "large": 9007199254740993,
    "at": "2026-02-03T04:05:06.789123Z",
    "note": "n",
}
TYPED = {
    "words": " two words ",
    "ident": "123e4567-e89b-12d3-a456-426614174000",
    "clock": "2026-01-02T03:04:05",
    "length": "PT30M",
    "currency": "EUR",
    "link": "https://example.org/a",
    "file": "a/b.csv",
    "small": "-7",
    "ratio": "0.1",
    "raw": "aGVsbG8=",
    "code": "c",
    "count": "3",
}


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "level 9"}
    for level in reversed(range(depth)):
        found = {"name": f"level {level}", "inside": found}
    return found


@pytest.fixture
def forms() -> Iterator[Worker]:
    with working(loaded_with(Path(__file__).with_name("forms.yaml"))) as found:
        yield found


@pytest.fixture
def page(driver, forms) -> Iterator[Page]:
    with one_window(driver, forms.url) as found:
        yield found


async def asked(served) -> dict[str, Any]:
    await served.post("/pipeline/run-async", {**ASKED, "deep": nested(9)}, 202, Idempotency_Key="f-1")
    async with asyncio.timeout(10):
        while not (found := await served.get("/pipeline/interactions/pending")):
            await asyncio.sleep(0.01)
    return dict(found[0])


def fill(page: Page, **other: str) -> None:
    for name, text in {**TYPED, **other}.items():
        page.fill(name, text)
    page.run("document.querySelector('#answer [name=day]').value = '2026-01-31'")
    page.run("document.querySelector('#answer [name=sure]').value = 'No'")


def test_an_answer_of_every_type(page, forms):
    interaction = forms.do(asked(forms.served))
    page.go()
    page.open_first()
    assert "Ann" in page.until("#decision .facts").text
    shown = page.until("#decision .payload").text
    assert "level 5" in shown and "level 9" in shown and "9007199254740993" in shown, "no digit is rounded"
    assert page.overflow() == 0
    page.choose("all")
    known = {name: page.until(f"#answer [name={name}]").get_attribute("value") for name in ("amount", "large", "note")}
    assert known == {"amount": ASKED["amount"], "large": "9007199254740993", "note": ""}
    fill(page)
    page.send()
    page.outcome("Recorded.")
    found = forms.do(forms.served.get(f"/pipeline/interactions/{interaction['interactionId']}"))
    answer = found["responsePayload"]["all"]
    wanted = {name: text for name, text in TYPED.items() if name not in ("code", "count", "small", "ratio", "clock")}
    assert {name: answer[name] for name in wanted} == wanted
    assert (answer["amount"], str(answer["large"]), answer["small"]) == (ASKED["amount"], "9007199254740993", -7)
    assert (answer["sure"], answer["day"], answer["inner"]) == (False, "2026-01-31", {"code": "c", "count": 3})
    assert answer["at"].startswith("2026-02-03T04:05:06.789") and answer["moment"] and float(answer["ratio"]) == 0.1
    assert answer.get("note") is None and answer.get("other") is None


def test_a_part_that_may_be_left_out_is_given(page, forms):
    interaction = forms.do(asked(forms.served))
    page.go()
    page.open_first()
    page.choose("some")
    page.fill("code", "x")
    page.fill("count", "1")
    page.choose("all")
    fill(page)
    page.until("#answer input[type=checkbox]").click()
    page.run("const all = document.querySelectorAll('#answer [name=code]'); all[all.length - 1].value = 'second'")
    page.run("const all = document.querySelectorAll('#answer [name=count]'); all[all.length - 1].value = '2'")
    page.send()
    page.outcome("Recorded.")
    found = forms.do(forms.served.get(f"/pipeline/interactions/{interaction['interactionId']}"))
    assert list(found["responsePayload"]) == ["all"], "the arm that was left is no part of the answer"
    assert found["responsePayload"]["all"]["other"] == {"code": "second", "count": 2}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("ident", "no-id", "an id like"),
        ("amount", "1,000", "A number is wanted"),
        ("small", "1.5", "A whole number"),
        ("small", "99999999999", "from -2147483648 to 2147483647"),
        ("length", "soon", "a duration like"),
        ("currency", "EURO", "of the form"),
    ],
)
def test_what_is_wrong_is_said_before_it_is_sent(page, forms, name, text, words):
    forms.do(asked(forms.served))
    page.go()
    page.open_first()
    page.choose("all")
    fill(page, **{name: text})
    page.send()
    assert page.run("return document.activeElement.name") == name
    assert words in page.run("return document.activeElement.validationMessage")
    assert page.run("return document.getElementById('outcome').textContent") == ""


def test_what_the_worker_refuses_is_said_and_can_be_mended(page, forms):
    forms.do(asked(forms.served))
    page.go()
    page.open_first()
    page.choose("all")
    fill(page, raw="!!!")
    page.send()
    assert "raw" in page.outcome("Not taken.")
    page.fill("raw", "aGk=")
    page.send()
    page.outcome("Recorded.")


def test_where_an_answer_needs_its_token_the_page_asks_for_it(driver, tmp_path):
    text = (
        Path(__file__)
        .with_name("forms.yaml")
        .read_text()
        .replace("strategy: interactionId", "strategy: signedResumeToken")
    )
    (tmp_path / "forms.yaml").write_text(text)
    with working(loaded_with(tmp_path / "forms.yaml")) as forms:
        forms.do(asked(forms.served))
        named = {"tenantId": "default", "limit": 1, "token": True}
        pending = forms.do(forms.served.api.answers.answer("pending", named))
        page = Page(driver, forms.url)
        page.go()
        page.open_first()
        page.choose("some")
        page.fill("code", "x")
        page.fill("count", "1")
        page.fill("resumeToken", "forged")
        page.send()
        page.outcome("Token refused.")
        page.fill("resumeToken", pending["interactions"][0]["resumeToken"])
        page.send()
        page.outcome("Recorded.")
        driver.get("about:blank")
