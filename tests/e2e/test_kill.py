"""SIGKILL at any moment: every payment comes out once, in the topic and in the file."""

from __future__ import annotations

import os
import time

import pytest

from tests.e2e.killing import Campaign, moments
from tests.e2e.program import ROWS_1K, ROWS_10K, Place, assert_same_payments, result_of, start, tpf
from tests.lifecycle import agree

KILLS = 5


def assert_each_once(place: Place, source, count: int) -> None:
    """One record an item, each under a key of its own, in the topic; one row an item, in order, in the file."""
    records = place.output_records()
    assert len(records) == count
    assert len({key for key, _ in records}) == count
    assert sorted(value["itemIndex"] for _, value in records) == list(range(count))
    assert_same_payments(source, place.out / f"{source.name}.out")
    assert sorted(path.name for path in place.out.iterdir() if path.name.endswith(".part")) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sync", ["commit", "interval"])
def test_five_kills_and_every_payment_comes_out_once(tmp_path, sync):
    place = Place(tmp_path)
    words = [*place.words(ROWS_1K, provider="reject=0.08,delay-ms=150,permits-per-second=80"), "--sync", sync]
    campaign = Campaign(place, words)
    for after_s in moments(KILLS, 0.2, 1.5, seed=len(sync)):
        assert campaign.live_and_die(after_s), campaign.lives
    last = campaign.live_to_the_end()
    assert last.returncode == 0, last.stderr
    result = result_of(last)
    assert (result["items"], result["completed"], result["continued"]) == (1000, 1000, 1)
    assert result["by_arm"] == {"approved": 907, "unapproved": 93}
    assert_each_once(place, ROWS_1K, 1000)
    assert agree(place.records("lifecycle"), place.records("outputs")).outputs == 1000


@pytest.mark.timeout(300)
def test_a_kill_while_the_file_is_published(tmp_path):
    """Killed between the first byte of the part and the rename: the next life writes the same file, and clears up."""
    for attempt in range(8):
        place = Place(tmp_path / str(attempt))
        place.out.mkdir(parents=True)
        words = [*place.words(ROWS_10K), "--sync", "interval", "--json"]
        process = start(*words)
        try:
            while process.poll() is None and not parts_of(place):
                time.sleep(0.0005)
        finally:
            process.kill()
            process.communicate()
        if parts_of(place) and not (place.out / "payments_10k.csv.out").exists():
            break
    else:
        pytest.fail("no kill fell into the publishing")
    last = tpf(*words)
    assert last.returncode == 0, last.stderr
    result = result_of(last)
    assert (result["completed"], result["continued"], result["items_per_s"]) == (10_000, 1, 0.0)
    assert_each_once(place, ROWS_10K, 10_000)


def parts_of(place: Place) -> list[str]:
    return [name for name in os.listdir(place.out) if name.endswith(".part")]
