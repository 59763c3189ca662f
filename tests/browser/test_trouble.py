"""When something is in the way: a token is wanted, the worker does not answer, there is more than one page of work."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.serving import accepted
from tpf_streams.api.access import Access
from tpf_streams.api.problems import ProblemError

pytestmark = pytest.mark.browser


@pytest.fixture
def locked(monkeypatch):
    """Who does not show the token is nobody."""
    caller = Access.caller

    def checked(self, request, *, explicit):
        if request.headers.get("Authorization") != "Bearer let-me-in":
            raise ProblemError(401, "unauthenticated", "an access token is wanted")
        return caller(self, request, explicit=explicit)

    monkeypatch.setattr(Access, "caller", checked)


def test_a_token_is_asked_for_and_kept_in_this_tab_alone(page, worker, request):
    interaction = worker.waiting()
    request.getfixturevalue("locked")
    page.go(f"/inbox#{interaction['interactionId']}")
    page.until("#notice", "access token")
    page.until("#who-form [name=token]").send_keys("let-me-in")
    page.until("#who-form button").click()
    page.until("#answer")
    assert not page.all("#notice:not([hidden])")
    page.choose("accepted")
    page.send()
    page.outcome("Recorded.")
    kept = page.run("return [localStorage.length, document.cookie, location.href.includes('let-me-in')]")
    assert kept == [0, "", False]
    assert [it for it in page.asked() if "let-me-in" in it] == []
    page.new_tab()
    page.until("#notice", "access token")


def test_an_answer_that_nobody_acknowledged_is_sent_again(page, worker):
    interaction = worker.waiting()
    page.go()
    page.open_first()
    page.choose("accepted")
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/complete"]})
    page.send()
    assert "counts once" in page.outcome("No answer.")
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.send()
    page.outcome("Recorded.")
    assert worker.do(worker.served.ended(interaction["executionId"]))["status"] == "SUCCEEDED"


def test_more_than_a_page_of_work_and_a_part_of_it(page, worker):
    async def many():
        await asyncio.gather(*(worker.served.submitted(f"o-{n}", restaurantName=f"R{n % 2}") for n in range(60)))
        async with asyncio.timeout(10):
            while len(await worker.served.get("/pipeline/interactions/pending", limit=500)) < 60:
                await asyncio.sleep(0.05)

    worker.do(many())
    page.go()
    page.until("#count", "50 and more waiting")
    page.until("#more").click()
    page.until("#count", "60 waiting")
    page.until("#filters [name=group]").send_keys("R1")
    page.until("#filters button").click()
    page.until("#count", "30 waiting")
    page.driver.refresh()
    page.until("#count", "30 waiting")


def test_who_stands_on_what_goes_is_taken_to_its_neighbour(page, worker):
    first = worker.waiting("o-1", customerName="Ada")
    worker.waiting("o-2", customerName="Ben")
    page.go()
    page.until("#entries li", count=2)
    page.until("#line", "Live")
    page.run("document.querySelector('#entries a').focus()")
    assert "Ada" in page.focused().text
    worker.do(worker.served.complete(first, accepted(first)))
    page.until("#entries li", count=1)
    assert page.run("return document.activeElement.matches('#entries a')") and "Ben" in page.focused().text


def test_work_that_is_not_there_is_told(page, worker):
    page.go("/inbox#00000000-0000-8000-8000-000000000000")
    page.until("#decision", "no such work")
