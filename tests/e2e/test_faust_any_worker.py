"""Two `faust … worker` of csv-payments: each shows and ends what the other one has."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.e2e.faust_worker import FaustWorker, Payments
from tests.e2e.program import ROWS_12

pytestmark = pytest.mark.broker
PENDING = "/pipeline/interactions/pending"


@pytest.fixture
def payments(tmp_path):
    return Payments(tmp_path / "project")


def worker(payments: Payments, broker: str, number: int) -> FaustWorker:
    return FaustWorker("topologies.csv_payments", broker, payments.folder.parent / f"worker-{number}", payments.folder)


def asked(worker: FaustWorker, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and body; a 503 always says when to ask again."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-tenant-id": "default", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{worker.port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            status, named, found = int(answer.status), answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        status, named, found = error.code, error.headers, json.load(error)
    assert status != 503 or named["Retry-After"] == "1"
    return status, found


def test_payments_are_seen_and_cancelled_by_the_worker_that_does_not_have_them(payments, bootstrap_servers):
    with worker(payments, bootstrap_servers, 0) as one, worker(payments, bootstrap_servers, 1) as other:
        both = (one, other)
        for each in both:
            each.until_ready()
        shutil.copy(ROWS_12, payments.inputs)
        lists: dict[FaustWorker, list[dict[str, Any]]] = {}

        def listed() -> bool:
            for each in both:
                status, lists[each] = asked(each, PENDING)
                assert status in (200, 503), lists[each]
                if status == 503 or len(lists[each]) < 12:
                    return False
            return True

        one.until(listed)
        assert lists[one] == lists[other]
        (execution_id,) = {it["executionId"] for it in lists[one]}
        path = f"/pipeline/executions/{execution_id}"
        owner, stranger = sorted(both, key=lambda it: it.get("/payments/")["waiting"], reverse=True)
        assert stranger.get("/payments/")["waiting"] == 0, "one execution has one owner"
        assert [asked(each, path) for each in both] == [asked(owner, path)] * 2
        assert asked(stranger, path + "/cancel", {"reason": "no"}) == (200, {"outcome": "cancelled"})
        assert asked(stranger, path + "/cancel", {"reason": "no"})[0] == 409
        assert asked(stranger, path)[1]["status"] == "FAILED"
        stranger.until(lambda: asked(stranger, PENDING) == (200, []))
        for each in both:
            each.stop()
