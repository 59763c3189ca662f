"""Who may answer: tokens by strategy and setting, secrets that are replaced, tenants that stay apart."""

from __future__ import annotations

import pytest

from tests.field.pipelines import DECISION, Steps, open_driver
from tpf_streams.errors import DefinitionError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing import ManualClock

SECRET = "pipeline.orchestrator.resume-token-secret"
PREVIOUS = "pipeline.orchestrator.resume-token-previous-secrets"
APPROVED = {"status": "APPROVED"}
OLD, NEW = "the old secret of this application", "the new secret of this application"


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [({SECRET: NEW, PREVIOUS: OLD}, "admitted"), ({SECRET: NEW}, "resume_token_rejected")],
    ids=["rotated", "forgotten"],
)
def test_a_secret_is_replaced_while_answers_are_open(tmp_path, settings, outcome):
    """Contract 0.13: the new one signs, the previous ones still verify."""
    clock = ManualClock()
    log = MemoryLog(application_id="field-cases", partitions=1, clock=clock)
    with open_driver(tmp_path, DECISION, settings={SECRET: OLD}, clock=clock, log=log) as driver:
        driver.submit({"orderId": "o-1"})
        driver.stop()
    with open_driver(tmp_path, DECISION, settings=settings, clock=clock, log=log) as driver:
        (old,) = driver.requests()
        assert driver.answer(old, APPROVED) == outcome
        driver.submit({"orderId": "o-2"})
        assert driver.answer(driver.requests()[-1], APPROVED) == "admitted"


@pytest.mark.parametrize("secret", ["", "   "])
def test_without_a_secret_nothing_starts(tmp_path, secret):
    with pytest.raises(DefinitionError, match="resume-token-secret"):
        open_driver(tmp_path, DECISION, settings={SECRET: secret})


@pytest.mark.parametrize(
    ("strategy", "settings", "outcome"),
    [
        ("signedResumeToken", {}, "resume_token_rejected"),
        ("signedResumeToken", {"await.correlation.require-token": "false"}, "admitted"),
        ("interactionId", {}, "admitted"),
    ],
)
def test_whether_a_token_is_required(tmp_path, strategy, settings, outcome):
    """Contract 0.2; a token that is supplied is checked by every strategy, and every request carries one."""
    text = DECISION.replace("signedResumeToken", strategy)
    with open_driver(tmp_path, text, settings=settings) as driver:
        driver.submit({"orderId": "o-1"})
        (request,) = driver.requests()
        payload, _, signature = request["resumeToken"].partition(".")
        assert driver.answer(request, APPROVED, resumeToken=f"{payload}.x{signature[1:]}") == "resume_token_rejected"
        assert driver.answer(request, APPROVED, resumeToken=None) == outcome
        assert driver.answer(request, APPROVED) == ("duplicate" if outcome == "admitted" else "admitted")


def test_a_token_of_another_interaction_is_refused(tmp_path):
    """T22: signed by us, and yet not for this row."""
    with open_driver(tmp_path, DECISION) as driver:
        driver.submit({"orderId": "o-1"})
        driver.submit({"orderId": "o-2"})
        first, second = driver.requests()
        assert driver.answer(first, APPROVED, resumeToken=second["resumeToken"]) == "resume_token_rejected"
        assert driver.answer(first, APPROVED, correlationId=second["correlationId"]) == "identity_mismatch"
        assert driver.answer(first, APPROVED, interactionId=None) == "admitted"
        assert sorted(it.status for it in driver.executions()) == ["SUCCEEDED", "WAITING_EXTERNAL"]


def test_tenants_have_executions_of_their_own(tmp_path):
    """The same key and content under two tenants is two executions; the tenant of a row is the tenant of its answer."""
    steps = Steps()
    settings = {"pipeline.orchestrator.default-tenant": "house"}
    with open_driver(tmp_path, DECISION, steps, settings=settings, partitions=4) as driver:
        ids = [driver.submit({"orderId": "o-1"}, tenant=tenant) for tenant in ("red", "blue", None, "house")]
        assert len(set(ids)) == 3
        assert ids[2] == ids[3]
        by_tenant = {it["tenantId"]: it for it in driver.requests()}
        assert by_tenant.keys() == {"red", "blue", "house"}
        assert driver.answer(by_tenant["red"], APPROVED, tenantId="blue") == "tenant_mismatch"
        assert driver.answer(by_tenant["red"], APPROVED, tenantId="  red ") == "admitted"
        assert driver.execution(ids[1]).status == "WAITING_EXTERNAL"
        assert [it["tenantId"] for it in driver.outputs()] == ["red"]
