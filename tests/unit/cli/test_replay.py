"""`tpf-streams replay`: the timeline and the document of an execution, and what is said where there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from tpf_streams.cli.main import app
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.logs.local import LocalLog, Retention
from tpf_streams.ports import Record
from tpf_streams.stores.rocksdb import RocksDbStateStore

ROOT = Path(__file__).parents[3]
PIPELINE = ROOT / "topologies" / "csv_payments" / "pipeline.yaml"
DATA = PIPELINE.parent / "data" / "payments_12.csv"
NOBODY = "7b0c5f7a-4a3e-8d60-9a51-0f4f7f1a2b3c"


def invoke(*arguments):
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET", "a secret for this test")


def ran(folder, *more):
    """Twelve payments through a local log; -> the data directory and the execution's id."""
    code, _, told = invoke(
        "run", PIPELINE, "--input", DATA, "--output-dir", folder / "out", "--data-dir", folder / "data",
        "--simulate-provider", "reject=0.08", *more,
    )  # fmt: skip
    assert code == 0, told
    _, answer, _ = invoke("status", "--data-dir", folder / "data", "--json")
    return folder / "data", orjson.loads(answer)["executions"][0]["executionId"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET", "a secret for this test")
        return ran(tmp_path_factory.mktemp("run"))


def test_the_timeline_has_a_line_for_many_items_of_a_turn(run):
    data, execution_id = run
    code, shown, _ = invoke("replay", "--data-dir", data, execution_id.upper())
    assert code == 0
    assert "completed" in shown.splitlines()[0]
    assert any("await_interaction_dispatched" in line and "12 items 0–11" in line for line in shown.splitlines())
    assert any("outputs 12  4 approved  8 unapproved" in line for line in shown.splitlines())
    assert "await_unit_terminal" in shown


def test_each_event_and_those_of_one_item(run):
    data, execution_id = run
    _, shown, _ = invoke("replay", "--data-dir", data, execution_id, "--each")
    assert sum("await_completion_admitted" in line for line in shown.splitlines()) == 12
    _, shown, _ = invoke("replay", "--data-dir", data, execution_id, "--item", "3")
    assert [line.split()[3] for line in shown.splitlines() if "item 3" in line] == [
        *("await_admission_acquired", "await_interaction_dispatched", "await_completion_admitted"),
        *("await_unit_item_completed", "emit", "await_admission_released"),
    ]
    code, _, told = invoke("replay", "--data-dir", data, execution_id, "--item", "12")
    assert (code, "nothing is known of item 12" in told) == (1, True)


def test_the_document_is_that_of_the_contract(run):
    data, execution_id = run
    code, shown, _ = invoke("replay", "--data-dir", data, execution_id, "--json")
    document = orjson.loads(shown)
    assert code == 0
    assert list(document) == [*("pipeline", "startedAt", "durationMs", "status", "runParameters", "topology", "events")]
    assert (document["pipeline"], document["status"]) == ("csv-payments", "completed")
    edges = [(it["from"], it["to"]) for it in document["topology"]["transitions"]]
    assert ("Await Payment Provider", "Process Unapproved Payment Status") in edges
    assert ("Process Approved Payment Status", "Process Unapproved Payment Status") not in edges
    events = document["events"]
    assert [event["sequence"] for event in events] == sorted(event["sequence"] for event in events)
    dispatched = next(event for event in events if event["event"] == "await_interaction_dispatched")
    assert dispatched["itemId"] == dispatched["attributes"]["tpf.await.unit_id"]
    assert (dispatched["from"], dispatched["to"], dispatched["cardinality"]) == (
        *("Await Payment Provider", "Await Payment Provider", "one-to-one"),
    )
    assert all(isinstance(value, str) for event in events for value in event["attributes"].values())
    assert all(value is not None for event in events for value in event.values())
    emitted = next(event for event in events if event["event"] == "emit")
    assert emitted["itemId"].startswith("item-0000")


def test_who_never_was_is_told(run):
    data, _ = run
    code, _, told = invoke("replay", "--data-dir", data, NOBODY)
    assert (code, "there is no execution" in told) == (1, True), told
    code, _, told = invoke("replay", "--data-dir", data, "payments_12.csv")
    assert (code, "is no id of an execution" in told) == (1, True), told


def test_events_that_were_not_written_are_told(tmp_path):
    data, execution_id = ran(tmp_path, "--set", "pipeline.telemetry.replay.enabled=false")
    code, _, told = invoke("replay", "--data-dir", data, execution_id)
    assert (code, "they were not written (pipeline.telemetry.replay.enabled)" in told) == (1, True), told


async def forget(data, execution_id, events):
    """Let retention take the oldest records of the execution's partition, so that `events` or more of them are gone."""
    kept = Retention(age_ms=10**12, bytes=1)
    log = LocalLog.open(data, RocksDbStateStore, application_id="csv-payments", partitions=8, lifecycle=kept)
    try:
        partition = partition_of(route_of(execution_id) or 0, 8)
        part = log.journal.topic("csv-payments-lifecycle")[partition]
        for _ in range(2):
            await log.append([Record("csv-payments-lifecycle", None, b'{"v":1}', partition=partition)])
        assert part.start > events
    finally:
        await log.close()


def test_events_past_retention_are_told(tmp_path):
    data, execution_id = ran(tmp_path)
    asyncio.run(forget(data, execution_id, 2))
    code, _, told = invoke("replay", "--data-dir", data, execution_id)
    assert (code, "are past retention (lifecycle.retention)" in told) == (1, True), told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((NOBODY,), "--data-dir is needed"), ((NOBODY, "--log", "kafka"), "--pipeline is needed with --log kafka")],
)
def test_a_call_without_a_place_to_look_is_refused(arguments, words):
    code, _, told = invoke("replay", *arguments)
    assert (code, words in told) == (2, True), told
