"""People decide in the inbox: with the mouse, with the keyboard, two at once; and see what happens meanwhile."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.api.serving import accepted, declined

pytestmark = pytest.mark.browser


def test_an_order_is_accepted(page, worker):
    interaction = worker.waiting()
    page.go()
    page.open_first()
    assert "2 pizza, 1 salad" in page.until("#decision .payload").text
    assert "in 29 min" in page.until("#decision .facts").text
    page.choose("accepted")
    assert page.until("#answer [name=orderId]").get_attribute("value") == interaction["requestPayload"]["orderId"]
    page.fill("note", "in 20 minutes")
    page.send()
    assert "your answer counts" in page.outcome("Recorded.").lower()
    execution = worker.do(worker.served.ended(interaction["executionId"]))
    result = worker.do(worker.served.get(f"/pipeline/executions/{interaction['executionId']}/result"))
    assert (execution["status"], result["outcome"], result["summary"]) == ("SUCCEEDED", "APPROVED", "in 20 minutes")
    page.gone("#entries li")
    page.until("#count", "Nothing waits")


def test_an_order_is_declined_and_says_by_whom(page, worker):
    interaction = worker.waiting()
    page.go()
    page.until("#who summary").click()
    page.until("#who-form [name=actor]").send_keys("Bea")
    page.until("#who-form button").click()
    page.open_first()
    page.choose("declined")
    page.send()
    assert page.run("return document.activeElement.name") == "declineReason", "what is missing has the focus"
    page.fill("declineReason", "closed")
    page.send()
    page.outcome("Recorded.")
    worker.do(worker.served.ended(interaction["executionId"]))
    result = worker.do(worker.served.get(f"/pipeline/executions/{interaction['executionId']}/result"))
    assert (result["outcome"], result["summary"]) == ("DECLINED", "closed")
    found = worker.do(worker.served.get(f"/pipeline/interactions/{interaction['interactionId']}"))
    assert found["actor"] == "Bea"


def test_the_keyboard_is_enough(page, worker):
    interaction = worker.waiting()
    page.go()
    page.until("#entries a")
    page.tab_to("#entries a")
    page.press(Keys.ENTER)
    page.until("#answer")
    assert page.run("return document.activeElement.id") == "decision-title"
    page.tab_to("#answer input[type=radio]")
    page.press(Keys.SPACE)
    page.tab_to("#answer [name=note]")
    page.press("by hand")
    page.tab_to("#answer button.main")
    page.press(Keys.ENTER)
    page.outcome("Recorded.")
    assert page.run("return document.activeElement.id") == "outcome"
    page.tab_to("#outcome a")
    page.press(Keys.ENTER)
    page.until("#decision", "Choose what to decide")
    worker.do(worker.served.ended(interaction["executionId"]))
    result = worker.do(worker.served.get(f"/pipeline/executions/{interaction['executionId']}/result"))
    assert result["summary"] == "by hand"


def test_new_work_is_there_at_once_and_the_focus_stays(page, worker):
    worker.waiting("o-1", customerName="Ada")
    page.go()
    page.until("#line", "Live")
    page.until("#entries a", "Ada")
    page.run("document.querySelector('#entries a').focus(); window.same = true")
    second = worker.waiting("o-2", customerName="Ben")
    page.until("#entries li", "Ben")
    page.until("#entries li", count=2)
    assert "Ada" in page.run("return document.activeElement.closest('#entries a').innerText")
    worker.do(worker.served.complete(second, accepted(second)))
    page.until("#entries li", count=1)
    assert "Ada" in page.run("return document.activeElement.closest('#entries a').innerText")
    assert page.run("return window.same"), "the page has not been loaded anew"


def test_what_is_typed_stays_while_the_list_changes(page, worker):
    worker.waiting("o-1")
    page.go()
    page.open_first()
    page.choose("declined")
    page.fill("declineReason", "half a sen")
    worker.waiting("o-2")
    page.until("#entries li", count=2)
    page.press("tence")
    assert page.until("#answer [name=declineReason]").get_attribute("value") == "half a sentence"


def test_of_two_people_the_slower_is_told_before_he_sends(page, worker):
    worker.waiting()
    page.go()
    page.open_first()
    page.choose("declined")
    page.fill("declineReason", "closed")
    first = page.new_tab()
    page.until("#who summary").click()
    page.until("#who-form [name=actor]").send_keys("Bea")
    page.until("#who-form button").click()
    page.open_first()
    page.choose("accepted")
    page.send()
    page.outcome("Recorded.")
    page.driver.switch_to.window(first)
    told = page.outcome("Somebody was faster.")
    assert "Bea" in told and "accepted" in told
    assert not page.until("#answer button.main").is_enabled()
    assert page.until("#answer [name=declineReason]").get_attribute("value") == "closed", "nothing typed is lost"


@pytest.mark.parametrize(
    ("answer", "title", "words"),
    [(accepted, "Somebody was faster.", "yours does not count"), (declined, "Recorded already.", "it counts once")],
)
def test_of_two_people_the_slower_is_told_who_sends_at_once(page, worker, answer, title, words):
    """As if no word of the first answer had come in time."""
    interaction = worker.waiting()
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/pipeline/interactions/changes*"]})
    page.go()
    page.open_first()
    page.choose("declined")
    page.fill("declineReason", "closed")
    page.run("document.querySelector('[name=decidedAt]').value = '2026-01-01T10:00:00'")
    decided = page.run("return new Date('2026-01-01T10:00:00').toISOString()")
    payload = answer(interaction)
    payload[next(iter(payload))]["decidedAt"] = decided
    worker.do(worker.served.complete(interaction, payload, actor="Bea"))
    page.send()
    told = page.outcome(title)
    assert words in told and ("Bea" in told) == (answer is accepted)
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def test_work_is_cancelled(page, worker):
    interaction = worker.waiting()
    page.go()
    page.open_first()
    page.until("#decision .cancel summary").click()
    page.until("#decision .cancel [name=reason]").send_keys("a mistake")
    page.until("#decision .cancel button").click()
    page.outcome("Cancelled.")
    found = worker.do(worker.served.get(f"/pipeline/interactions/{interaction['interactionId']}"))
    assert found["status"] == "CANCELLED"
    page.gone("#entries li")
