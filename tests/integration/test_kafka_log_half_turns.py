"""A transaction of a predecessor that has its marker in some of its partitions and not in others (see unsettled.py)."""

from __future__ import annotations

import time

import pytest
from aiokafka import TopicPartition as KafkaPartition

from tests.integration.clients import end_offset, fresh, transactional
from tests.integration.logs import changelog_of, committed, opened
from tpf_streams.logs.kafka import TopicSpec, TopicUse
from tpf_streams.logs.kafka.changelog import entries_of
from tpf_streams.ports import Record, Turn

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

# Lets a producer write what the coordinator does not know of, and so gives no marker to.
UNVERIFIED = pytest.mark.parametrize(
    "own_broker", [{"transaction.partition.verification.enable": "false"}], indirect=True
)


class Halved:
    """Turns of one application as a broker could leave them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.application = fresh("app")
        self.outputs = KafkaPartition(f"{self.application}-outputs", 0)
        self.changelog = changelog_of(self.application)
        self.time_ms = 0

    def log(self, directory):
        topics = [TopicSpec(self.outputs.topic, TopicUse.OUTPUTS, 1)]
        return opened(self.bootstrap, self.application, directory, topics=topics)

    async def work(self, directory, name: bytes) -> None:
        async with self.log(directory) as log:
            task = await log.open_task(0)
            await task.commit(Turn([Record(self.outputs.topic, name, name)], {b"00" + name: b"v"}))
            await task.close()

    async def halve(self, name: bytes, unmarked: list[KafkaPartition], end: str | None) -> None:
        """A turn whose markers are missing in `unmarked`; without an `end` it is left open."""
        async with transactional(self.bootstrap, f"{self.application}-0") as producer:
            await self.turn(producer, name, [self.changelog, self.outputs], unmarked, end)

    async def turn(self, producer, name, written, unmarked, end: str | None) -> None:
        """All its records have one time, as those of a worker's turns have."""
        join, self.time_ms = (
            producer._txn_manager.maybe_add_partition_to_txn,
            max(self.time_ms + 1, round(time.time() * 1000)),
        )
        producer._txn_manager.maybe_add_partition_to_txn = lambda at: None if at in unmarked else join(at)
        await producer.begin_transaction()
        ((key, value, _),) = entries_of({b"00" + name: b"v"}, {})
        for at in written:
            record = (value, key) if at == self.changelog else (name, name)
            await producer.send_and_wait(at.topic, *record, at.partition, timestamp_ms=self.time_ms)
        if end is not None:
            await getattr(producer, f"{end}_transaction")()
        producer._txn_manager.maybe_add_partition_to_txn = join
        for at in unmarked:
            assert await end_offset(self.bootstrap, at) < await end_offset(self.bootstrap, at, "read_uncommitted")

    async def turns(self, directory) -> set[bytes]:
        """Those that came true, each in both places."""
        async with self.log(directory) as log:
            task = await log.open_task(0)
            rows = {key[2:] for key, _ in task.store.scan(b"00", b"01")}
            await task.close()
            outputs = [record.value or b"" for record in await committed(self.bootstrap, log, self.outputs.topic)]
        assert sorted(rows) == sorted(outputs)
        return rows


@UNVERIFIED
async def test_what_has_no_marker_here_ends_as_it_ended_elsewhere(own_broker, tmp_path):
    """Outputs of a turn whose rows were aborted came true with the opening's own commit, or rows without outputs."""
    for end, side, mine in [
        ("abort", "outputs", {b"before"}),
        ("abort", "changelog", {b"before"}),
        (None, "outputs", {b"before"}),
        (None, "changelog", {b"before"}),
        ("commit", "outputs", {b"before", b"half"}),
        ("commit", "changelog", {b"before", b"half"}),
    ]:
        halved = Halved(own_broker.bootstrap_servers)
        directory = tmp_path / f"{end}-{side}"
        await halved.work(directory, b"before")
        await halved.halve(b"half", [getattr(halved, side)], end)
        assert await halved.turns(directory / "copy of nothing") == mine, (end, side)
        await halved.work(directory, b"after")
        assert await halved.turns(directory) == {*mine, b"after"}, (end, side)


@UNVERIFIED
async def test_the_end_of_a_later_turn_is_not_taken_for_that_of_an_earlier_one(own_broker, tmp_path):
    """The incarnation had gone on after the broker came back; the request of its committed turn would be lost."""
    halved = Halved(own_broker.bootstrap_servers)
    await halved.work(tmp_path, b"before")
    async with transactional(halved.bootstrap, f"{halved.application}-0") as producer:
        await halved.turn(producer, b"half", [halved.changelog, halved.outputs], [halved.outputs], "commit")
        await halved.turn(producer, b"open", [halved.changelog], [], None)
    assert await halved.turns(tmp_path) == {b"before", b"half"}


@UNVERIFIED
async def test_a_turn_whose_changes_never_came_is_none(own_broker, tmp_path):
    """Its requests were there already; the marker in the changelog ends nothing that can be seen."""
    halved = Halved(own_broker.bootstrap_servers)
    await halved.work(tmp_path, b"before")
    async with transactional(halved.bootstrap, f"{halved.application}-0") as producer:
        manager = producer._txn_manager
        await producer.begin_transaction()
        manager.maybe_add_partition_to_txn(halved.changelog)
        manager.maybe_add_partition_to_txn = lambda at: None
        await producer.send_and_wait(halved.outputs.topic, b"half", b"half", 0)
        await producer.abort_transaction()
    assert await halved.turns(tmp_path) == {b"before"}


@UNVERIFIED
async def test_a_repair_is_not_taken_for_the_end_of_what_came_behind_it(own_broker, tmp_path):
    halved = Halved(own_broker.bootstrap_servers)
    await halved.work(tmp_path, b"before")
    await halved.halve(b"half", [halved.outputs], "abort")
    assert await halved.turns(tmp_path) == {b"before"}
    await halved.halve(b"whole", [halved.outputs], "commit")
    assert await halved.turns(tmp_path) == {b"before", b"whole"}


@UNVERIFIED
async def test_what_has_no_marker_anywhere_was_committed(own_broker, tmp_path):
    """Whoever committed it may have been told that it holds."""
    halved = Halved(own_broker.bootstrap_servers)
    await halved.work(tmp_path, b"before")
    await halved.halve(b"whole", [halved.changelog, halved.outputs], "commit")
    assert await halved.turns(tmp_path) == {b"before", b"whole"}
