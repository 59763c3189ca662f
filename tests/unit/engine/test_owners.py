"""Who has a partition: written by its task when it is open, read by every worker, and never guessed."""

from __future__ import annotations

import orjson
import pytest

from tests.unit.engine.shell import Shell
from tpf_streams.engine.owners import Advertised, Owner, Owners, owner_of, owner_record, owners_topic
from tpf_streams.engine.worker import Worker
from tpf_streams.errors import TaskLostError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import InputRecord, Record
from tpf_streams.testing.clock import ManualClock

TOPIC = owners_topic("pay")
ONE = Owner(2, "one", "http://one:6066", 17)


def read(record: Record, **changes) -> InputRecord:
    found = {
        "topic": record.topic, "partition": record.partition or 0, "offset": 0, "timestamp_ms": 0,
        "key": record.key, "value": record.value, "headers": record.headers,
    }  # fmt: skip
    return InputRecord(**{**found, **changes})


def value(**changes) -> bytes:
    return orjson.dumps({"workerId": "one", "url": None, "incarnation": 1, **changes})


@pytest.mark.parametrize("owner", [ONE, Owner(0, "two", None, 0)])
def test_an_owner_is_read_as_it_was_written(owner):
    record = owner_record(TOPIC, owner)
    assert (record.topic, record.partition, record.key) == ("pay-owners", owner.partition, b"%d" % owner.partition)
    assert owner_of(read(record)) == owner


@pytest.mark.parametrize(
    "changes",
    [
        {"value": None},
        {"value": b"{"},
        {"value": b"[]"},
        {"value": b"{}"},
        {"value": value(workerId=1)},
        {"value": value(url=1)},
        {"value": value(incarnation=True)},
        {"value": value(incarnation=-1)},
        {"value": value(incarnation="1")},
        {"headers": ()},
        {"headers": (("tpf-event", b"owner"), ("tpf-version", b"2"))},
        {"headers": (("tpf-event", b"else"), ("tpf-version", b"1"))},
    ],
)
def test_what_cannot_be_read_is_nobody(changes):
    assert owner_of(read(owner_record(TOPIC, ONE), **changes)) is None


def test_a_field_of_a_later_release_is_passed_over():
    assert owner_of(read(owner_record(TOPIC, ONE), value=value(zone="a"))) == Owner(2, "one", None, 1)


def test_the_last_record_of_a_partition_holds(caplog):
    owners, two = Owners(4), Owner(2, "two", None, 30)
    owners.told([read(owner_record(TOPIC, owner)) for owner in (ONE, Owner(0, "one", None, 3), two)])
    assert [owners.of(number) for number in range(4)] == [Owner(0, "one", None, 3), None, two, None]
    owners.told([read(owner_record(TOPIC, ONE), value=None)])
    assert owners.of(2) is None
    assert caplog.messages == []
    owners.told([read(owner_record(TOPIC, ONE)), read(owner_record(TOPIC, ONE), value=b"secret", offset=9)])
    assert owners.of(2) is None, "what a later record said nobody knows: it was not this"
    assert caplog.messages == ["pay-owners/2 at 9 cannot be read; what others have of that partition is not known here"]
    owners.told([read(owner_record(TOPIC, Owner(4, "one", None, 1)))])
    assert owners.of(4) is None, "the topic may have more partitions than the application"


# --- who writes it ----------------------------------------------------------------------------------------------------


def shell_of(log: MemoryLog, worker_id: str) -> Shell:
    shell = Shell("k", log=log)
    shell.env.advertised = Advertised(worker_id, f"http://{worker_id}:1")
    return shell


def memory_log() -> MemoryLog:
    return MemoryLog(application_id="pay", partitions=1, topics={TOPIC: 1}, clock=ManualClock())


def told(log: MemoryLog) -> list[Owner | None]:
    return [owner_of(record) for record in log.read(TOPIC)]


async def test_a_task_that_has_opened_says_so_and_its_successor_after_it():
    log = memory_log()
    first, second = (Worker(shell_of(log, name).env) for name in ("one", "two"))
    await first.open()
    incarnation = first.tasks[0].log.incarnation
    assert told(log) == [Owner(0, "one", "http://one:1", incarnation)]
    second.take(0)
    await second.open_task(0)
    assert told(log)[1:] == [Owner(0, "two", "http://two:1", second.tasks[0].log.incarnation)]
    assert second.tasks[0].log.incarnation > incarnation
    await second.close()


async def test_a_worker_that_has_lost_the_partition_while_it_opened_it_says_nothing():
    log = memory_log()
    shell = shell_of(log, "zombie")
    found = Worker(shell.env)
    opening = log.open_task

    async def overtaken(partition):
        task = await opening(partition)
        await opening(partition)  # a successor's, which fences this one
        return task

    log.open_task = overtaken  # type: ignore[method-assign]
    found.take(0)
    with pytest.raises(TaskLostError):
        await found.open_task(0)
    assert (told(log), found.tasks) == ([], {})


async def test_on_a_log_without_other_workers_nothing_is_said():
    log = memory_log()
    found = Worker(Shell("k", log=log).env)
    await found.open()
    assert told(log) == []
    await found.close()
