"""Turns of a task on a broker: they hold whole or not at all, whatever their size, and only for the newest opening."""

from __future__ import annotations

import asyncio
import gc

import pytest
from aiokafka import AIOKafkaProducer

from tests.contract.reading import take, values
from tests.integration.clients import fresh, settled
from tests.integration.logs import changelog_of, committed, create_topic, event, events_of, opened
from tpf_streams.errors import LogError, TaskLostError
from tpf_streams.logs.kafka import KafkaSettings, TopicSpec, TopicUse
from tpf_streams.logs.kafka.batches import BATCH_BYTES
from tpf_streams.logs.kafka.task import TaskProducer
from tpf_streams.ports import Record, Turn

pytestmark = pytest.mark.broker

TWO_MB = 2 * 1024 * 1024


async def successor(bootstrap: str, application: str) -> None:
    """What another worker's opening does to the present one: its InitProducerId."""
    producer = TaskProducer(KafkaSettings(bootstrap, application), 0, {})
    await producer.open()
    await producer.stop()


# --- fencing ----------------------------------------------------------------------------------------------------------


async def test_a_fenced_tasks_turn_is_lost_and_its_rows_are_not_applied(bootstrap_servers, tmp_path, caplog):
    application, outputs = fresh("app"), await create_topic(bootstrap_servers, fresh("outputs"))
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        await task.commit(Turn(rows={b"00k": b"mine"}))
        await successor(bootstrap_servers, application)
        with pytest.raises(TaskLostError):
            await task.commit(
                Turn([Record(outputs, None, b"zombie")], {b"00k": b"zombie"}, {events_of(application): 7})
            )
        assert task.store.get(b"00k") == b"mine"
        task = await log.open_task(0)
        assert task.store.get(b"00k") == b"mine"
        assert await committed(bootstrap_servers, log, outputs) == []
    gc.collect()
    assert "never retrieved" not in caplog.text, "the client's own future of the turn"


async def test_a_commit_that_ends_after_its_task_was_closed_is_not_applied(bootstrap_servers, tmp_path, monkeypatch):
    """The local copy is shared by the incarnations of a worker: by then a successor may have restored further rows,
    and the old turn would set them, and the mark, back."""
    async with opened(bootstrap_servers, fresh("app"), tmp_path) as log:
        old = await log.open_task(0)
        held, go_on = asyncio.Event(), asyncio.Event()
        commit = AIOKafkaProducer.commit_transaction

        async def late(producer: AIOKafkaProducer) -> None:
            await commit(producer)
            held.set()
            await go_on.wait()

        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", late)
        turn = asyncio.ensure_future(old.commit(Turn(rows={b"00k": b"old"})))
        await held.wait()
        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", commit)
        new = await log.open_task(0)
        assert new.store.get(b"00k") == b"old", "it holds all the same"
        await new.commit(Turn(rows={b"00k": b"new"}))
        go_on.set()
        with pytest.raises(TaskLostError):
            await turn
        assert new.store.get(b"00k") == b"new"
        await log.append([event(log._settings.application_id, b"next")])
        assert await values(new, 1) == [b"next"], "the successor goes on reading"


async def test_a_lost_tasks_late_failure_leaves_its_successor_alone(bootstrap_servers, tmp_path, monkeypatch):
    """A commit that fails when its partition is already open again must not shut what the successor reads."""
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        old = await log.open_task(0)
        begun, fail = asyncio.Event(), asyncio.Event()

        async def hang(*_: object) -> None:
            begun.set()
            await fail.wait()
            raise TimeoutError

        monkeypatch.setattr(old._producer, "transaction", hang)
        turn = asyncio.ensure_future(old.commit(Turn(rows={b"00k": b"old"})))
        await begun.wait()
        new = await log.open_task(0)
        fail.set()
        with pytest.raises(TaskLostError):
            await turn
        await log.append([event(application, b"next")])
        assert await values(new, 1) == [b"next"]


async def test_rows_that_cannot_be_applied_end_the_task_and_its_producer(bootstrap_servers, tmp_path, monkeypatch):
    """Otherwise its connections stay, and the next turn would be decided on rows that miss this one."""
    async with opened(bootstrap_servers, fresh("app"), tmp_path) as log:
        task = await log.open_task(0)
        with monkeypatch.context() as broken:
            broken.setattr(task._store, "apply", lambda *_: (_ for _ in ()).throw(LogError("disk full")))
            with pytest.raises(LogError, match="disk full"):
                await task.commit(Turn(rows={b"00k": b"v"}))
        assert task._producer._producer._closed
        with pytest.raises(TaskLostError):
            await task.commit(Turn())
        assert (await log.open_task(0)).store.get(b"00k") == b"v"


async def test_a_commit_whose_answer_is_lost_holds_when_the_broker_has_it(bootstrap_servers, tmp_path, monkeypatch):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        commit = AIOKafkaProducer.commit_transaction

        async def unanswered(producer: AIOKafkaProducer) -> None:
            await commit(producer)
            raise ConnectionResetError

        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", unanswered)
        with pytest.raises(TaskLostError, match="unknown"):
            await task.commit(Turn(rows={b"00k": b"held"}))
        monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", commit)
        assert task.store.get(b"00k") is None, "nobody knows yet"
        assert (await log.open_task(0)).store.get(b"00k") == b"held"


async def test_a_turn_that_was_never_committed_is_gone(bootstrap_servers, tmp_path, monkeypatch):
    application, outputs = fresh("app"), await create_topic(bootstrap_servers, fresh("outputs"))
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        await task.commit(Turn(rows={b"00k": b"before"}))

        async def refused(_: AIOKafkaProducer) -> None:
            raise ConnectionResetError

        with monkeypatch.context() as broken:
            broken.setattr(AIOKafkaProducer, "commit_transaction", refused)
            with pytest.raises(TaskLostError):
                await task.commit(Turn([Record(outputs, None, b"no")], {b"00k": b"no"}, {events_of(application): 1}))
        await log.append([event(application, b"again")])
        task = await log.open_task(0)
        assert task.store.get(b"00k") == b"before"
        assert await values(task, 1) == [b"again"]
        await task.commit(Turn([Record(outputs, None, b"yes")]))
        assert [record.value for record in await committed(bootstrap_servers, log, outputs)] == [b"yes"]


# --- sizes ------------------------------------------------------------------------------------------------------------


async def test_large_records_and_many_batches_hold_in_one_turn(bootstrap_servers, tmp_path):
    application = fresh("app")
    rows: dict[bytes, bytes | None] = {b"00%02d" % n: b"%02d" % n * (150 * 1024) for n in range(20)}
    rows |= {b"01large": b"x" * TWO_MB, b"02after": b"y"}
    assert sum(len(value or b"") for value in rows.values()) > 6 * BATCH_BYTES
    async with opened(bootstrap_servers, application, tmp_path / "one") as log:
        task = await log.open_task(0)
        large = Record(f"{application}-events", b"k", b"z" * (3 * 1024 * 1024), (), 0)
        await task.commit(Turn([large, *(event(application, b"%d" % n) for n in range(3_000))], rows))
        found = await take(task, 3_001)
        assert (found[0].key, len(found[0].value or b"")) == (b"k", 3 * 1024 * 1024)
        assert [record.value for record in found[1:]] == [b"%d" % n for n in range(3_000)]
    async with opened(bootstrap_servers, application, tmp_path / "two") as log:
        task = await log.open_task(0)
        assert dict(task.store.scan(b"00", b"\x7f")) == rows


async def test_small_records_do_not_exceed_a_small_topic_together(bootstrap_servers, tmp_path):
    """max.message.bytes holds for a batch. A topic that takes every record of a turn would refuse the turn."""
    topic = await create_topic(bootstrap_servers, fresh("requests"), max_message_bytes=70_000)
    topics = [TopicSpec(topic, TopicUse.REQUESTS, 1, record_bytes=66_000)]
    records = [Record(topic, b"key", b"%04d" % n * 250, (("header", b"h" * 20),) * 5) for n in range(300)]
    records += [Record(topic, None, b"l" * 65_000)]
    async with opened(bootstrap_servers, fresh("app"), tmp_path, topics=topics) as log:
        task = await log.open_task(0)
        await task.commit(Turn(records))
        await log.append(records)
        found = await committed(bootstrap_servers, log, topic)
        assert [record.value for record in found] == [record.value for record in records] * 2


async def test_a_record_too_large_for_its_topic_takes_its_whole_turn_with_it(bootstrap_servers, tmp_path):
    """A commit would succeed without the refused batch, and the record would be gone."""
    application = fresh("app")
    small = await create_topic(bootstrap_servers, fresh("requests"), max_message_bytes=10_000)
    outputs = await create_topic(bootstrap_servers, fresh("outputs"))
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        bad = [Record(outputs, None, b"before"), Record(small, None, b"x" * 20_000), Record(small, None, b"behind")]
        with pytest.raises(TaskLostError):
            await task.commit(Turn(bad, {b"00k": b"bad"}, {events_of(application): 1}))
        task = await log.open_task(0)
        assert task.store.get(b"00k") is None
        await task.commit(Turn([Record(outputs, None, b"fine"), Record(small, None, b"fine")], {b"00k": b"fine"}))
        for topic in (outputs, small):
            assert [record.value for record in await committed(bootstrap_servers, log, topic)] == [b"fine"]
    async with opened(bootstrap_servers, application, tmp_path / "anew") as log:
        assert (await log.open_task(0)).store.get(b"00k") == b"fine"


# --- what a turn is made of -------------------------------------------------------------------------------------------


async def test_a_turn_without_rows_keeps_the_copy_whole(bootstrap_servers, tmp_path):
    application, outputs = fresh("app"), await create_topic(bootstrap_servers, fresh("outputs"))
    async with opened(bootstrap_servers, application, tmp_path) as log:
        task = await log.open_task(0)
        await task.commit(Turn(rows={b"00k": b"v"}))
        await task.commit(Turn([Record(outputs, None, b"out")]))
        await task.commit(Turn())
        task = await log.open_task(0)
        assert task.store.get(b"00k") == b"v"
        await task.commit(Turn(rows={b"00k": None}))
    await settled(bootstrap_servers, changelog_of(application))
    async with opened(bootstrap_servers, application, tmp_path) as log:
        assert list((await log.open_task(0)).store.scan(b"00", b"01")) == []


async def test_positions_are_rows_of_the_turn(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path / "one") as log:
        await log.append([event(application, b"%d" % n) for n in range(4)])
        task = await log.open_task(0)
        assert await values(task, 4) == [b"0", b"1", b"2", b"3"]
        await task.commit(Turn(positions={events_of(application): 3}))
        assert list(task.store.scan(b"", b"\xff")) == [], "no row of the engine's"
    async with opened(bootstrap_servers, application, tmp_path / "two") as log:
        assert await values(await log.open_task(0), 1) == [b"3"]
