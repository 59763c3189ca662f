"""What every Log does."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.conftest import EVENTS, LogHarness, event
from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.ports import ReadableLog, Record, RecordReader, TaskLog, TopicPartition, Turn

INPUT = TopicPartition(EVENTS, 0)


async def values(source: TaskLog | RecordReader, count: int = 1_000) -> list[bytes | None]:
    return [record.value for record in await source.poll(count)]


def outputs(log: ReadableLog, topic: str = "outputs") -> list[bytes | None]:
    return [record.value for record in log.read(topic)]


class TestRecords:
    async def test_a_task_reads_its_own_partition_in_order(self, log: ReadableLog):
        await log.append([event(b"a", 0), event(b"other", 1), event(b"b", 0)])
        task = await log.open_task(0)
        assert await values(task) == [b"a", b"b"]
        assert await values(task) == []

    async def test_a_record_arrives_as_it_was_appended(self, log: ReadableLog, harness: LogHarness):
        harness.clock.ms = 12_345
        headers = (("name", b"v"), ("empty", b""), ("ümlaut", b"\x00\xff"))
        await log.append([Record(EVENTS, None, None, (), 0), Record(EVENTS, b"", b"", headers, 0)])
        first, second = await (await log.open_task(0)).poll(10)
        assert (first.key, first.value, first.headers) == (None, None, ())
        assert (second.key, second.value, second.headers) == (b"", b"", headers)
        assert (second.topic, second.partition, second.offset, second.timestamp_ms) == (EVENTS, 0, 1, 12_345)

    async def test_append_times_never_go_back(self, log: ReadableLog, harness: LogHarness):
        await log.append([event(b"a")])
        harness.clock.ms -= 500
        await log.append([event(b"b")])
        assert [record.timestamp_ms for record in log.read(EVENTS)] == [1_000, 1_000]
        again = await harness.open()
        await again.append([event(b"c")])
        assert [record.timestamp_ms for record in again.read(EVENTS)] == [1_000, 1_000, 1_000]

    async def test_poll_gives_at_most_what_was_asked(self, log: ReadableLog):
        await log.append([event(b"%d" % n) for n in range(5)])
        task = await log.open_task(0)
        assert await values(task, 2) == [b"0", b"1"]
        assert await values(task, 2) == [b"2", b"3"]
        assert await values(task, 2) == [b"4"]

    async def test_a_key_always_goes_to_one_partition(self, log: ReadableLog):
        await log.append([Record("answers", b"%d" % (n % 10), b"v") for n in range(50)])
        homes: dict[bytes | None, set[int]] = {}
        for record in log.read("answers"):
            homes.setdefault(record.key, set()).add(record.partition)
        assert {len(found) for found in homes.values()} == {1}
        assert set.union(*homes.values()) == {0, 1}

    async def test_a_partition_that_is_not_there_is_refused(self, log: ReadableLog):
        with pytest.raises(LogError, match="2 partition"):
            await log.append([event(b"fine"), event(b"x", 2)])
        assert outputs(log, EVENTS) == []
        with pytest.raises(LogError, match="no partition 2"):
            await log.open_task(2)

    async def test_read_by_offset_and_limit(self, log: ReadableLog):
        await log.append([Record("outputs", None, b"%d" % n) for n in range(6)])
        assert [record.value for record in log.read("outputs", 2, 3)] == [b"2", b"3", b"4"]
        assert [record.value for record in log.read("outputs", limit=0)] == []
        assert list(log.read("never used")) == []

    async def test_end_offsets(self, log: ReadableLog):
        await log.append([event(b"a", 1), event(b"b", 1)])
        ends = await log.end_offsets([EVENTS, "answers"])
        assert ends[TopicPartition(EVENTS, 1)] == 2
        assert ends[INPUT] == 0
        assert ends[TopicPartition("answers", 1)] == 0
        assert len(ends) == 4


class TestTurns:
    async def test_records_rows_and_positions_hold_together(self, log: ReadableLog, harness: LogHarness):
        await log.append([event(b"a"), event(b"b")])
        task = await log.open_task(0)
        await task.poll(1)
        await task.commit(Turn([Record("outputs", None, b"out")], {b"00k": b"row", b"00gone": None}, {INPUT: 1}))
        assert (task.store.get(b"00k"), outputs(log)) == (b"row", [b"out"])
        again = await harness.open()
        task = await again.open_task(0)
        assert list(task.store.scan(b"", b"\xff")) == [(b"00k", b"row")]
        assert outputs(again) == [b"out"]
        assert await values(task) == [b"b"]

    async def test_what_was_not_committed_is_polled_again(self, log: ReadableLog):
        await log.append([event(b"a"), event(b"b")])
        task = await log.open_task(0)
        await task.poll(2)
        await task.close()
        assert await values(await log.open_task(0)) == [b"a", b"b"]

    async def test_the_store_shows_nothing_before_the_commit_and_all_after(self, log: ReadableLog):
        task = await log.open_task(0)
        rows: dict[bytes, bytes | None] = {b"00%d" % n: b"v%d" % n for n in range(5)}
        turn = Turn(rows=rows)
        assert task.store.get_many(list(rows)) == [None] * 5
        await task.commit(turn)
        assert task.store.get_many(list(rows)) == list(rows.values())
        assert [key for key, _ in task.store.scan(b"001", b"004", 2)] == [b"001", b"002"]
        await task.commit(Turn(rows={b"002": None}))
        assert task.store.get(b"002") is None

    async def test_rows_of_two_tasks_do_not_meet(self, log: ReadableLog):
        one, two = await log.open_task(0), await log.open_task(1)
        await one.commit(Turn(rows={b"k": b"one"}))
        await two.commit(Turn(rows={b"k": b"two"}))
        assert (one.store.get(b"k"), two.store.get(b"k")) == (b"one", b"two")
        assert list(one.store.scan(b"", b"\xff")) == [(b"k", b"one")]

    async def test_a_turn_that_cannot_be_written_leaves_nothing(self, log: ReadableLog):
        task = await log.open_task(0)
        bad = Turn([Record("outputs", None, b"out"), Record("answers", None, b"x", (), 7)], {b"00k": b"row"})
        with pytest.raises(LogError):
            await task.commit(bad)
        with pytest.raises(TaskLostError):
            await task.commit(Turn())
        task = await log.open_task(0)
        assert (task.store.get(b"00k"), outputs(log)) == (None, [])
        await task.commit(Turn([Record("outputs", None, b"fine")]))
        assert outputs(log) == [b"fine"]

    async def test_turns_of_many_tasks_at_once(self, log: ReadableLog, harness: LogHarness):
        tasks = [await log.open_task(0), await log.open_task(1)]

        async def work(task: TaskLog) -> None:
            for n in range(20):
                await task.commit(Turn([Record("outputs", None, b"%d-%d" % (task.partition, n))], {b"n": b"%d" % n}))

        await asyncio.gather(*(work(task) for task in tasks))
        again = await harness.open()
        found = list(again.read("outputs"))
        assert [record.offset for record in found] == list(range(40))
        for partition in (0, 1):
            mine = [record.value for record in found if (record.value or b"").startswith(b"%d-" % partition)]
            assert mine == [b"%d-%d" % (partition, n) for n in range(20)]
            assert (await again.open_task(partition)).store.get(b"n") == b"19"

    async def test_a_turn_may_feed_its_own_inputs(self, log: ReadableLog):
        task = await log.open_task(0)
        await task.commit(Turn([event(b"next")]))
        assert await values(task) == [b"next"]


class TestFencing:
    async def test_an_older_incarnation_is_lost(self, log: ReadableLog):
        old = await log.open_task(0)
        await log.append([event(b"a")])
        new = await log.open_task(0)
        with pytest.raises(TaskLostError):
            await old.commit(Turn([Record("outputs", None, b"zombie")], {b"00k": b"zombie"}, {INPUT: 1}))
        with pytest.raises(TaskLostError):
            await old.poll(1)
        await old.close()
        assert outputs(log) == []
        assert await values(new) == [b"a"]
        await new.commit(Turn([Record("outputs", None, b"new")]))
        assert outputs(log) == [b"new"]

    async def test_incarnations_grow_over_restarts(self, log: ReadableLog, harness: LogHarness):
        first = (await log.open_task(0)).incarnation
        second = (await log.open_task(0)).incarnation
        again = await harness.open()
        third = (await again.open_task(0)).incarnation
        assert first < second < third
        assert (await again.open_task(1)).incarnation < third

    async def test_other_partitions_are_untouched(self, log: ReadableLog):
        other = await log.open_task(1)
        await log.open_task(0)
        await log.open_task(0)
        await other.commit(Turn(rows={b"k": b"v"}))

    async def test_a_closed_task_is_lost_and_closing_again_is_fine(self, log: ReadableLog):
        task = await log.open_task(0)
        await task.close()
        await task.close()
        with pytest.raises(TaskLostError):
            await task.poll(1)
        with pytest.raises(TaskLostError):
            await task.commit(Turn())

    async def test_a_task_of_a_closed_log_is_lost(self, log: ReadableLog):
        task = await log.open_task(0)
        reader = await log.open_reader("g", ["answers"])
        await log.close()
        with pytest.raises(TaskLostError):
            await task.commit(Turn())
        with pytest.raises(TaskLostError):
            await reader.poll(1)


class TestWaiting:
    async def test_an_append_wakes_a_waiting_task_and_reader(self, log: ReadableLog):
        task, reader = await log.open_task(0), await log.open_reader("g", ["answers", EVENTS])
        waiting = [asyncio.ensure_future(source.wait(30)) for source in (task, reader)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in waiting)
        await log.append([event(b"a")])
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert await values(task) == await values(reader) == [b"a"]

    async def test_input_that_is_there_is_not_waited_for(self, log: ReadableLog):
        task, reader = await log.open_task(0), await log.open_reader("g", [EVENTS])
        await log.append([event(b"a")])
        await asyncio.wait_for(task.wait(30), 5)
        await asyncio.wait_for(reader.wait(30), 5)

    async def test_a_wait_ends_by_itself(self, log: ReadableLog):
        task, reader = await log.open_task(0), await log.open_reader("g", [EVENTS])
        await asyncio.wait_for(task.wait(0.01), 5)
        await asyncio.wait_for(reader.wait(0.01), 5)
        assert await values(task) == []

    async def test_losing_the_task_ends_its_wait(self, log: ReadableLog):
        task = await log.open_task(0)
        waiting = asyncio.ensure_future(task.wait(30))
        await asyncio.sleep(0.01)
        await log.open_task(0)
        await asyncio.wait_for(waiting, 5)


class TestReaders:
    async def test_a_group_goes_on_where_it_committed(self, log: ReadableLog, harness: LogHarness):
        await log.append([Record("answers", None, b"%d" % n, (), n % 2) for n in range(6)])
        reader = await log.open_reader("g", ["answers"])
        assert sorted(await values(reader)) == [b"%d" % n for n in range(6)]  # type: ignore[type-var]
        await reader.commit()
        await log.append([Record("answers", None, b"6", (), 0)])
        assert await values(reader) == [b"6"]
        again = await harness.open(topics={"answers": 2})
        reader = await again.open_reader("g", ["answers"])
        assert reader.positions() == {TopicPartition("answers", 0): 3, TopicPartition("answers", 1): 3}
        assert await values(reader) == [b"6"]
        assert await values(await again.open_reader("other", ["answers"]), 100) != []

    async def test_records_and_position_are_committed_together(self, log: ReadableLog, harness: LogHarness):
        await log.append([Record("answers", None, b"a", (), 0)])
        reader = await log.open_reader("router", ["answers"])
        await reader.poll(10)
        await reader.commit([event(b"forwarded a")])
        again = await harness.open(topics={"answers": 2})
        assert await values(await again.open_reader("router", ["answers"])) == []
        assert await values(await again.open_task(0)) == [b"forwarded a"]

    async def test_two_readers_of_a_group_share_and_take_over(self, log: ReadableLog):
        await log.append([Record("answers", None, b"%d" % n, (), n % 2) for n in range(4)])
        one, two = await log.open_reader("g", ["answers"]), await log.open_reader("g", ["answers"])
        first, second = await values(one), await values(two)
        assert sorted(first + second) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]
        assert set(one.positions()).isdisjoint(two.positions())
        await one.commit()
        await two.close()
        assert await values(one) == second, "what the other did not commit is read again"

    async def test_a_closed_reader_is_lost(self, log: ReadableLog):
        reader = await log.open_reader("g", ["answers"])
        await reader.close()
        await reader.close()
        with pytest.raises(TaskLostError):
            await reader.poll(1)

    async def test_a_busy_partition_does_not_starve_the_others(self, log: ReadableLog):
        await log.append([Record("answers", None, b"busy", (), 0)] * 50 + [Record("answers", None, b"rare", (), 1)])
        reader = await log.open_reader("g", ["answers"])
        seen = [value for _ in range(3) for value in await values(reader, 10)]
        assert b"rare" in seen
