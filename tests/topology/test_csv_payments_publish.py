"""The output file: its name belongs to one execution, and a repeat writes the same bytes (contract 0.16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.topology.payments import DATA, open_payments, read_rows, simulate, written
from tpf_streams.errors import LogError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Turn
from tpf_streams.testing import ManualClock

NAME = "payments_12.csv"


def two_files_of_one_name(folder: Path) -> list[Path]:
    found = [folder / "north" / "in.csv", folder / "south" / "in.csv"]
    for place, file in enumerate(found):
        file.parent.mkdir()
        file.write_text(f"ID,Recipient,Amount,Currency\n{place},Canteen,12.50,EUR\n", encoding="utf-8")
    return found


def test_a_name_that_another_execution_has_gets_a_version(tmp_path):
    files = two_files_of_one_name(tmp_path)
    with open_payments(tmp_path) as driver:
        simulate(driver)
        first, second = (driver.execution(it) for it in driver.submit_files(*files))
        assert {it.status for it in (first, second)} == {"SUCCEEDED"}
        assert first.published == "in.csv.out"
        assert second.published is not None
        assert second.published.startswith("in.csv.") and second.published.endswith(".out")
        assert second.published != first.published
        assert [row["CSV Id"] for row in written(tmp_path, "in.csv")] == ["0"]
        assert [row["CSV Id"] for row in read_rows(tmp_path / "out" / second.published)] == ["1"]


def test_or_it_fails_the_execution_where_the_pipeline_says_so(tmp_path):
    """Its answers and outputs stay in rows and topic."""
    files = two_files_of_one_name(tmp_path)
    with open_payments(tmp_path, settings={"onExisting": "fail"}) as driver:
        simulate(driver)
        first, second = (driver.execution(it) for it in driver.submit_files(*files))
        assert first.status == "SUCCEEDED"
        assert (second.status, second.error_code, second.published) == ("FAILED", "OUTPUT_EXISTS", None)
        assert len(driver.results(second.execution_id)) == 1
        assert len(driver.outputs()) == 2


def test_a_folder_that_cannot_be_written_fails_the_execution_after_its_tries(tmp_path):
    (tmp_path / "out").write_text("no folder", encoding="utf-8")
    with open_payments(tmp_path, settings={"pipeline.defaults.retry-limit": "2"}) as driver:
        simulate(driver)
        (execution_id,) = driver.submit_files(DATA / NAME)
        assert driver.execution(execution_id).status == "RUNNING"
        driver.advance(10_000)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.error_code) == ("FAILED", "PUBLISH_FAILED")
        assert len(driver.outputs()) == 12


class LostAfterTheFile:
    """Loses the first commits that come when the file is there: nobody knows that it was published."""

    def __init__(self, file: Path, times: int) -> None:
        self.file = file
        self.left = times
        self.seen: list[bytes] = []

    def before(self, partition: int, turn: Turn) -> None:
        if self.file.exists() and self.left:
            self.left -= 1
            self.seen.append(self.file.read_bytes())
            raise LogError("lost on purpose")

    def after(self, partition: int, turn: Turn) -> None:
        """It holds."""


@pytest.mark.parametrize("times", [1, 3])
def test_a_file_that_is_published_again_is_the_same_file(tmp_path, times):
    out = tmp_path / "out" / f"{NAME}.out"
    faults, clock = LostAfterTheFile(out, times), ManualClock()
    log = MemoryLog(application_id="csv-payments", partitions=1, clock=clock, faults=faults)
    with open_payments(tmp_path, log=log, clock=clock) as driver:
        simulate(driver, reject=0.08)
        (execution_id,) = driver.submit_files(DATA / NAME)
        execution = driver.execution(execution_id)
        assert (execution.status, execution.published) == ("SUCCEEDED", f"{NAME}.out")
        assert faults.left == 0
        assert {*faults.seen, out.read_bytes()} == {out.read_bytes()}
        assert [it.name for it in sorted((tmp_path / "out").iterdir()) if it.is_file()] == [out.name]
        assert (len(driver.outputs()), driver.metric("execution.terminal.total")) == (12, 1)


def test_the_dialect_of_the_reference(tmp_path):
    """`quirks: reference`: upper-case header, single quotes, amounts with groups (contract 12.3)."""
    file = tmp_path / "in.csv"
    file.write_text("ID,Recipient,Amount,Currency\n1,Canteen,5047.29,EUR\n", encoding="utf-8")
    with open_payments(tmp_path, settings={"quirks": "reference"}) as driver:
        simulate(driver)
        driver.submit_files(file)
    header, line = (tmp_path / "out" / "in.csv.out").read_text(encoding="utf-8").splitlines()
    assert header.startswith("'CSV ID','RECIPIENT','AMOUNT'")
    assert line.startswith("'1','Canteen','5,047.29','EUR'")
