"""status, pending, complete and describe: asked of a running owner by its socket, and of a log that nobody runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import stat
from typing import Any

import pytest

from tests.e2e.program import (
    APPROVAL,
    PIPELINE,
    ROWS_1K,
    ROWS_12,
    SECRET,
    Place,
    assert_same_payments,
    environment,
    finish,
    result_of,
    started,
    tpf,
    wait_until,
)
from tests.orders import ANN
from tpf_streams.runtime.control import SOCKET_NAME, ask

ORDER = ANN


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def order(tmp_path):
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))
    return file


def asked(place: Place, command: str, *words: str) -> dict[str, Any]:
    return result_of(tpf(command, "--data-dir", place.data, "--json", *words))


def one_waits(place: Place) -> dict[str, Any] | None:
    """The first open interaction, once there is one."""
    if not place.data.exists():
        return None
    answer = ask(place.data, "pending", {"limit": 1, "payload": True, "token": True})
    return answer["interactions"][0] if answer and answer["interactions"] else None


def accepted(interaction: dict[str, Any]) -> str:
    order_id = interaction["requestPayload"]["orderId"]
    return json.dumps({"accepted": {"orderId": order_id, "decidedAt": "2026-01-01T00:00:00Z", "note": "fine"}})


def test_an_answer_by_hand_ends_a_waiting_run(place, order):
    with started(*place.words(order, pipeline=APPROVAL, provider=None), "--json") as process:
        wait_until(lambda: one_waits(place))
        waiting = one_waits(place)
        assert waiting is not None
        assert (waiting["step"], waiting["group"], waiting["needsToken"]) == (
            "Await Restaurant Decision",
            "Roma",
            False,
        )
        assert stat.S_IMODE((place.data / SOCKET_NAME).stat().st_mode) == 0o600
        complete = ["complete", "--data-dir", place.data, "--interaction-id", waiting["interactionId"], "--payload"]
        refused = tpf(*complete, '{"accepted": {"orderId": 1}}')
        assert (refused.returncode, refused.stdout) == (1, "invalid_payload\n")
        assert "RestaurantDecision" in refused.stderr and "orderId" in refused.stderr
        assert process.poll() is None
        admitted = tpf(*complete, accepted(waiting))
        assert (admitted.returncode, admitted.stdout) == (0, "admitted\n"), admitted.stderr
        found = finish(process)
    assert found.returncode == 0, found.stderr
    result = result_of(found)
    assert (result["completed"], result["by_arm"], result["dropped"]) == (1, {"accepted": 1}, 1)
    assert not (place.data / SOCKET_NAME).exists()
    again = tpf(*complete, accepted(waiting), "--json")
    assert (again.returncode, result_of(again)) == (0, {"outcome": "duplicate"})
    other = tpf(*complete, accepted(waiting).replace("fine", "no"), "--json")
    assert (other.returncode, result_of(other)) == (1, {"outcome": "conflict"})
    assert "another answer was admitted before" in other.stderr


def test_a_run_says_once_how_many_wait_and_how_to_answer(place):
    with started(*place.words(ROWS_12, provider=None)) as process:
        wait_until(lambda: one_waits(place))
        assert process.stderr is not None
        lines: list[str] = []
        while not (lines and "complete" in lines[-1]):
            lines.append(process.stderr.readline())
        assert any(line.startswith("12 interactions wait for an answer") for line in lines)
        listing, answer = (shlex.split(line) for line in lines[-2:])
        shown = tpf(*listing[1:], "--json")
        first = result_of(shown)["interactions"][0]
        assert first["interactionId"] == answer[answer.index("--interaction-id") + 1]
        assert first["requestPayload"]["csvId"]
        answer[answer.index("TOKEN")] = first["resumeToken"]
        answer[answer.index("--payload") + 1] = json.dumps({"approved": payment_status(first["requestPayload"])})
        admitted = tpf(*answer[1:])
        assert (admitted.returncode, admitted.stdout) == (0, "admitted\n"), admitted.stderr
        process.send_signal(signal.SIGINT)
        found = finish(process)
    assert found.returncode == 130
    assert first["resumeToken"] not in found.stderr + found.stdout
    assert "interactions wait" not in found.stderr


def payment_status(payment: dict[str, Any]) -> dict[str, Any]:
    return {
        "reference": "101",
        "status": "Complete",
        "message": "by hand",
        "fee": "0",
        "conversationId": "5d52cb98-f502-3efa-a42b-d5e43972fcdb",
        "statusCode": 1000,
        "paymentRecordId": payment["id"],
        "paymentRecord": payment,
    }


def test_without_an_owner_the_log_itself_is_asked(place):
    with started(*place.words(ROWS_12, provider=None)) as process:
        wait_until(lambda: one_waits(place))
        process.kill()
    assert (place.data / SOCKET_NAME).exists()  # left by the dead process, and nobody is behind it
    status = asked(place, "status")
    assert status["counts"] == {"RUNNING": 1}
    execution = status["executions"][0]
    assert (execution["items"], execution["inFlight"], execution["live"]) == (12, 12, True)
    assert asked(place, "pending", "--limit", "3")["count"] == 12
    described = asked(place, "describe")
    assert described["interactions"] == {"DISPATCHED": 12}
    assert described["topics"]["csv-payments.payment.requests"] == 12
    assert described["rows"]["deadlines"] == 12
    first = asked(place, "pending", "--payload", "--token")["interactions"][0]
    answer = json.dumps({"approved": payment_status(first["requestPayload"])})
    complete = ["--interaction-id", first["interactionId"], "--payload", answer]
    assert asked(place, "complete", *complete) == {"outcome": "resume_token_rejected"}
    assert asked(place, "complete", *complete, "--token", first["resumeToken"]) == {"outcome": "admitted"}
    assert asked(place, "pending")["count"] == 11
    last = tpf(*place.words(), "--json")
    assert last.returncode == 0, last.stderr
    assert result_of(last)["completed"] == 12
    assert_same_payments(ROWS_12, place.out / "payments_12.csv.out")


def test_an_answer_to_a_log_that_nobody_runs_carries_its_execution_to_the_end(place, order):
    with started(*place.words(order, pipeline=APPROVAL, provider=None)) as process:
        wait_until(lambda: one_waits(place))
        process.send_signal(signal.SIGTERM)
        assert finish(process).returncode == 143
    waiting = asked(place, "pending", "--payload")["interactions"][0]
    words = ["--interaction-id", waiting["interactionId"], "--payload", accepted(waiting)]
    assert asked(place, "complete", *words) == {"outcome": "admitted"}
    found = asked(place, "status")
    assert found["counts"] == {"SUCCEEDED": 1}
    assert found["executions"][0]["source"] == order.name
    one = asked(place, "status", found["executions"][0]["executionId"])
    assert [it["outcome"] for it in one["output"]] == ["APPROVED"]


def test_cancel_and_redrive_of_a_running_owner_and_of_a_log_that_nobody_runs(place, order):
    with started(*place.words(order, pipeline=APPROVAL, provider=None)) as process:
        wait_until(lambda: one_waits(place))
        first = one_waits(place)
        assert first is not None
        cancelled = tpf("cancel", "--data-dir", place.data, first["interactionId"], "--reason", "closed today")
        assert (cancelled.returncode, cancelled.stdout) == (0, "interaction cancelled\n"), cancelled.stderr
        found = finish(process)
    assert found.returncode == 1
    execution_id = first["executionId"]
    shown = asked(place, "status", execution_id)
    assert (shown["status"], shown["errorCode"]) == ("FAILED", "AWAIT_CANCELLED")
    assert "closed today" in shown["errorMessage"]

    stale = tpf("redrive", "--data-dir", place.data, execution_id, "--expected-version", "1", "--json")
    assert (stale.returncode, result_of(stale)) == (1, {"outcome": "version_mismatch"})
    assert "it has changed since" in stale.stderr
    assert asked(place, "redrive", execution_id, "--expected-version", str(shown["version"])) == {"outcome": "redriven"}
    second = asked(place, "pending")["interactions"][0]
    assert second["interactionId"] != first["interactionId"]
    assert asked(place, "cancel", execution_id) == {"kind": "execution", "outcome": "cancelled"}
    again = tpf("cancel", "--data-dir", place.data, execution_id)
    assert (again.returncode, again.stdout) == (1, "execution terminal\n")
    nobody = tpf("redrive", "--data-dir", place.data, "no-such-id", "--json")
    assert (nobody.returncode, result_of(nobody)) == (1, {"outcome": "not_found"})


def test_tables_for_people(place):
    assert tpf(*place.words(ROWS_12)).returncode == 0
    shown = tpf("status", "--data-dir", place.data)
    assert "payments_12.csv" in shown.stdout
    assert "1 SUCCEEDED" in shown.stdout
    execution_id = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", shown.stdout)[0]
    one = tpf("status", "--data-dir", place.data, execution_id)
    assert re.search(r"published +payments_12.csv.out", one.stdout)
    assert "0 waiting, 0 shown" in tpf("pending", "--data-dir", place.data).stdout
    described = tpf("describe", "--data-dir", place.data).stdout
    assert "─▶ [1] Await Payment Provider (await kafka) ─▶ PaymentStatus" in described
    assert re.search(r"csv-payments-outputs +│ +12 ", described)


def test_the_pipeline_is_remembered_without_its_secrets(place, tmp_path):
    given = ["--set", f"pipeline.orchestrator.resume-token-secret={SECRET}", "--set", "topology.partitions=3"]
    env = environment(PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET=None)
    assert tpf(*place.words(ROWS_12), *given, env=env).returncode == 0
    note = json.loads((place.data / "run.json").read_text())
    assert (note["pipeline"], note["settings"]) == (str(PIPELINE), {"topology.partitions": "3"})
    assert stat.S_IMODE((place.data / "run.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(place.data.stat().st_mode) == 0o700
    shown = tpf("status", "--data-dir", place.data, "--json", env=env)
    assert result_of(shown)["counts"] == {"SUCCEEDED": 1}
    (place.data / "run.json").unlink()
    unknown = tpf("status", "--data-dir", place.data, env=env)
    assert unknown.returncode == 2
    assert "name it with --pipeline" in unknown.stderr


def test_a_folder_without_a_log_is_a_wrong_call(tmp_path):
    found = tpf("status", "--data-dir", tmp_path)
    assert found.returncode == 2
    assert "holds no log of a run" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_owner_with_a_long_path_is_found(tmp_path):
    folder = tmp_path / ("a-long-name-" * 10)
    place = Place(folder)
    with started(*place.words(ROWS_12, provider=None)) as process:
        wait_until(lambda: one_waits(place))
        assert len(os.fsencode(place.data / SOCKET_NAME)) > 108
        assert asked(place, "pending")["count"] == 12
        process.send_signal(signal.SIGTERM)
        assert finish(process).returncode == 143


def test_an_owner_that_does_not_read_is_not_waited_for_for_ever(place, monkeypatch):
    monkeypatch.setattr("tpf_streams.runtime.control.ANSWER_TIMEOUT_S", 0.5)
    place.data.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(place.data / SOCKET_NAME))
        deaf.listen()
        with pytest.raises(Exception, match="does not answer"):
            ask(place.data, "status", {})


def test_questions_do_not_stop_a_run(place):
    """A run of a thousand is asked for everything again and again, and ends as it should."""
    with started(*place.words(ROWS_1K, provider="reject=0.08,delay-ms=100"), "--json") as process:
        wait_until(lambda: one_waits(place))
        while process.poll() is None:
            for command in ("status", "pending", "describe"):
                try:
                    ask(place.data, command, {"limit": 1000})
                except Exception:
                    assert process.wait(20) == 0
        found = finish(process)
    assert found.returncode == 0, found.stderr
    assert result_of(found)["by_arm"] == {"approved": 907, "unapproved": 93}


def test_an_input_is_taken_by_a_running_owner_and_by_a_log_that_nobody_runs(place, order):
    with started(*place.words(order, pipeline=APPROVAL, provider=None), "--json") as process:
        wait_until(lambda: one_waits(place))
        first = asked(place, "submit", f"@{order}", "--key", "a")
        shown = asked(place, "show", first["executionId"])
        assert (first["outcome"], shown["units"][0]["status"]) == ("submitted", "WAITING_EXTERNAL")
        process.send_signal(signal.SIGINT)
        assert finish(process).returncode == 130
    assert asked(place, "submit", f"@{order}", "--key", "a")["outcome"] == "duplicate"
    second = tpf("submit", f"@{order}", "--key", "b", "--data-dir", place.data, "--wait", "--json")
    assert (second.returncode, result_of(second)["status"]) == (1, "WAITING_EXTERNAL")
    assert "nobody runs there" in second.stderr
    interaction = asked(place, "show", result_of(second)["executionId"])["units"][0]["interaction"]
    asked(place, "complete", "--interaction-id", interaction["interactionId"], "--payload", accepted(interaction))
    third = asked(place, "submit", f"@{order}", "--key", "b", "--wait")
    assert (third["status"], third["result"]["outcome"]) == ("SUCCEEDED", "APPROVED")
    assert asked(place, "show", interaction["interactionId"])["interaction"]["responsePayload"] is not None
    unknown = tpf("show", "5d52cb98-f502-3efa-a42b-d5e43972fcdb", "--data-dir", place.data, "--json")
    assert (unknown.returncode, result_of(unknown)["error"]["code"]) == (1, "not_found")
