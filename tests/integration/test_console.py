"""Apache Kafka's own console tools as the provider: people answer by hand, and type what is no answer, too."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import finish, result_of, wait_until
from tests.field.pipelines import DATA
from tests.field.sequences import Names
from tests.integration.applications import Decisions
from tests.integration.console import Console, completion

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

NULL = "NULL"
KEYED = ("parse.key=true", "key.separator=|", f"null.marker={NULL}")


@pytest.fixture
def console(tmp_path, bootstrap_servers):
    return Console(Decisions(tmp_path, bootstrap_servers), tmp_path)


def test_a_person_answers_without_a_key_and_with_keys(console):
    responses = console.application.responses
    with console.waiting("no-key", "its-key", "another-key") as process:
        requests = console.names.requests
        console.type(responses, completion(requests["no-key"], "APPROVED") + "\n")
        wait_until(lambda: console.status() == {"SUCCEEDED": 1, "WAITING_EXTERNAL": 2}, timeout=30, pause=0.3)
        lines = [
            f"{requests['its-key']['correlationId']}|{completion(requests['its-key'], 'DECLINED')}",
            f"what people type|{completion(requests['another-key'], 'APPROVED')}",
        ]
        console.type(responses, "\n".join(lines) + "\n", "parse.key=true", "key.separator=|")
        result = result_of(finish(process))
    assert (result["executions"], result["dropped"], result["waiting"]) == ({"SUCCEEDED": 3}, 0, 0)
    assert console.outcomes() == {"no-key": "APPROVED", "its-key": "DECLINED", "another-key": "APPROVED"}


def test_o10_lines_from_a_console(console):
    """Right: the good ones are admitted, each bad one is kept with its reason and place, and the reader goes on."""
    expect = json.loads((DATA / "O10.expect.json").read_text("utf-8"))
    responses = console.application.responses
    with console.waiting("int-10a", "int-10b", "int-10c") as process:
        console.type(responses, console.names.fill((DATA / "O10.console.txt").read_text("utf-8")))
        result = result_of(finish(process))
    assert (result["executions"], result["dropped_by_reason"]) == ({"SUCCEEDED": 3}, {"invalid_envelope": 9})
    assert console.outcomes() == {"int-10a": "APPROVED", "int-10b": "APPROVED", "int-10c": "DECLINED"}
    reasons = console.application.reasons()
    assert sorted(offset + 1 for _, _, offset in reasons) == expect["refused_lines"]
    assert [reasons[responses, 0, number - 1] for number in expect["refused_lines"]] == (
        ["not JSON"] * 2 + ["not an object"] * 4 + ["wrong shape"] * 3
    )
    assert console.position() == expect["lines"]


def keyed_lines(names: Names) -> str:
    """O11's records as a console producer with keys takes them: a null has a mark, an empty value has nothing."""
    found = []
    for line in (DATA / "O11.records.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        key, value = (NULL if record[name] is None else names.fill(record[name]) for name in ("key", "value"))
        found.append(f"{key}|{value}\n")
    return "".join(found)


def test_o11_null_and_empty_values(console):
    """Right: null, zero-length and blank are told apart, none is an answer, the tombstone with its key reopens nothing,
    and the good ones go through. On the topic that starts executions none of them is one."""
    expect = json.loads((DATA / "O11.expect.json").read_text("utf-8"))
    application = console.application
    with console.waiting("int-11a", "int-11b") as process:
        console.type(application.events, keyed_lines(console.names), *KEYED)
        wait_until(lambda: len(application.reasons()) == 7, timeout=30, pause=0.3)
        assert console.status() == {"WAITING_EXTERNAL": 2}
        console.type(application.responses, keyed_lines(console.names), *KEYED)
        result = result_of(finish(process))
    assert result["executions"] == {"SUCCEEDED": 2}
    assert console.outcomes() == {"int-11a": "APPROVED", "int-11b": "DECLINED"}
    reasons = {place[2] + 1: why for place, why in application.reasons().items() if place[0] == application.responses}
    assert reasons == {
        2: "null value",
        3: "zero-length value",
        4: "zero-length value",
        5: "blank value",
        6: "null value",
    }
    assert sorted(reasons) == expect["ignored_or_refused"]
    assert console.position() == 7


def test_o11_the_same_without_keys(console):
    """An empty line is a zero-length value, and a line with a space is a blank one."""
    application = console.application
    with console.waiting("int-11a", "int-11b") as process:
        text = console.names.fill((DATA / "O11.console_value_only.txt").read_text("utf-8"))
        console.type(application.responses, text)
        result = result_of(finish(process))
    assert result["executions"] == {"SUCCEEDED": 2}
    why = [reason for place, reason in sorted(application.reasons().items())]
    assert why[:2] == ["zero-length value", "blank value"]
