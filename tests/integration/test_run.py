"""`tpf-streams run --log kafka`: the same run as on the local log, alone and beside another one."""

from __future__ import annotations

import csv
import signal
from pathlib import Path

import pytest

from tests.e2e.program import (
    ROWS_1K,
    ROWS_12,
    assert_same_payments,
    finish,
    result_of,
    rows_of,
    started,
    tpf,
    wait_until,
)
from tests.integration.applications import Payments

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


@pytest.fixture
def payments(tmp_path, bootstrap_servers):
    return Payments(tmp_path, bootstrap_servers)


def parts_of(source: Path, folder: Path, count: int) -> list[Path]:
    """The rows of one file in `count` files."""
    folder.mkdir()
    head, *body = csv.reader(source.read_text().splitlines())
    found = [folder / f"part_{number}.csv" for number in range(count)]
    for number, path in enumerate(found):
        with path.open("w", newline="") as out:
            csv.writer(out).writerows([head, *body[number::count]])
    return found


def test_a_thousand_rows_with_a_provider_of_its_own(payments, tmp_path):
    out, data = tmp_path / "out", tmp_path / "data"
    words = payments.run_words(ROWS_1K, out=out, data=data)
    with payments.provider("--reject", "0.08", "--duplicates", "0.02", log=tmp_path / "provider.log"):
        result = result_of(tpf(*words, timeout=120))
        assert (result["items"], result["by_arm"]) == (1000, {"approved": 907, "unapproved": 93})
        assert_same_payments(ROWS_1K, out / "payments_1k.csv.out")
        written = {value["itemIndex"]: value["arm"] for value in payments.output_values()}
        assert (len(payments.output_values()), len(written)) == (1000, 1000)
        again = result_of(tpf(*words, timeout=60))
    assert (again["items"], again["executions"], again["items_per_s"]) == (1000, {"SUCCEEDED": 1}, 0.0)
    assert len(payments.output_values()) == 1000


def test_two_runs_of_one_application_share_the_work_and_each_sees_its_own_end(payments, tmp_path):
    files = parts_of(ROWS_1K, tmp_path / "in", 8)
    out = tmp_path / "out"
    with (
        payments.provider("--reject", "0.08", "--delay-ms", "5", log=tmp_path / "provider.log"),
        started(*payments.run_words(*files[:4], out=out, data=tmp_path / "a")) as one,
        started(*payments.run_words(*files[4:], out=out, data=tmp_path / "b")) as other,
    ):
        results = [result_of(finish(process, 120)) for process in (one, other)]
    for result, own in zip(results, (files[:4], files[4:]), strict=True):
        assert (result["failed"], set(result["executions"])) == ([], {"SUCCEEDED"})
        assert {file.name for file in own} <= {it["source"] for it in result["published"]}
    for file in files:
        assert_same_payments(file, out / f"{file.name}.out")
    ids = sorted(int(row["CSV Id"]) for file in files for row in rows_of(out / f"{file.name}.out"))
    assert ids == list(range(1, 1001))
    written = [value["payload"]["csvId"] for value in payments.output_values()]
    assert sorted(map(int, written)) == ids


def test_a_run_goes_on_where_a_killed_one_was_and_operators_are_answered(payments, tmp_path):
    out, data = tmp_path / "out", tmp_path / "data"
    words = payments.run_words(ROWS_12, out=out, data=data)

    def pending():
        found = tpf("pending", "--data-dir", data, "--json")
        return found.returncode == 0 and result_of(found)["count"] == 12

    with started(*words) as killed:
        wait_until(pending, timeout=60, pause=0.5)
        status = result_of(tpf("status", "--data-dir", data, "--json"))
        assert (status["counts"], "unseenPartitions" in status) == ({"RUNNING": 1}, False)
        killed.send_signal(signal.SIGKILL)
    told = tpf("status", "--data-dir", data)
    assert (told.returncode, "no worker runs there" in told.stderr) == (2, True)
    with payments.provider("--reject", "0.08", log=tmp_path / "provider.log"):
        result = result_of(tpf(*payments.run_words(out=out, data=data), timeout=120))
    assert (result["continued"], result["by_arm"]) == (1, {"approved": 4, "unapproved": 8})
    assert_same_payments(ROWS_12, out / "payments_12.csv.out")
