"""A provider that speaks other types than the pipeline: protobuf, models of its own, projectors (contract 1.5, 3)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.topology import partner
from tests.topology.partner import ORDER, PROJECTED, PROTOBUF, DecisionMessage, OrderMessage, written
from tests.topology.payments import DATA, open_payments, simulate
from tests.topology.payments import PIPELINE as PAYMENTS
from tests.topology.payments import written as payments_written
from tpf_streams.core.step import COMPLETION_PROJECTOR
from tpf_streams.dsl.outgoing import outgoing
from tpf_streams.testing import TopologyTestDriver

APPROVED = {"approved": {"orderId": "o-1", "score": "9007199254740993", "limit": "0.10"}}
DECLINED = {"declined": {"orderId": "o-1", "reason": "no"}}


class Scene:
    """A pipeline in a folder, whose next release may be another one."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pipeline.yaml"

    @contextmanager
    def driver(self, log: Any = None, clock: Any = None, **parts: str) -> Iterator[TopologyTestDriver]:
        self.file.write_text(written(**parts), encoding="utf-8")
        with TopologyTestDriver(self.file, log=log, clock=clock) as found:
            yield found


@pytest.fixture
def scene(tmp_path) -> Scene:
    return Scene(tmp_path)


def result(driver: TopologyTestDriver, execution_id: str) -> dict[str, Any]:
    assert driver.execution(execution_id).status == "SUCCEEDED"
    (found,) = driver.results(execution_id)
    payload: dict[str, Any] = found.payloads[0]
    return payload


# Messages, both ways


def test_requests_are_messages_as_protojson(scene):
    with scene.driver(types=PROTOBUF) as driver:
        driver.submit(ORDER)
        (request,) = driver.requests()
        assert (request["inputType"], request["outputType"]) == (
            "partner.v1.OrderMessage",
            "partner.v1.DecisionMessage",
        )
        assert request["requestPayload"] == ORDER
        (row,) = driver.pending()
        assert (row.input_type, row.output_type, row.request_payload) == ("Order", "Decision", ORDER)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("answer", "note"),
    [(APPROVED, "9007199254740994 of 0.10"), (DECLINED, "no")],
)
def test_the_arm_of_a_message_survives_a_restart_and_the_handoff(scene, answer, note, restarts):
    with scene.driver(types=PROTOBUF) as driver:
        execution_id = driver.submit(ORDER)
        if restarts:
            driver.crash()
        driver.hold_demand()
        message = DecisionMessage()
        arm, fields = next(iter(answer.items()))
        part = getattr(message, arm)
        for name, value in fields.items():
            setattr(part, {"orderId": "order_id"}.get(name, name), int(value) if name == "score" else value)
        assert driver.answer(driver.requests()[0], message) == "admitted"
        if restarts:
            driver.crash()
        assert result(driver, execution_id) == {"orderId": "o-1", "released": arm == "approved", "note": note}
        (row,) = driver.results(execution_id)
        assert row.arm == arm
        interaction = driver.interaction(driver.requests()[0]["interactionId"])
        assert interaction.response_payload == answer


def test_fields_that_nobody_knows_are_ignored_and_either_spelling_is_read(scene):
    with scene.driver(types=PROTOBUF) as driver:
        execution_id = driver.submit(ORDER)
        answer = {"approved": {"order_id": "o-1", "score": 7, "limit": "1.10", "more": {"a": [1]}}, "later": 1}
        assert driver.answer(driver.requests()[0], answer) == "admitted"
        assert result(driver, execution_id)["note"] == "8 of 1.10"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("approved", "partner.v1.DecisionMessage: an object is wanted"),
        ([], "partner.v1.DecisionMessage: an object is wanted"),
        ({"approved": []}, "partner.v1.DecisionMessage: approved: an object is wanted"),
        ({"approved": {}, "declined": {}}, "partner.v1.DecisionMessage: no ProtoJSON of"),
        ({"approved": {"score": "s3cret"}}, "partner.v1.DecisionMessage: approved.score: an int64 is wanted"),
        ({"approved": {"orderId": "o-1", "limit": 5}}, "partner.v1.DecisionMessage: limit: no ProtoJSON of"),
        ({}, "to Decision: one of approved, declined is wanted as the key"),
        ({"approved": {"orderId": "o-1", "score": 1}}, "to Decision: approved.limit: a plain decimal is wanted"),
        ({"approved": {"orderId": "o-1", "limit": "1e3"}}, "to Decision: approved.limit: a plain decimal is wanted"),
    ],
)
def test_the_transport_value_is_held_against_its_type_first_and_then_against_ours(scene, answer, told):
    with scene.driver(types=PROTOBUF) as driver:
        driver.submit(ORDER)
        assert driver.answer(driver.requests()[0], answer) == "invalid_payload"
        (letter,) = driver.dead_letters()
        headers = {name: value.decode() for name, value in letter.headers}
        assert told in " ".join(headers.values())
        assert "s3cret" not in " ".join(headers.values())
        assert driver.answer(driver.requests()[0], DECLINED) == "admitted"


def test_a_request_that_the_message_cannot_hold_fails_before_it_leaves(scene):
    with scene.driver(types="inputType: tests.topology.partner:SmallOrder") as driver:
        execution_id = driver.submit(ORDER)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.error_code) == ("FAILED", "INVALID_PAYLOAD")
        assert "Failed to normalize await payload from Order" in (execution.error_message or "")
        assert ORDER["amount"] not in (execution.error_message or "")
        assert driver.requests() == []
        driver.submit({**ORDER, "amount": "999.990", "more": 1})
        assert driver.requests()[0]["requestPayload"] == {**ORDER, "amount": "999.990", "priority": 2**53 + 1}


def paid(folder: Path, pipeline: Path, *, durable: bool, lost: bool) -> list[dict[str, str]]:
    """The output rows of 12 payments. `durable`: without a live session; `lost`: the process, while answers come."""
    with open_payments(folder, concurrency=4, pipeline=pipeline) as driver:
        simulate(driver, delay_ms=300, reject=0.5)
        (execution_id,) = driver.submit_files(DATA / "payments_12.csv")
        driver.advance(350)
        if durable:
            driver.cancel_session(execution_id)
        if lost:
            driver.stop()
            driver.advance(300)
            driver.start()
        driver.advance(30_000)
        execution = driver.execution(execution_id)
        assert execution.status == "SUCCEEDED" and execution.summary is not None
        arms = execution.summary.by_arm
        assert (sum(arms.values()), min(arms.values()) > 0) == (12, True)
    return payments_written(folder, "payments_12.csv")


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_a_stream_of_messages_gives_what_a_stream_of_ours_does(tmp_path, durable, lost):
    pipeline = tmp_path / "pipeline.yaml"
    text = PAYMENTS.read_text(encoding="utf-8")
    types = "PaymentRecordMessage\n        outputType: tests.topology.partner:PaymentStatusMessage\n"
    kafka = "        type: kafka\n"
    assert kafka in text
    pipeline.write_text(text.replace(kafka, f"{kafka}        inputType: tests.topology.partner:{types}"))
    plain = paid(tmp_path / "plain", PAYMENTS, durable=durable, lost=lost)
    assert paid(tmp_path / "messages", pipeline, durable=durable, lost=lost) == plain
    assert len(plain) == 12


# Projectors


def test_a_projector_makes_the_output_of_request_and_answer(scene):
    with scene.driver(completion=PROJECTED) as driver:
        execution_id = driver.submit(ORDER)
        (request,) = driver.requests()
        assert (request["inputType"], request["outputType"]) == ("Order", "tests.topology.partner.Verdict")
        assert driver.pending()[0].transport_metadata[COMPLETION_PROJECTOR] == "tests.topology.partner:decided"
        assert driver.answer(request, {"ok": True, "share": "0.5"}) == "admitted"
        row = driver.interaction(request["interactionId"])
        limit = "50000000000000000.550"
        assert row.response_payload == {"approved": {"orderId": "o-1", "score": ORDER["priority"], "limit": limit}}
        assert result(driver, execution_id)["note"] == f"9007199254740994 of {limit}"


def test_a_repeat_is_told_from_a_conflict_by_what_was_sent(scene):
    with scene.driver(completion=PROJECTED) as driver:
        driver.submit(ORDER)
        (request,) = driver.requests()
        assert driver.answer(request, {"ok": False, "reasons": ["a", "b"]}) == "admitted"
        assert driver.answer(request, {"reasons": ["a", "b"], "ok": False}) == "duplicate"
        assert driver.answer(request, {"ok": False, "reasons": ["a, b"]}) == "conflict", "it projects to the same"
        driver.crash()
        assert driver.answer(request, {"ok": False, "reasons": ["a", "b"]}) == "duplicate"
        assert driver.answer(request, {"ok": "perhaps"}) == "invalid_payload"


def test_a_projector_that_fails_leaves_the_interaction_as_it_was(scene, caplog):
    caplog.set_level(logging.DEBUG)
    with scene.driver(completion=PROJECTED) as driver:
        execution_id = driver.submit(ORDER)
        (request,), (before,) = driver.requests(), driver.pending()
        assert driver.answer(request, {"ok": True, "reasons": ["impossible"]}) == "invalid_payload"
        assert driver.pending() == [before]
        assert driver.execution(execution_id).status == "WAITING_EXTERNAL"
        (letter,) = driver.dead_letters()
        headers = dict(letter.headers)
        assert b"impossible" in (letter.value or b"")
        assert b"tests.topology.partner:decided raised ValueError" in b" ".join(headers.values())
        assert b"secret" not in b" ".join(headers.values()) and "secret o-1" not in caplog.text
        assert driver.dropped("invalid_payload") == 1
        assert driver.answer(request, {"ok": True}) == "admitted"


def test_an_open_interaction_is_not_answered_by_another_projector(scene):
    with scene.driver(completion=PROJECTED) as first:
        execution_id = first.submit(ORDER)
        (request,) = first.requests()
        first.stop()
        other = PROJECTED.replace("decided}", "decided_otherwise}")
        with scene.driver(first.log, first.clock, completion=other) as second:
            assert second.answer(request, {"ok": True}) == "invalid_payload"
            (letter,) = second.dead_letters()
            assert b"decided and now has Decision from tests.topology.partner.Verdict by" in b"".join(
                value for _, value in letter.headers
            )
            second.stop()
            with scene.driver(first.log, first.clock, completion=PROJECTED) as third:
                assert third.answer(request, {"ok": True}) == "admitted"
                assert third.execution(execution_id).status == "SUCCEEDED"


@pytest.mark.parametrize(
    ("completion", "answer", "reason"),
    [
        ("{type: tests.topology.partner:DecisionMessage, projector: tests.topology.partner:decided_by_message}",
         APPROVED, "approved after all"),
        ("{type: boolean, projector: tests.topology.partner:decided_by_word}", True, "a plain True"),
    ],
)  # fmt: skip
def test_a_projector_takes_messages_and_scalars(scene, completion, answer, reason):
    with scene.driver(completion=f"completion: {completion}") as driver:
        execution_id = driver.submit(ORDER)
        assert driver.answer(driver.requests()[0], answer) == "admitted"
        assert result(driver, execution_id)["note"] == reason


def test_a_message_and_its_json_are_one_answer(scene):
    message = DecisionMessage()
    message.declined.order_id = "o-1"
    assert outgoing(message) == {"declined": {"orderId": "o-1", "reason": ""}}
    assert outgoing(OrderMessage(order_id="ä", priority=2**53 + 1)) == {
        "orderId": "ä", "amount": "", "currency": "", "priority": "9007199254740993",
    }  # fmt: skip


def test_a_package_names_the_types_on_the_wire_as_the_reference_does(scene):
    pipeline = partner.PIPELINE.replace("appName:", "basePackage: org.example\nappName:")
    with scene.driver(pipeline=pipeline) as driver:
        driver.submit(ORDER)
        (request,) = driver.requests()
        assert request["inputType"] == "org.example.grpc.PipelineTypes$Order"
        assert request["outputType"] == "org.example.grpc.PipelineTypes$Decision"
        assert driver.answer(request, DECLINED) == "admitted"
