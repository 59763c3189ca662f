"""The session of a stream: pulls the source while there is credit, and goes on where it was after a crash.

One pull is under way at a time, for at most the credit of the committed session row; so the source is never read
further than the window, and one element of look-ahead, allow (contract 0.17).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tpf_streams.core.context import StepContext
from tpf_streams.core.events import ItemsPulled, ItemsRecalled, SourceFailed
from tpf_streams.core.execution import OwedRecord
from tpf_streams.core.parts import Parts
from tpf_streams.core.step import ItemReject
from tpf_streams.core.unit import SessionRecord
from tpf_streams.core.window import chain, credit
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.pull import Source
from tpf_streams.engine.retry import code_of, is_control, is_terminal, message_of
from tpf_streams.engine.segments import SegmentRunner, detail_of
from tpf_streams.engine.source import open_items, open_source
from tpf_streams.errors import SourceChangedError
from tpf_streams.ports import Meter

log = logging.getLogger(__name__)

PULL_MAX = 256
"""Elements of one pull: bounds a turn."""
CLOSE_S = 1.0
"""How long a source may take to close."""
_SKIP_AT_ONCE = 1_000


class LiveSession:
    """The source of one execution and the slots it holds for items not dispatched yet."""

    def __init__(
        self,
        runner: SegmentRunner,
        budgets: Budgets,
        owed: OwedRecord,
        value: object,
        context: StepContext,
        wake: Callable[[], None],
        generation: int = 0,
        meter: Meter | None = None,
    ) -> None:
        self._generation = generation
        self.execution_id = owed.execution_id
        self.pulling = False
        self._runner = runner
        self._budgets = budgets
        stream = runner.definition.stream_from(owed.step_index)
        assert stream is not None, "a session is the source of a stream"
        self._await_index = -1 if stream.awaited is None else stream.awaited
        self._seekable = stream.seekable
        self._owed = owed
        self._value = value
        self._context = context
        self._wake = wake
        self._source: Source | None = None
        self._position = 0
        self._granted = 0
        self._requested = 0
        self._looked = False
        self.closed = False
        self._meter = meter
        self._paused_since_s: float | None = None

    def pull_count(self, row: SessionRecord) -> int:
        """Elements to pull now; asks the budget for the slots that the credit has room for."""
        if row.recall is not None:
            self._give_back(credit(self._runner.definition, row))
        if self.pulling or self.closed:
            return 0
        count = self._allowed(row)
        self._pause(count <= 0 and not row.source_ended)
        return count

    def _allowed(self, row: SessionRecord) -> int:
        wanted = min(credit(self._runner.definition, row), PULL_MAX)
        if not self._budgets.limits(self._await_index):
            return wanted
        missing = wanted - self._granted - self._requested
        if missing > 0:
            self._requested += missing
            self._budgets.request(self._await_index, self.execution_id, self._slot_granted, missing)
        return min(wanted, self._granted)

    def _give_back(self, room: int) -> None:
        """An item that a redrive takes up behind its answer needs a place of the window, and no slot."""
        while self._granted > room and not self.closed and self._budgets.limits(self._await_index):
            self._granted -= 1
            self._budgets.release(self._await_index, self.execution_id)

    def may_look(self, row: SessionRecord) -> bool:
        """Whether to look one element ahead: others have every slot, and the source may have ended already.

        To learn of the end takes no slot. Else an execution without items, or with nothing left but answers, would be
        held up for as long as another one's provider is silent. Once until something is taken.
        """
        blocked = self._looked or self.pulling or self.closed or row.recalling
        return not blocked and credit(self._runner.definition, row) > 0

    def _pause(self, paused: bool) -> None:
        self.tell_paused()
        self._paused_since_s = self._runner.clock.monotonic_s() if paused else None

    def tell_paused(self) -> None:
        """A pause may last for days: its time is told while it does."""
        if self._paused_since_s is not None and self._meter is not None:
            now_s = self._runner.clock.monotonic_s()
            self._meter.source_paused(now_s - self._paused_since_s)
            self._paused_since_s = now_s

    def use_slot(self) -> None:
        """One of the slots held here belongs to an interaction now."""
        if self._budgets.limits(self._await_index):
            self._granted -= 1

    async def pull(self, row: SessionRecord, count: int) -> ItemsPulled | ItemsRecalled | SourceFailed | None:
        """The next elements behind the committed position, tried again as the retry policy says.

        With a count of 0 it only looks ahead; None: there are more, or the session was closed meanwhile.
        """
        if row.recalling:
            return ItemsRecalled(self.execution_id, row.next_item_index, count, self._generation)
        attempt = 1
        while True:
            try:
                if self._position != row.source_position:
                    await self.release_source()
                source = self._source or await self._open(row)
                if count == 0:
                    await source.look()
                    self._looked = True
                    ended = ItemsPulled(self.execution_id, row.source_position, (), True, self._generation)
                    return ended if source.ended else None
                elements = await source.take(count)
                self._looked = False
                self._position += len(elements)
                return ItemsPulled(self.execution_id, row.source_position, elements, source.ended, self._generation)
            except BaseException as error:
                if is_control(error):
                    raise
                await self.release_source()
                pause = self._runner.policy.pause_s(attempt, error)
                if pause is None:
                    return SourceFailed(
                        self.execution_id,
                        code_of(error),
                        message_of(error),
                        detail_of(error),
                        retryable=not is_terminal(error),
                        generation=self._generation,
                    )
            await self._runner.clock.sleep(pause)
            if self.closed:
                return None  # its execution was cancelled: nobody wants the source any more
            attempt += 1

    async def close(self) -> None:
        """Stop reading and give back what is held."""
        if self.closed:
            return
        self.closed = True
        self._pause(False)
        for _ in range(self._granted):
            self._budgets.release(self._await_index, self.execution_id)
        self._granted = 0
        if not self.pulling:
            await self.release_source()

    async def _open(self, row: SessionRecord) -> Source:
        """Open the source and go to the committed position: run it again and check that it gives the same items."""
        index, value = self._owed.step_index, self._value
        if self._seekable and isinstance(value, Parts):
            # Element n is made of row n: rows do not change, so there is nothing to compare either.
            self._source = open_items(self._runner, index, value.since(row.source_position), self._context)
            self._position = row.source_position
            return self._source
        self._source = source = open_source(self._runner, index, value, self._context)
        digest, position = "", 0
        while position < row.source_position:
            elements = await source.take(min(_SKIP_AT_ONCE, row.source_position - position))
            if not elements:
                break
            position += len(elements)
            for element in elements:
                if not isinstance(element, ItemReject):
                    digest = chain(digest, element)
        if position != row.source_position or digest != row.source_digest:
            raise SourceChangedError(
                f"the source no longer gives the {row.next_item_index} items that were dispatched from it"
            )
        self._position = position
        return source

    async def release_source(self) -> None:
        """Let the iterator go; the next pull opens it anew. Never raises: a generator may do so while it is closed."""
        source, self._source, self._looked = self._source, None, False
        if source is None:
            return
        # A step that hangs in its thread keeps its generator: neither an end nor another opening may wait for it.
        await asyncio.wait([asyncio.ensure_future(self._close(source))], timeout=CLOSE_S)

    async def _close(self, source: Source) -> None:
        try:
            await source.close()
        except BaseException as error:
            if is_control(error):
                raise
            log.warning("the source of %s did not close well: %s", self.execution_id, type(error).__name__)

    def _slot_granted(self) -> None:
        self._requested -= 1
        if self.closed:
            self._budgets.release(self._await_index, self.execution_id)
            return
        self._granted += 1
        self._wake()
