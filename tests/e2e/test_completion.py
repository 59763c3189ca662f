"""Types of a provider's own on the embedded log: killed between the request and its answer, it goes on."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Place, finish, result_of, started, tpf, wait_until
from tests.topology.partner import ORDER, PROJECTED, PROTOBUF, written
from tpf_streams.runtime.control import ask

APPROVED = {"approved": {"orderId": "o-1", "score": "9007199254740993", "limit": "0.10", "later": True}}
OTHER = PROJECTED.replace("decided}", "decided_otherwise}")


def waiting(place: Place) -> dict[str, Any] | None:
    answer = ask(place.data, "pending", {"limit": 1, "token": True}) if place.data.exists() else None
    return answer["interactions"][0] if answer and answer["interactions"] else None


def answered(place: Place, payload: Any) -> Any:
    wait_until(lambda: waiting(place))
    row = waiting(place)
    assert row is not None
    words = ["--interaction-id", row["interactionId"], "--token", row["resumeToken"], "--payload", json.dumps(payload)]
    return tpf("complete", "--data-dir", place.data, *words)


@pytest.mark.parametrize(
    ("parts", "wrong", "told", "answer", "note"),
    [
        ({"types": PROTOBUF}, {"approved": []}, "approved: an object is wanted", APPROVED, "9007199254740994 of 0.10"),
        ({"completion": PROJECTED}, {"ok": 5}, "ok: refused (bool_", {"ok": False, "reasons": ["a", "b"]}, "a, b"),
    ],
    ids=["protobuf", "projector"],
)
def test_killed_between_request_and_answer(tmp_path, parts, wrong, told, answer, note):
    place, pipeline, order = Place(tmp_path), tmp_path / "pipeline.yaml", tmp_path / "order.json"
    pipeline.write_text(written(**parts))
    order.write_text(json.dumps(ORDER))
    words = [*place.words(order, pipeline=pipeline, provider=None), "--json"]
    with started(*words) as process:
        wait_until(lambda: waiting(place))
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    with started(*words) as process:
        refused = answered(place, wrong)
        assert (refused.returncode, refused.stdout) == (1, "invalid_payload\n")
        assert told in refused.stderr
        admitted = answered(place, answer)
        assert (admitted.returncode, admitted.stdout) == (0, "admitted\n"), admitted.stderr
        found = finish(process)
    assert found.returncode == 0, found.stderr
    (execution,) = result_of(tpf("status", "--data-dir", place.data, "--json"))["executions"]
    detail = result_of(tpf("status", "--data-dir", place.data, "--json", execution["executionId"]))
    assert (detail["status"], note in json.dumps(detail)) == ("SUCCEEDED", True)


def test_a_release_with_another_projector_does_not_answer_what_was_asked_before(tmp_path):
    place, pipeline, order = Place(tmp_path), tmp_path / "pipeline.yaml", tmp_path / "order.json"
    order.write_text(json.dumps(ORDER))
    words = [*place.words(order, pipeline=pipeline, provider=None), "--json"]
    pipeline.write_text(written(completion=PROJECTED))
    with started(*words) as process:
        wait_until(lambda: waiting(place))
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    pipeline.write_text(written(completion=OTHER))
    with started(*words) as process:
        refused = answered(place, {"ok": True})
        assert (refused.returncode, refused.stdout) == (1, "invalid_payload\n")
        assert "by tests.topology.partner:decided and now has" in refused.stderr
        process.send_signal(signal.SIGINT)
        finish(process)
    pipeline.write_text(written(completion=PROJECTED))
    with started(*words) as process:
        assert answered(place, {"ok": True}).stdout == "admitted\n"
        assert finish(process).returncode == 0


def test_validate_shows_what_is_spoken_with_the_provider(tmp_path):
    pipeline: Path = tmp_path / "pipeline.yaml"
    pipeline.write_text(written(completion=PROJECTED))
    found = tpf("validate", pipeline)
    assert found.returncode == 0, found.stderr
    shown = " ".join(found.stdout.split())
    assert "answers are tests.topology.partner.Verdict, projected by tests.topology.partner:decided" in shown
    pipeline.write_text(written(types=PROTOBUF))
    shown = " ".join(tpf("validate", pipeline).stdout.split())
    assert "requests are partner.v1.OrderMessage, answers are partner.v1.DecisionMessage" in shown
