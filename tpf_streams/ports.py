"""What the engine asks of the world: the Protocols that adapters implement.

The unit of work is `TaskLog.commit(Turn)`: records out, row changes and input positions hold together or not at all
(architecture D3, D4). Nothing here knows Kafka, RocksDB or HTTP. Everything async here is called from one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tpf_streams.core.frozen import frozen

if TYPE_CHECKING:
    from tpf_streams.core.context import StepContext
    from tpf_streams.core.effects import Fact
    from tpf_streams.core.execution import ExecutionRecord, OutputRecord, RejectRecord
    from tpf_streams.core.interaction import InteractionRecord
    from tpf_streams.core.step import AwaitDefinition, Json

Headers = tuple[tuple[str, bytes], ...]


@frozen
class Record:
    """A record to append.

    `partition` None: the adapter chooses, by `place` where there is one, so that records of equal place keep their
    order; else by key, or at random without one. The partition of a place is `place` modulo their number.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    place: int | None = None


@frozen
class InputRecord:
    """A record as read. `timestamp_ms` is the append time of the log, never the producer's."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class TopicPartition(NamedTuple):
    """One partition of one topic; the key of positions."""

    topic: str
    partition: int


def positions_behind(records: Iterable[InputRecord]) -> dict[TopicPartition, int]:
    """The next offset to read of each partition from which `records`, in their order, were read."""
    ends = {(record.topic, record.partition): record.offset + 1 for record in records}
    return {TopicPartition(*place): end for place, end in ends.items()}


@frozen
class Turn:
    """One atomic unit of work of one task.

    rows: store key -> value, None deletes; keys already carry the 2-byte slot. positions: the next offset to read of
    each input that moved. All three hold together or not at all.
    """

    records: Sequence[Record] = ()
    rows: Mapping[bytes, bytes | None] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


class StateStore(Protocol):
    """Ordered byte keys to byte values. Reads see every committed write of this process at once."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with start <= key < end in key order, as of the call, at most `limit`."""
        ...

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Apply all or nothing; None deletes."""
        ...

    def close(self) -> None: ...


class ReadableStore(Protocol):
    """The part of a store that decisions may use."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int | None = None) -> Iterator[tuple[bytes, bytes]]: ...


class TaskLog(Protocol):
    """One opened partition of the application: its inputs, its rows, its transactions.

    An instance is one incarnation: after `TaskLostError`, or any other exception out of `commit`, it is closed and a
    new one is opened by `Log.open_task`; nothing read before may be used (architecture D3).
    """

    @property
    def partition(self) -> int: ...

    @property
    def incarnation(self) -> int:
        """Grows with every opening of this partition; results that carry an older one are dropped."""
        ...

    @property
    def position(self) -> int:
        """How far its events are read: the next offset. What a turn under way has taken may count or not."""
        ...

    @property
    def store(self) -> ReadableStore: ...

    @property
    def distant(self) -> bool:
        """Whether a commit takes round trips, so that the next turn is better decided meanwhile."""
        ...

    async def poll(self, max_records: int) -> list[InputRecord]:
        """Next input records in order, or [] at once when there are none. Raises TaskLostError when fenced."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Return when input may have come, or after `timeout_s`."""
        ...

    async def commit(self, turn: Turn) -> None:
        """Make the turn hold. Returns only when it does, durably; raises when it does not or nobody knows."""
        ...

    def hasten(self) -> None:
        """Whoever stops waits for the commit under way: from now on one that nothing will answer raises soon."""
        ...

    async def close(self) -> None:
        """Give the partition up. Idempotent; never raises for a task already lost."""
        ...


class RecordReader(Protocol):
    """A named group's own reading of whole topics: the completion router, a provider, a test.

    Each record is read by one reader of the group at a time, from the earliest uncommitted offset, at least once.
    """

    async def poll(self, max_records: int) -> list[InputRecord]: ...

    async def wait(self, timeout_s: float) -> None: ...

    async def commit(
        self, records: Sequence[Record] = (), positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Append `records` and store `positions`, together where the log can.

        Without `positions`: behind everything polled so far. A position never goes back.
        """
        ...

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read of every partition this reader has."""
        ...

    async def close(self) -> None: ...


class TaskGroup(Protocol):
    """Who runs the tasks of the partitions that the log gives to this process."""

    def assigned(self, partitions: Collection[int]) -> None:
        """These are this process's from now on. Returns at once and never raises: no heartbeat leaves meanwhile."""
        ...

    async def revoked(self, partitions: Collection[int]) -> None:
        """These are not any more. Returns when their turns are finished and their tasks closed; never raises."""
        ...


class ReaderSource(Protocol):
    """What opens readers: a log, or a client of its cluster that has no part in the application."""

    async def open_reader(self, group: str, topics: Sequence[str]) -> RecordReader: ...


class Log(ReaderSource, Protocol):
    """A log with the application's topics: partitions, atomic turns, readers by group."""

    @property
    def partitions(self) -> int:
        """Partition count of the application's internal topics and so the number of tasks."""
        ...

    async def join(self, group: TaskGroup) -> None:
        """Tell `group` its partitions, now and whenever they change. Returns behind the first `assigned`."""
        ...

    async def open_task(self, partition: int) -> TaskLog:
        """Fence any predecessor, restore the rows, seek the inputs to the stored positions (architecture D3).

        Raises LogOwnedError, LogCorruptError, TaskLostError.
        """
        ...

    async def append(self, records: Sequence[Record]) -> None:
        """Append outside any turn, durably: submissions, operators' events."""
        ...

    async def end_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """The offset behind the last stable record of every partition of `topics`."""
        ...

    async def close(self) -> None: ...


class ReadableLog(Log, Protocol):
    """A log whose records lie in this process, so that tests and a driver can look at them without a reader."""

    def read(self, topic: str, start: int = 0, limit: int | None = None) -> Iterator[InputRecord]:
        """Committed records of a topic that are still kept, partition by partition."""
        ...


class Clock(Protocol):
    """Time, the only source of it. Epoch milliseconds for what is stored, seconds for durations."""

    def now_ms(self) -> int: ...

    def monotonic_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class AwaitTransport(Protocol):
    """How requests of await steps leave. One instance per transport type.

    A transport whose requests are records of the log returns them from `request_record`; they join the turn. One that
    returns None is owed instead: `send` is called after the commit, at least once, under the same ids.
    """

    @property
    def type(self) -> str: ...

    def request_record(self, step: AwaitDefinition, interaction: InteractionRecord) -> Record | None: ...

    async def send(self, step: AwaitDefinition, interaction: InteractionRecord) -> Mapping[str, object]:
        """Perform the dispatch outside the log and return its metadata. Raises RetryableError or TerminalError."""
        ...


class Observer(Protocol):
    """Told of facts after the commit that made them true: metrics, progress. Lifecycle events are in the commit."""

    def observe(self, facts: Sequence[Fact]) -> None: ...


class Meter(Protocol):
    """Told how the engine works: for metrics. Called on the engine's loop, some of it every turn; never raises."""

    def turn_ended(self, events: int, seconds: float) -> None:
        """From the poll to what the commit set off."""
        ...

    def committed(self, seconds: float) -> None: ...

    def source_paused(self, seconds: float) -> None:
        """A source had room for nothing more; told now and then while it lasts."""
        ...

    def slot_waited(self, step_index: int, seconds: float) -> None:
        """A slot that was not free at once has been granted."""
        ...

    def retried(self) -> None:
        """Outside work failed and is tried again."""
        ...


class StepKind(StrEnum):
    """How a step's callable gives its result."""

    FUNCTION = "function"
    ASYNC_FUNCTION = "async function"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"


class BoundStep(Protocol):
    """The user's callable behind one service step."""

    @property
    def kind(self) -> StepKind: ...

    @property
    def name(self) -> str: ...

    @property
    def accepts(self) -> Callable[[object], bool]:
        """Whether the step takes a value; items of other union arms pass by (contract 12.2)."""
        ...

    @property
    def takes_context(self) -> bool:
        """Whether the callable asks for a context."""
        ...

    def call(self, value: object, context: StepContext | None) -> Any:
        """A result, an awaitable, an iterator or an async iterator, by `kind`. Raises PayloadError and what it does.

        `context` may be None where it takes none.
        """
        ...

    @property
    def finish(self) -> Callable[[Any], Any]:
        """Each result as the instance that flows on, or the ItemReject as it is. Raises PayloadError."""
        ...


class Bindings(Protocol):
    """The callables of a pipeline and the types that flow between them."""

    def step(self, index: int) -> BoundStep: ...

    def decode(self, index: int, payload: Json) -> object:
        """Plain JSON that flows into step `index` as an object. Raises PayloadError."""
        ...

    def encode(self, index: int, value: object) -> Json:
        """What flows into step `index`, or out of the pipeline for `len(steps)`, as plain JSON. Raises PayloadError."""
        ...


class ObjectPublisher(Protocol):
    """Writes the output object of an execution; its bytes are a function of the committed rows (architecture 3)."""

    def publish(
        self,
        execution: ExecutionRecord,
        incarnation: int,
        outputs: Iterator[OutputRecord],
        rejects: Iterator[RejectRecord],
    ) -> str:
        """Write, sync, rename; -> the name. Blocking: called in a pool. Raises PublishError, OutputExistsError."""
        ...
