"""The page of one execution: where it stands, and all that became of it, while one looks."""

from __future__ import annotations

import pytest

from tests.api.serving import accepted

pytestmark = pytest.mark.browser


def test_it_shows_what_happens_while_one_looks(page, worker):
    interaction = worker.waiting()
    page.go(f"/executions/{interaction['executionId']}")
    page.until("#summary", "WAITING_EXTERNAL")
    page.until("#steps li.waiting[aria-current=step]", "Await Restaurant Decision")
    page.until("#interactions tr", "DISPATCHED")
    page.run("window.same = true")
    worker.do(worker.served.complete(interaction, accepted(interaction)))
    page.until("#summary", "SUCCEEDED")
    page.until("#events td", "success")
    page.until("#steps li.done", count=4)
    page.until("#units tr", "1 of 1")
    page.until("#interactions tr", "COMPLETED")
    assert page.run("return window.same"), "the page has not been loaded anew"


def test_it_leads_to_the_decision(page, worker):
    interaction = worker.waiting()
    page.go(f"/executions/{interaction['executionId']}")
    page.until("#interactions a").click()
    page.until("#answer")
    assert interaction["interactionId"] in page.driver.current_url


def test_what_is_not_there_is_told(page, worker):
    page.go("/executions/00000000-0000-8000-8000-000000000000")
    page.until("#notice", "no such execution")
