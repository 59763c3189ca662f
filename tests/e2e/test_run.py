"""`tpf-streams run`: files in, files out, and how it ends."""

from __future__ import annotations

import os
import resource
import shutil
import signal

import pytest

from tests.e2e.program import (
    DATA,
    PIPELINE,
    ROWS_1K,
    ROWS_12,
    Place,
    assert_same_payments,
    environment,
    finish,
    result_of,
    rows_of,
    started,
    tpf,
    wait_until,
)
from tpf_streams.runtime.control import ask

FIELDS = (
    *("items", "completed", "rejected_rows", "by_arm", "duplicates", "dropped", "in_flight_max"),
    *("seconds", "items_per_s"),
)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("source", "arms"), [(ROWS_12, {"approved": 4, "unapproved": 8}), (ROWS_1K, {"approved": 907, "unapproved": 93})]
)
def test_every_row_comes_back_as_it_went_in(place, source, arms):
    found = tpf(*place.words(source), "--json")
    assert found.returncode == 0, found.stderr
    result = result_of(found)
    count = sum(arms.values())
    assert set(FIELDS) <= result.keys()
    assert (result["items"], result["completed"], result["by_arm"]) == (count, count, arms)
    assert (result["rejected_rows"], result["duplicates"], result["dropped"], result["failed"]) == (0, 0, 0, [])
    assert 0 < result["in_flight_max"] <= 250
    assert result["seconds"] > 0
    assert result["items_per_s"] > 0
    assert_same_payments(source, place.out / f"{source.name}.out")
    assert len(place.outputs()) == count


def test_the_memory_log_needs_no_directory(tmp_path):
    words = ["run", PIPELINE, "--input", ROWS_12, "--output-dir", tmp_path, "--log", "memory"]
    found = tpf(*words, "--simulate-provider", "reject=0.08", "--json")
    assert found.returncode == 0, found.stderr
    assert result_of(found)["by_arm"] == {"approved": 4, "unapproved": 8}
    assert_same_payments(ROWS_12, tmp_path / "payments_12.csv.out")


def test_several_files_and_folders_at_once(place, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        shutil.copy(ROWS_12, folder / name)
    (folder / "ignored.txt").write_text("no payments")
    found = tpf(*place.words(folder, ROWS_1K), "--json")
    assert found.returncode == 0, found.stderr
    result = result_of(found)
    assert (result["items"], result["executions"]) == (1024, {"SUCCEEDED": 3})
    assert result["in_flight_max"] <= 250
    for name in ("a.csv", "b.csv"):
        assert_same_payments(folder / name, place.out / f"{name}.out")
    assert_same_payments(ROWS_1K, place.out / "payments_1k.csv.out")


def test_what_a_shell_makes_of_a_pattern_is_taken(place):
    words = ["run", PIPELINE, "--output-dir", place.out, "--data-dir", place.data, "--simulate-provider", ""]
    found = tpf(*words, "--json", "--input", ROWS_12, ROWS_1K)
    assert found.returncode == 0, found.stderr
    assert result_of(found)["items"] == 1012


def test_a_second_run_has_nothing_to_do(place):
    assert tpf(*place.words(ROWS_12)).returncode == 0
    before = (place.out / "payments_12.csv.out").stat()
    found = tpf(*place.words(ROWS_12), "--json")
    result = result_of(found)
    assert (found.returncode, result["items"], result["continued"]) == (0, 12, 0)
    after = (place.out / "payments_12.csv.out").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert len(place.outputs()) == 12


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("park", [False, True], ids=["live", "parked"])
def test_the_next_run_goes_on_where_a_signal_stopped_this_one(place, number, code, park):
    slow = place.words(ROWS_1K, provider="reject=0.08,delay-ms=1000")
    with started(*slow, "--json", *(["--park"] if park else [])) as process:
        wait_until(lambda: outputs_so_far(place) > 0)
        process.send_signal(number)
        stopped = finish(process)
    assert stopped.returncode == code, stopped.stderr
    assert 0 < result_of(stopped)["completed"] < 1000
    # The file is not named any more: what was begun is finished all the same.
    found = tpf(*place.words(), "--json")
    assert found.returncode == 0, found.stderr
    result = result_of(found)
    assert (result["items"], result["completed"], result["continued"]) == (1000, 1000, 1)
    assert result["by_arm"] == {"approved": 907, "unapproved": 93}
    assert_same_payments(ROWS_1K, place.out / "payments_1k.csv.out")
    assert len({key for key, _ in place.output_records()}) == len(place.outputs()) == 1000


def outputs_so_far(place: Place) -> int:
    answer = ask(place.data, "status", {"limit": 1}) if place.data.exists() else None
    return answer["executions"][0]["outputs"] if answer and answer["executions"] else 0


def test_nothing_named_and_nothing_left_is_a_wrong_call(place):
    found = tpf(*place.words())
    assert found.returncode == 2
    assert "is no folder, no --input is given" in found.stderr


def test_one_owner_at_a_time(place):
    with started(*place.words(ROWS_12, provider="delay-ms=60000")) as process:
        wait_until(lambda: ask(place.data, "pending", {"limit": 1}) if place.data.exists() else None)
        second = tpf(*place.words(ROWS_12))
        assert second.returncode == 2
        assert f"in use by process {process.pid}" in second.stderr
        assert process.poll() is None


def test_without_its_secret_nothing_starts(place):
    found = tpf(*place.words(ROWS_12), env=environment(PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET=None))
    assert found.returncode == 2
    assert "resume-token-secret: must be configured" in found.stderr
    assert not place.data.exists()


def test_a_secret_shows_nowhere(place):
    found = tpf(*place.words(ROWS_12, provider="delay-ms=10"))
    checked = tpf("validate", PIPELINE)
    everything = found.stdout + found.stderr + checked.stdout + checked.stderr
    assert found.returncode == checked.returncode == 0
    assert environment()["PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"] not in everything
    assert environment()["PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"] not in (place.data / "run.json").read_text()


def test_rejected_rows_are_told_and_fail_only_a_strict_run(place, tmp_path):
    source = tmp_path / "some.csv"
    source.write_text("ID,Recipient,Amount,Currency\n1,Ann,1.50,EUR\n2,Bob,1e3,EUR\n3,Cy\n4,Di,2,EUR\n")
    found = tpf(*place.words(source))
    assert found.returncode == 0, found.stderr
    assert "2 rejected, see" in found.stdout
    assert f"{place.out / 'some.csv.out.rejected.csv'}" in found.stdout
    assert [row["CSV Id"] for row in rows_of(place.out / "some.csv.out")] == ["1", "4"]
    assert [row["Line"] for row in rows_of(place.out / "some.csv.out.rejected.csv")] == ["3", "4"]
    strict = tpf(*place.words(source), "--strict", "--json")
    assert (strict.returncode, result_of(strict)["rejected_rows"]) == (3, 2)


def test_a_file_that_cannot_be_read_fails_alone(place, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(ROWS_12, folder / "good.csv")
    os.symlink("loop.csv", folder / "loop.csv")  # nobody can read it, not even root
    found = tpf(*place.words(folder), "--json", "--set", "pipeline.defaults.retry-limit=1")
    assert found.returncode == 1, found.stderr
    result = result_of(found)
    assert (result["completed"], result["executions"]) == (12, {"FAILED": 1, "SUCCEEDED": 1})
    assert [(it["source"], it["code"]) for it in result["failed"]] == [("loop.csv", "SOURCE_UNREADABLE")]
    assert "Traceback" not in found.stderr
    assert_same_payments(ROWS_12, place.out / "good.csv.out")


def test_a_broken_file_fails_with_its_line(place, tmp_path):
    source = tmp_path / "broken.csv"
    source.write_text('ID,Recipient,Amount,Currency\n1,Ann,1.50,EUR\n2,"Bob,3,EUR\n')
    found = tpf(*place.words(source), "--json")
    assert found.returncode == 1
    failed = result_of(found)["failed"]
    assert [it["code"] for it in failed] == ["CSV_STRUCTURE"]
    assert "broken.csv:3" in failed[0]["message"]
    assert place.outputs() == []


def test_changed_content_waits_for_the_execution_under_way(place, tmp_path):
    source = tmp_path / "pay.csv"
    shutil.copy(ROWS_12, source)
    with started(*place.words(source, provider="delay-ms=60000")) as process:
        wait_until(lambda: (ask(place.data, "pending", {"limit": 1}) or {}).get("count") if place.data.exists() else 0)
        process.send_signal(signal.SIGTERM)
        assert finish(process).returncode == 143
    source.write_text("ID,Recipient,Amount,Currency\n99,Zoe,7,EUR\n")
    second = tpf(*place.words(source), "--json")
    assert second.returncode == 0, second.stderr
    assert "SOURCE_CHANGED" in second.stderr
    result = result_of(second)
    assert [it["code"] for it in result["skipped"]] == ["SOURCE_CHANGED"]
    assert (result["items"], result["executions"]) == (12, {"SUCCEEDED": 1})
    third = tpf(*place.words(source), "--json")
    assert third.returncode == 0, third.stderr
    assert (result_of(third)["items"], result_of(third)["skipped"]) == (1, [])
    assert sorted(path.name.count(".") for path in place.out.iterdir() if path.suffix == ".out") == [2, 3]


def test_a_step_that_raises_keeps_its_traceback_in_the_record(place, tmp_path):
    pipeline = tmp_path / "pipeline.yaml"
    (tmp_path / "angry_steps.py").write_text("def angry(value):\n    raise RuntimeError(f'no {value}')\n")
    pipeline.write_text(
        "version: 3\nappName: angry\ntransport: LOCAL\n"
        "types:\n  Order: {fields: [[orderId, string]]}\n"
        "steps:\n  - {name: Angry, service: 'angry_steps:angry', cardinality: ONE_TO_ONE, input: Order, output: Order,"
        " terminal: true}\n"
    )
    order = tmp_path / "order.json"
    order.write_text('{"orderId": "o-secret"}')
    words = place.words(order, pipeline=pipeline, provider=None)
    settings = ("--set", "pipeline.defaults.retry-limit=0", "--set", "pipeline.orchestrator.max-retries=0")
    found = tpf(*words, "--json", *settings)
    assert found.returncode == 1, found.stderr
    failed = result_of(found)["failed"]
    assert failed[0]["code"] == "RuntimeError"
    assert "o-secret" not in found.stderr
    assert "Traceback" not in found.stderr
    shown = tpf("status", "--data-dir", place.data, failed[0]["executionId"])
    assert "Traceback" in shown.stdout


def test_a_file_of_json_lines_is_an_execution_a_line(place, tmp_path):
    orders = tmp_path / "orders.jsonl"
    orders.write_text('{"orderId": "a"}\n\n{"orderId": \n{"orderId": "b"}\n')
    (tmp_path / "plain_steps.py").write_text("def same(value):\n    return value\n")
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        "version: 3\nappName: plain\ntransport: LOCAL\n"
        "types:\n  Order: {fields: [[orderId, string]]}\n"
        "steps:\n  - {name: Same, service: 'plain_steps:same', cardinality: ONE_TO_ONE, input: Order, output: Order,"
        " terminal: true}\n"
    )
    found = tpf(*place.words(orders, pipeline=pipeline, provider=None), "--json")
    assert found.returncode == 1
    result = result_of(found)
    assert result["executions"] == {"SUCCEEDED": 2}
    assert [it["code"] for it in result["failed"]] == ["INVALID_INPUT"]
    assert f"{orders}:3" in result["failed"][0]["message"]


def test_what_is_not_there_is_a_wrong_call(place):
    found = tpf(*place.words(DATA / "nothing.csv"))
    assert found.returncode == 2
    assert "nothing.csv: there is no such file" in found.stderr
    assert not place.data.exists()


def test_a_full_disk_stops_the_run_and_what_was_answered_is_kept(place):
    """A file may not grow beyond 300 kB: the journal's own stop at some turn, and that is the end of this life."""
    full = tpf(*place.words(ROWS_1K), "--json", prepare=disk_of_300_kb)
    assert full.returncode == 1
    assert "a write to the journal failed" in full.stderr
    assert (result_of(full)["error"]["code"], result_of(full)["error"]["exitCode"]) == ("LOG_FAILED", 1)
    assert "Traceback" not in full.stderr
    found = tpf(*place.words(ROWS_1K), "--json")
    assert found.returncode == 0, found.stderr
    assert (result_of(found)["items"], result_of(found)["continued"]) == (1000, 1)
    assert_same_payments(ROWS_1K, place.out / "payments_1k.csv.out")
    assert len(place.outputs()) == 1000


def disk_of_300_kb() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


def test_a_damaged_journal_is_told_and_not_guessed(place):
    assert tpf(*place.words(ROWS_12)).returncode == 0
    manifest = next((place.data / "db").glob("MANIFEST-*"))
    manifest.write_bytes(b"\0" * manifest.stat().st_size)
    found = tpf(*place.words(ROWS_12))
    assert found.returncode == 1
    assert "put it back from a copy" in found.stderr
    assert "Traceback" not in found.stderr


def test_another_applications_directory_is_refused(place, tmp_path):
    assert tpf(*place.words(ROWS_12)).returncode == 0
    found = tpf(*place.words(ROWS_12), "--set", "pipeline.application-id=another")
    assert found.returncode == 2
    assert "belongs to application 'csv-payments', not 'another'" in found.stderr
    found = tpf(*place.words(ROWS_12), "--set", "topology.partitions=4")
    assert found.returncode == 2
    assert "made with 8 partitions, not 4" in found.stderr
