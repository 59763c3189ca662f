"""What every Log does."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.contract.conftest import InProcess, LogHarness, Names
from tests.contract.reading import is_quiet, read_all, take, values
from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.ports import Log, Record, TaskLog, TopicPartition, Turn


async def outputs(harness: LogHarness, log: Log, names: Names) -> list[bytes | None]:
    await harness.settled(names.outputs)
    return [record.value for record in await read_all(log, names.outputs)]


class TestRecords:
    async def test_a_task_reads_its_own_partition_in_order(self, log: Log, names: Names):
        await log.append([names.event(b"a"), names.event(b"other", 1), names.event(b"b")])
        task = await log.open_task(0)
        assert await values(task, 2) == [b"a", b"b"]
        assert await is_quiet(task)

    async def test_a_record_arrives_as_it_was_appended(self, log: Log, names: Names):
        headers = (("name", b"v"), ("empty", b""), ("ümlaut", b"\x00\xff"), ("name", b"twice"))
        await log.append([Record(names.events, None, None, (), 0), Record(names.events, b"", b"", headers, 0)])
        first, second = await take(await log.open_task(0), 2)
        assert (first.key, first.value, first.headers) == (None, None, ())
        assert (second.key, second.value, second.headers) == (b"", b"", headers)
        assert (second.topic, second.partition, second.offset) == (names.events, 0, 1)

    async def test_poll_gives_at_most_what_was_asked(self, log: Log, names: Names):
        await log.append([names.event(b"%d" % n) for n in range(5)])
        task = await log.open_task(0)
        assert await values(task, 1, at_most=2) == [b"0", b"1"]
        assert await values(task, 1, at_most=2) == [b"2", b"3"]
        assert await values(task, 1, at_most=2) == [b"4"]

    async def test_a_key_always_goes_to_one_partition(self, log: Log, names: Names):
        await log.append([Record(names.answers, b"%d" % (n % 10), b"v") for n in range(50)])
        homes: dict[bytes | None, set[int]] = {}
        for record in await read_all(log, names.answers):
            homes.setdefault(record.key, set()).add(record.partition)
        assert {len(found) for found in homes.values()} == {1}
        assert set.union(*homes.values()) == {0, 1}

    async def test_a_partition_that_is_not_there_is_refused(self, log: Log, names: Names):
        with pytest.raises(LogError, match="2 partition"):
            await log.append([names.event(b"fine"), names.event(b"x", 2)])
        assert set((await log.end_offsets([names.events])).values()) == {0}
        with pytest.raises(LogError, match="no partition 2"):
            await log.open_task(2)

    async def test_end_offsets(self, log: Log, names: Names):
        await log.append([names.event(b"a", 1), names.event(b"b", 1)])
        ends = await log.end_offsets([names.events, names.answers])
        assert ends[TopicPartition(names.events, 1)] == 2
        assert ends[names.input] == 0
        assert ends[TopicPartition(names.answers, 1)] == 0
        assert len(ends) == 4


class TestTurns:
    async def test_records_rows_and_positions_hold_together(self, log: Log, harness: LogHarness, names: Names):
        await log.append([names.event(b"a"), names.event(b"b")])
        task = await log.open_task(0)
        assert await values(task, 1, at_most=1) == [b"a"]
        await task.commit(Turn([names.output(b"out")], {b"00k": b"row", b"00gone": None}, {names.input: 1}))
        assert task.store.get(b"00k") == b"row"
        assert await outputs(harness, log, names) == [b"out"]
        again = await harness.open()
        task = await again.open_task(0)
        assert list(task.store.scan(b"", b"\xff")) == [(b"00k", b"row")]
        assert await outputs(harness, again, names) == [b"out"]
        assert await values(task, 1) == [b"b"]

    async def test_what_was_not_committed_is_polled_again(self, log: Log, names: Names):
        await log.append([names.event(b"a"), names.event(b"b")])
        task = await log.open_task(0)
        await take(task, 2)
        await task.close()
        assert await values(await log.open_task(0), 2) == [b"a", b"b"]

    async def test_the_store_shows_nothing_before_the_commit_and_all_after(self, log: Log):
        task = await log.open_task(0)
        rows: dict[bytes, bytes | None] = {b"00%d" % n: b"v%d" % n for n in range(5)}
        turn = Turn(rows=rows)
        assert task.store.get_many(list(rows)) == [None] * 5
        await task.commit(turn)
        assert task.store.get_many(list(rows)) == list(rows.values())
        assert [key for key, _ in task.store.scan(b"001", b"004", 2)] == [b"001", b"002"]
        await task.commit(Turn(rows={b"002": None}))
        assert task.store.get(b"002") is None

    async def test_rows_of_two_tasks_do_not_meet(self, log: Log):
        one, two = await log.open_task(0), await log.open_task(1)
        await one.commit(Turn(rows={b"k": b"one"}))
        await two.commit(Turn(rows={b"k": b"two"}))
        assert (one.store.get(b"k"), two.store.get(b"k")) == (b"one", b"two")
        assert list(one.store.scan(b"", b"\xff")) == [(b"k", b"one")]

    async def test_a_turn_that_cannot_be_written_leaves_nothing(self, log: Log, harness: LogHarness, names: Names):
        task = await log.open_task(0)
        with pytest.raises(LogError):
            await task.commit(Turn([names.output(b"out"), names.answer(b"x", 7)], {b"00k": b"row"}))
        with pytest.raises(TaskLostError):
            await task.commit(Turn())
        task = await log.open_task(0)
        assert task.store.get(b"00k") is None
        await task.commit(Turn([names.output(b"fine")]))
        assert await outputs(harness, log, names) == [b"fine"]

    async def test_turns_of_many_tasks_at_once(self, log: Log, harness: LogHarness, names: Names):
        tasks = [await log.open_task(0), await log.open_task(1)]

        async def work(task: TaskLog) -> None:
            for n in range(20):
                await task.commit(Turn([names.output(b"%d-%d" % (task.partition, n))], {b"n": b"%d" % n}))

        await asyncio.gather(*(work(task) for task in tasks))
        again = await harness.open()
        await harness.settled(names.outputs)
        found = await read_all(again, names.outputs)
        assert all(one.offset < other.offset for one, other in pairwise(found))
        for partition in (0, 1):
            mine = [record.value for record in found if (record.value or b"").startswith(b"%d-" % partition)]
            assert mine == [b"%d-%d" % (partition, n) for n in range(20)]
            assert (await again.open_task(partition)).store.get(b"n") == b"19"

    async def test_a_turn_may_feed_its_own_inputs(self, log: Log, names: Names):
        task = await log.open_task(0)
        await task.commit(Turn([names.event(b"next")]))
        assert await values(task, 1) == [b"next"]


class TestFencing:
    async def test_an_older_incarnation_is_lost(self, log: Log, harness: LogHarness, names: Names):
        old = await log.open_task(0)
        await log.append([names.event(b"a")])
        new = await log.open_task(0)
        with pytest.raises(TaskLostError):
            await old.commit(Turn([names.output(b"zombie")], {b"00k": b"zombie"}, {names.input: 1}))
        with pytest.raises(TaskLostError):
            await old.poll(1)
        await old.close()
        assert await values(new, 1) == [b"a"]
        await new.commit(Turn([names.output(b"new")]))
        assert await outputs(harness, log, names) == [b"new"]
        assert new.store.get(b"00k") is None

    async def test_incarnations_grow_over_restarts(self, log: Log, harness: LogHarness):
        first = (await log.open_task(0)).incarnation
        second = (await log.open_task(0)).incarnation
        again = await harness.open()
        third = (await again.open_task(0)).incarnation
        assert first < second < third
        assert (await again.open_task(1)).incarnation < third

    async def test_other_partitions_are_untouched(self, log: Log):
        other = await log.open_task(1)
        await log.open_task(0)
        await log.open_task(0)
        await other.commit(Turn(rows={b"k": b"v"}))

    async def test_a_closed_task_is_lost_and_closing_again_is_fine(self, log: Log):
        task = await log.open_task(0)
        await task.close()
        await task.close()
        with pytest.raises(TaskLostError):
            await task.poll(1)
        with pytest.raises(TaskLostError):
            await task.commit(Turn())

    async def test_a_task_of_a_closed_log_is_lost(self, log: Log, names: Names):
        task = await log.open_task(0)
        reader = await log.open_reader(f"{names.application_id}-g", [names.answers])
        await log.close()
        with pytest.raises(TaskLostError):
            await task.commit(Turn())
        with pytest.raises(TaskLostError):
            await reader.poll(1)


class TestWaiting:
    async def test_an_append_wakes_a_waiting_task_and_reader(self, log: Log, names: Names):
        task = await log.open_task(0)
        reader = await log.open_reader(f"{names.application_id}-g", [names.answers, names.events])
        waiting = [asyncio.ensure_future(source.wait(30)) for source in (task, reader)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in waiting)
        await log.append([names.event(b"a")])
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert [record.value for record in await task.poll(10)] == [b"a"]
        assert [record.value for record in await reader.poll(10)] == [b"a"]

    async def test_input_that_is_there_is_not_waited_for(self, log: Log, names: Names):
        task = await log.open_task(0)
        reader = await log.open_reader(f"{names.application_id}-g", [names.events])
        await log.append([names.event(b"a")])
        await asyncio.wait_for(task.wait(30), 5)
        await asyncio.wait_for(reader.wait(30), 5)

    async def test_a_wait_ends_by_itself(self, log: Log, names: Names):
        task = await log.open_task(0)
        reader = await log.open_reader(f"{names.application_id}-g", [names.events])
        await asyncio.wait_for(task.wait(0.01), 5)
        await asyncio.wait_for(reader.wait(0.01), 5)
        assert await task.poll(10) == []

    async def test_losing_the_task_ends_its_wait(self, log: Log):
        task = await log.open_task(0)
        waiting = asyncio.ensure_future(task.wait(30))
        await asyncio.sleep(0.01)
        await log.open_task(0)
        await asyncio.wait_for(waiting, 5)


class TestReaders:
    async def test_a_group_goes_on_where_it_committed(self, log: Log, harness: LogHarness, names: Names):
        group, other = f"{names.application_id}-g", f"{names.application_id}-other"
        await log.append([names.answer(b"%d" % n, n % 2) for n in range(6)])
        reader = await log.open_reader(group, [names.answers])
        assert sorted(await values(reader, 6)) == [b"%d" % n for n in range(6)]  # type: ignore[type-var]
        await reader.commit()
        await log.append([names.answer(b"6", 0)])
        assert await values(reader, 1) == [b"6"]
        again = await harness.open()
        reader = await again.open_reader(group, [names.answers])
        assert reader.positions() == {TopicPartition(names.answers, 0): 3, TopicPartition(names.answers, 1): 3}
        assert await values(reader, 1) == [b"6"]
        assert len(await values(await again.open_reader(other, [names.answers]), 7)) == 7

    async def test_records_and_position_are_committed_together(self, log: Log, harness: LogHarness, names: Names):
        group = f"{names.application_id}-router"
        await log.append([names.answer(b"a", 0)])
        reader = await log.open_reader(group, [names.answers])
        assert await values(reader, 1) == [b"a"]
        await reader.commit([names.event(b"forwarded a")])
        again = await harness.open()
        assert await is_quiet(await again.open_reader(group, [names.answers]))
        assert await values(await again.open_task(0), 1) == [b"forwarded a"]

    async def test_two_readers_of_a_group_share_and_take_over(self, log: Log, names: Names):
        await log.append([names.answer(b"%d" % n, n % 2) for n in range(4)])
        group = f"{names.application_id}-g"
        one, two = [await log.open_reader(group, [names.answers]) for _ in range(2)]
        first, second = await asyncio.gather(values(one, 2), values(two, 2))
        assert sorted(first + second) == [b"0", b"1", b"2", b"3"]  # type: ignore[type-var]
        assert set(one.positions()).isdisjoint(two.positions())
        await one.commit()
        await two.close()
        assert await values(one, 2) == second, "what the other did not commit is read again"

    async def test_a_closed_reader_is_lost(self, log: Log, names: Names):
        reader = await log.open_reader(f"{names.application_id}-g", [names.answers])
        await reader.close()
        await reader.close()
        with pytest.raises(TaskLostError):
            await reader.poll(1)

    async def test_a_busy_partition_does_not_starve_the_others(self, log: Log, names: Names):
        await log.append([names.answer(b"busy", 0)] * 50 + [names.answer(b"rare", 1)])
        reader = await log.open_reader(f"{names.application_id}-g", [names.answers])
        await reader.wait(5)
        seen = [value for _ in range(3) for value in await values(reader, 1, at_most=10)]
        assert b"rare" in seen


class TestInProcess:
    """What a test may do with a log that lies in its own process: drive the clock, look at records."""

    async def test_a_record_carries_the_time_of_the_log(self, in_process: InProcess, names: Names):
        log = await in_process.open()
        in_process.clock.ms = 12_345
        await log.append([names.event(b"a")])
        assert [record.timestamp_ms for record in await (await log.open_task(0)).poll(10)] == [12_345]

    async def test_append_times_never_go_back(self, in_process: InProcess, names: Names):
        log = await in_process.open()
        await log.append([names.event(b"a")])
        in_process.clock.ms -= 500
        await log.append([names.event(b"b")])
        assert [record.timestamp_ms for record in log.read(names.events)] == [1_000, 1_000]
        again = await in_process.open()
        await again.append([names.event(b"c")])
        assert [record.timestamp_ms for record in again.read(names.events)] == [1_000, 1_000, 1_000]

    async def test_read_by_offset_and_limit(self, in_process: InProcess, names: Names):
        log = await in_process.open()
        await log.append([names.output(b"%d" % n) for n in range(6)])
        assert [record.value for record in log.read(names.outputs, 2, 3)] == [b"2", b"3", b"4"]
        assert [record.value for record in log.read(names.outputs, limit=0)] == []
        assert list(log.read("never used")) == []

    async def test_turns_leave_no_holes(self, in_process: InProcess, names: Names):
        log = await in_process.open()
        task = await log.open_task(0)
        for n in range(3):
            await task.commit(Turn([names.output(b"%d" % n)]))
        assert [record.offset for record in log.read(names.outputs)] == [0, 1, 2]
