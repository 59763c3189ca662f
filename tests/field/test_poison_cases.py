"""Field cases O09 to O11: forged tokens and records that are no answers, on a pipeline that waits for real ones."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.field.pipelines import DATA, DECISION, RESPONSES, Steps, open_driver
from tests.field.sequences import Names
from tpf_streams.ports import TopicPartition
from tpf_streams.testing import TopologyTestDriver

EVENTS = "field-cases-events"
TENANT = "tenant-red"


def waiting(driver: TopologyTestDriver, *names: str) -> Names:
    """One waiting interaction for each name."""
    found = Names()
    for name in names:
        driver.submit({"orderId": name}, tenant=TENANT)
        found.requests[name] = driver.requests()[-1]
    return found


def statuses(driver: TopologyTestDriver, names: Names) -> dict[str, str]:
    return {name: str(driver.interaction(it["interactionId"]).status) for name, it in names.requests.items()}


def expectation(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{case}.expect.json").read_text("utf-8"))
    return found


def response_position(driver: TopologyTestDriver) -> int:
    """How far the readers of the response topic have committed."""
    place = TopicPartition(RESPONSES, 0)
    return max(group.committed.get(place, 0) for group in driver.log.snapshot().groups.values())


def letters(driver: TopologyTestDriver, topic: str) -> dict[int, str]:
    """Reason by offset of the dead letters from a topic, checked to hold the record's own bytes."""
    originals = {record.offset: record.value for record in driver.read_topic(topic)}
    found: dict[int, str] = {}
    for letter in driver.dead_letters():
        headers = dict(letter.headers)
        assert headers["tpf-source-topic"] == topic.encode()
        offset = int(headers["tpf-source-offset"])
        assert letter.value == originals[offset]
        found[offset] = headers["tpf-reason"].decode()
    return found


O09 = [json.loads(line) for line in (DATA / "O09.tokens.jsonl").read_text("utf-8").splitlines()]
FORGED_FIRST = sorted(O09, key=lambda case: case["expect"] == "admitted")


@pytest.mark.parametrize("over", ["api", "topic"])
def test_o09_forged_tokens_change_nothing_and_the_genuine_one_still_counts(tmp_path, caplog, over):
    """Right: each is refused as a token (0.4 names the outcome: 403 over HTTP) and counted, the interaction stays open
    for the genuine one, sent last; no log line and no dead letter repeats a token."""
    steps = Steps()
    with caplog.at_level(logging.DEBUG), open_driver(tmp_path, DECISION, steps) as driver:
        names = waiting(driver, "int-9")
        for case in FORGED_FIRST:
            token = json.loads(names.fill(json.dumps(case["resumeToken"])))
            request = {name: names.requests["int-9"][name] for name in ("tenantId", "interactionId", "correlationId")}
            data = json.dumps({**request, "resumeToken": token, "responsePayload": {"status": "APPROVED"}}).encode()
            if over == "topic":
                driver.send(RESPONSES, data)
            else:
                refused = "admitted" if case["expect"] == "admitted" else "resume_token_rejected"
                assert driver.complete(data) == refused
            done = case["expect"] == "admitted"
            assert statuses(driver, names) == {"int-9": "COMPLETED" if done else "DISPATCHED"}
            assert not isinstance(token, str) or len(token) < 6 or token not in caplog.text
        assert driver.tally.dropped == {"resume_token_rejected": 13}
        assert driver.dead_letters() == []
        assert len(steps.finished) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_o10_lines_from_a_console(tmp_path, strict):
    """Right: good ones are admitted in order, each bad one is kept with its reason and place, and the reader goes on.
    Line 11 has an unknown field: ignored (0.5), or refused where `strict-envelopes` says so. Line 9: null is no
    answer (contract 1.2)."""
    expect, steps = expectation("O10"), Steps()
    settings = {"strict-envelopes": str(strict).lower()}
    with open_driver(tmp_path, DECISION, steps, settings=settings) as driver:
        names = waiting(driver, "int-10a", "int-10b", "int-10c")
        lines = names.fill((DATA / "O10.console.txt").read_text("utf-8")).splitlines()
        assert len(lines) == expect["lines"]
        for line in lines:
            driver.send(RESPONSES, line.encode())

        reasons = {offset + 1: reason for offset, reason in letters(driver, RESPONSES).items()}
        assert sorted(reasons) == [*expect["refused_lines"], *([11] if strict else [])]
        hello_world = "unknown field" if strict else "wrong shape"
        assert [reasons[number] for number in expect["refused_lines"]] == (
            ["not JSON"] * 2 + ["not an object"] * 4 + [hello_world] + ["wrong shape"] * 2
        )
        assert reasons.get(11) == ("unknown field" if strict else None)
        assert driver.tally.dropped == {"invalid_envelope": len(reasons)}
        assert driver.metric("completion.unknown_fields.total") == (0 if strict else 1)
        assert statuses(driver, names) == {
            "int-10a": "COMPLETED",
            "int-10b": "DISPATCHED" if strict else "COMPLETED",
            "int-10c": "COMPLETED",
        }
        assert [it["status"] for it in steps.finished] == ["APPROVED"] * (1 if strict else 2) + ["DECLINED"]
        assert response_position(driver) == expect["lines"]


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "O11.records.jsonl").read_text("utf-8").splitlines()]


def bytes_of(names: Names, text: str | None) -> bytes | None:
    return None if text is None else names.fill(text).encode()


def test_o11_null_and_empty_values_on_the_response_topic(tmp_path):
    """Right: null, zero-length and blank are told apart, none is an answer, int-11a is not reopened by the tombstone
    with its key, and the good ones go through."""
    expect, steps = expectation("O11"), Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        names = waiting(driver, "int-11a", "int-11b")
        for record in records():
            driver.send(RESPONSES, bytes_of(names, record["value"]), key=bytes_of(names, record["key"]))
            done = record["n"] >= expect["admitted"][1]
            assert statuses(driver, names) == {"int-11a": "COMPLETED", "int-11b": "COMPLETED" if done else "DISPATCHED"}
        reasons = {offset + 1: reason for offset, reason in letters(driver, RESPONSES).items()}
        assert reasons == {
            2: "null value",
            3: "zero-length value",
            4: "zero-length value",
            5: "blank value",
            6: "null value",
        }
        assert sorted(reasons) == expect["ignored_or_refused"]
        assert response_position(driver) == 7
        assert len(steps.finished) == len(expect["admitted"])


def test_o11_the_same_from_a_console(tmp_path):
    """The producer without keys: an empty line is a zero-length value."""
    steps = Steps()
    with open_driver(tmp_path, DECISION, steps) as driver:
        names = waiting(driver, "int-11a", "int-11b")
        for line in names.fill((DATA / "O11.console_value_only.txt").read_text("utf-8")).split("\n")[:5]:
            driver.send(RESPONSES, line.encode())
        assert letters(driver, RESPONSES) == {1: "zero-length value", 2: "blank value", 4: "zero-length value"}
        assert len(steps.finished) == 2


def test_o11_the_same_on_the_topic_that_starts_executions(tmp_path):
    """Nothing of it is an event: no execution starts and no row changes; every record is kept, and the next
    submission is taken."""
    with open_driver(tmp_path, DECISION) as driver:
        names = waiting(driver, "int-11a", "int-11b")
        before = driver.read_topic(EVENTS)
        for record in records():
            driver.send(EVENTS, bytes_of(names, record["value"]), key=bytes_of(names, record["key"]))
        assert len(driver.executions()) == 2
        assert statuses(driver, names) == {"int-11a": "DISPATCHED", "int-11b": "DISPATCHED"}
        assert sorted(letters(driver, EVENTS)) == [len(before) + place for place in range(7)]
        driver.submit({"orderId": "after"})
        assert len(driver.executions()) == 3
        assert driver.log.task_positions(0)[TopicPartition(EVENTS, 0)] == len(driver.read_topic(EVENTS))
