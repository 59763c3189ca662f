"""The HTTP API on Faust's web server, on Kafka: two workers, and each answers for what the other has."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.e2e.faust_worker import FaustWorker, committed, fresh_id
from tests.e2e.test_faust_topologies import copied
from tests.e2e.test_http import COMPLETE, DECIDED_AT, HEADERS, ORDER, PENDING

pytestmark = pytest.mark.broker


def ask(worker: FaustWorker, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    named = {**HEADERS, **{name.replace("_", "-"): text for name, text in headers.items()}}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{worker.port}{path}", data, named)
    try:
        with urllib.request.urlopen(request, timeout=20) as found:
            return found.status, json.load(found)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


async def test_a_restaurant_decides_at_either_worker(tmp_path, bootstrap_servers):
    """Orders come in at one worker, decisions at the other; whoever does not have a row asks its owner."""
    name, count = fresh_id("approval"), 12
    project = copied(tmp_path / "project", "restaurant_approval", "restaurant-approval", name, "worker.py")
    app = "topologies.restaurant_approval"
    with (
        FaustWorker(app, bootstrap_servers, tmp_path / "one", project) as one,
        FaustWorker(app, bootstrap_servers, tmp_path / "other", project) as other,
    ):
        one.until_ready()
        other.until_ready()
        one.until(lambda: {ask(one, "/ready")[0], ask(other, "/ready")[0]} == {200})
        begun = {}
        for number in range(count):
            one.until(lambda key=f"o-{number}": ask(one, "/pipeline/run-async", ORDER, Idempotency_Key=key)[0] == 202)
            status, found = ask(other, "/pipeline/run-async", ORDER, Idempotency_Key=f"o-{number}")
            assert (status, found["duplicate"]) == (202, True)
            begun[found["executionId"]] = found["statusUrl"]
        one.until(lambda: len(ask(other, PENDING)[1]) == count)
        mine = {it for it in begun if ask(one, "/pipeline/executions/" + it, x_tpf_partitions="0@0")[0] == 200}
        assert mine == set(), "whoever is asked for another worker answers of what that one knows, or not at all"
        for it in ask(one, PENDING)[1]:
            assert ask(other, begun[it["executionId"]])[1]["stepIndex"] == 2
            decision = {"accepted": {"orderId": it["requestPayload"]["orderId"], "decidedAt": DECIDED_AT}}
            body = {"interactionId": it["interactionId"], "responsePayload": decision}
            assert [ask(worker, COMPLETE, body)[1]["outcome"] for worker in (other, one)] == ["admitted", "duplicate"]
        for path in begun.values():
            one.until(lambda path=path: ask(one, path)[1]["status"] == "SUCCEEDED")
            assert ask(other, path)[1]["stepIndex"] == 3
            assert ask(other, path + "/result")[1]["outcome"] == "APPROVED"
        assert "tpf_await_completion_admitted_total" in one.text("/metrics")
        outputs = await committed(bootstrap_servers, f"{name}-outputs", count)
        assert len({it["executionId"] for it in outputs}) == len(outputs) == count
        assert other.stop() < 10
        one.stop()
