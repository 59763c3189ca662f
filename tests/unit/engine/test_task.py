"""A task's turn: commit before anything leaves, poison set aside, neighbours go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from tests.unit.core.machine import TIMEOUT_MS
from tests.unit.engine.shell import Shell
from tpf_streams.core.execution import ExecutionStatus, OwedKind
from tpf_streams.core.step import Json, OnItemTimeout
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.errors import RetryableError, TerminalError
from tpf_streams.ports import Record

CANCEL = (("tpf-event", b"cancel-execution"), ("tpf-version", b"1"))


def source(count):
    for number in range(count):
        yield {"n": number}


def finish(value):
    return {"done": value}


async def test_a_stream_from_submission_to_its_outputs():
    shell = await Shell("Sks", source, finish).open()
    execution_id = await shell.submit(6)
    while rows := shell.open_interactions():
        assert len(rows) <= 4
        assert shell.env.budgets.held(1) == len(rows)
        for row in reversed(rows):
            await shell.answer(row, {"n": row.item_index})
        await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert sorted(it["done"]["n"] for it in shell.outputs()) == list(range(6))
    assert (shell.env.budgets.held(1), shell.owed(), shell.task.performer.owners) == (0, [], set())
    await shell.task.close()


async def test_early_completions_beyond_the_limit_wait_in_the_log_until_there_is_room():
    other = await Shell("Sk", source, max_concurrency=9).open()
    await other.submit(3)
    rows = other.open_interactions()
    await other.task.close()

    shell = await Shell("Sk", source, max_concurrency=9, early_rows_max=1).open()
    for row in rows:
        await shell.answer(row)
    await shell.settle()
    assert shell.task.state.early_rows == 1
    position = shell.log._state.positions[0]
    assert list(position.values()) == [1], "what is not taken is not passed"
    waiting = asyncio.ensure_future(shell.task.wait(60))
    await asyncio.sleep(0)
    assert not waiting.done(), "more input cannot be taken, so it wakes nobody"
    waiting.cancel()

    await shell.pass_time(TIMEOUT_MS + 1)
    await shell.pass_time(TIMEOUT_MS + 1)
    assert (shell.task.state.early_rows, list(shell.log._state.positions[0].values())) == (0, [3])
    assert shell.observer.count("completion.dropped.total") == 1 + 2
    await shell.task.close()


async def test_room_for_early_completions_comes_back_when_their_rows_appear():
    other = await Shell("Sk", source, max_concurrency=9).open()
    await other.submit(2)
    rows = other.open_interactions()
    await other.task.close()

    shell = await Shell("Sk", source, max_concurrency=9, early_rows_max=1).open()
    await shell.answer(rows[0])
    execution_id = await shell.submit(2)
    await shell.answer(rows[1])
    await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    await shell.task.close()


@pytest.mark.parametrize("error", [RetryableError("not yet"), SystemExit(0), asyncio.CancelledError()], ids=repr)
async def test_an_inline_segment_joins_the_turn_and_a_failing_one_takes_the_owed_way(error):
    """Whatever it raises: an exit or a cancellation that left the turn ended the whole run."""

    def once(value):
        if value == {"n": 1} and not failed:
            failed.append(1)
            raise error
        return {"done": value}

    failed: list[int] = []
    shell = Shell("s", once, policy=RetryPolicy(limit=1, wait_ms=100))
    shell.runner._inline = {0: True}
    await shell.open()
    good, bad = await shell.submit({"n": 0}, "good"), await shell.submit({"n": 1}, "bad")
    assert [shell.execution(it).status for it in (good, bad)] == [ExecutionStatus.SUCCEEDED] * 2
    assert failed == [1]
    assert shell.task.performer.demand > 0
    await shell.task.close()


async def test_demand_holds_items_back_but_no_scalar_execution():
    shell = await Shell("Sks", source, finish).open()
    shell.task.performer.demand = 0
    execution_id = await shell.submit(2)
    for row in shell.open_interactions():
        await shell.answer(row)
    await shell.settle()
    assert shell.outputs() == []
    shell.task.performer.request(1)
    await shell.settle()
    assert len(shell.outputs()) == 1
    shell.task.performer.request(9)
    await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    await shell.task.close()

    scalar = await Shell("s", finish).open()
    scalar.task.performer.demand = 0
    assert scalar.execution(await scalar.submit({"n": 1})).status is ExecutionStatus.SUCCEEDED
    await scalar.task.close()


class Webhook:
    """A transport outside the log that fails `times` before it succeeds."""

    type = "webhook"

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.sent = list(errors), list[Json]()

    def request_record(self, step, interaction) -> Record | None:
        return None

    async def send(self, step, interaction) -> Mapping[str, object]:
        self.sent.append(interaction.request_payload)
        if self.errors:
            raise self.errors.pop(0)
        return {"statusCode": 202}


async def test_a_dispatch_outside_the_log_is_tried_again_under_the_same_ids():
    webhook = Webhook(RetryableError("HTTP 503"), OSError("refused"))
    shell = Shell("w", transports={"webhook": webhook}, policy=RetryPolicy(limit=2, wait_ms=100))
    await shell.open()
    execution_id = await shell.submit({"n": 1})
    for _ in range(2):
        await shell.pass_time(200)
    (row,) = shell.open_interactions()
    assert (row.status, row.transport_metadata) == ("DISPATCHED", {"statusCode": 202})
    assert webhook.sent == [{"n": 1}] * 3
    assert shell.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    await shell.task.close()


async def test_a_dispatch_that_cannot_succeed_fails_the_execution():
    shell = await Shell("w", transports={"webhook": Webhook(TerminalError("HTTP 400", "HTTP_400"))}).open()
    execution = shell.execution(await shell.submit({"n": 1}))
    assert (execution.error_code, execution.error_message) == ("DISPATCH_FAILED", "HTTP_400: HTTP 400")
    await shell.task.close()


async def test_what_is_owed_is_taken_up_by_the_next_incarnation():
    asked = 0

    async def never(value):
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    shell = await Shell("Sks", source, never).open()
    await shell.submit(3)
    for row in shell.open_interactions()[:2]:
        await shell.answer(row)
    for _ in range(9):
        await shell.task.turn()
        await asyncio.sleep(0)
    assert (asked, shell.env.budgets.held(1)) == (2, 3)
    await shell.reopen()
    for _ in range(9):
        await shell.task.turn()
        await asyncio.sleep(0)
    assert (asked, shell.env.budgets.held(1)) == (4, 3)
    assert [it.kind for it in shell.owed()] == [OwedKind.SEGMENT, OwedKind.SEGMENT]
    await shell.task.close()
    assert shell.env.budgets.held(1) == 0


async def test_a_session_goes_on_where_it_was_after_a_loss():
    opened = 0

    def counted(count):
        nonlocal opened
        opened += 1
        yield from source(count)

    shell = await Shell("Sk", counted).open()
    execution_id = await shell.submit(7)
    assert len(shell.open_interactions()) == 4
    await shell.reopen()
    while rows := shell.open_interactions():
        await shell.answer(rows[-1])
        await shell.settle()
    assert shell.execution(execution_id).summary.items == 7  # type: ignore[union-attr]
    assert opened == 2
    assert shell.env.budgets.held(1) == 0
    await shell.task.close()


async def test_a_source_that_changed_is_told(monkeypatch):
    counts = iter([5, 3])

    def changing(count):
        for number in range(next(counts)):
            yield {"n": number}

    shell = await Shell("Sk", changing).open()
    execution_id = await shell.submit(0)
    await shell.reopen()
    for row in shell.open_interactions():
        await shell.answer(row)
    await shell.settle()
    assert shell.execution(execution_id).error_code == "SOURCE_CHANGED"
    assert shell.env.budgets.held(1) == 0
    await shell.task.close()


async def test_a_rejected_item_gives_its_place_back():
    """O16: whatever becomes of items, the window neither shrinks nor grows."""
    shell = await Shell("Sks", source, finish, on_item_timeout=OnItemTimeout.REJECT_ITEM).open()
    execution_id = await shell.submit(8)
    assert len(shell.open_interactions()) == 4
    await shell.pass_time(TIMEOUT_MS + 1)
    assert [it.item_index for it in shell.open_interactions()] == [4, 5, 6, 7]
    assert shell.env.budgets.held(1) == 4
    await shell.pass_time(TIMEOUT_MS + 1)
    execution = shell.execution(execution_id)
    assert execution.status is ExecutionStatus.SUCCEEDED
    assert execution.summary is not None
    assert (execution.summary.items, execution.summary.rejected_items) == (8, 8)
    assert shell.env.budgets.held(1) == 0
    await shell.task.close()


async def test_a_pipeline_that_publishes_without_a_publisher_fails():
    shell = await Shell("Sk", source, publishes=True).open()
    execution = shell.execution(await shell.submit(0))
    assert execution.error_code == "NO_PUBLISHER"
    await shell.task.close()


async def test_an_error_of_outside_work_ends_the_incarnation():
    class Odd(Webhook):
        async def send(self, step, interaction) -> Mapping[str, object]:
            return 7  # type: ignore[return-value]

    shell = await Shell("w", transports={"webhook": Odd()}, policy=RetryPolicy(limit=0)).open()
    execution = shell.execution(await shell.submit({"n": 1}))
    assert execution.error_code == "DISPATCH_FAILED"
    shell.task.jobs.error = KeyError("an error of ours")
    with pytest.raises(KeyError):
        await shell.task.turn()
    await shell.task.close()


async def test_a_cancelled_turn_waits_for_its_commit():
    shell = await Shell("k").open()
    began, go_on, done = asyncio.Event(), asyncio.Event(), []
    commit = shell.task.log.commit

    async def slow(turn):
        began.set()
        await go_on.wait()
        await commit(turn)
        done.append(turn)

    shell.task.log.commit = slow  # type: ignore[method-assign]
    submitting = asyncio.ensure_future(shell.submit({"n": 1}))
    await began.wait()
    submitting.cancel()
    await asyncio.sleep(0)
    assert not submitting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert len(done) == 1
    await shell.task.close()


@pytest.mark.parametrize(("shape", "functions"), [("S", [source]), ("Sk", [source]), ("kk", [])])
async def test_an_ended_execution_leaves_nothing_behind_in_its_task(shape, functions):
    """A task lives for months: what it kept of every execution would fill the memory."""
    shell = await Shell(shape, *functions, max_concurrency=1).open()
    for number, payload in enumerate((0, 1, 3)):
        execution_id = await shell.submit(payload, f"key-{number}")
        if not shell.execution(execution_id).status.terminal:
            await shell.append((None, orjson.dumps({"executionId": execution_id, "reason": "enough"}), CANCEL))
            await shell.settle()
        assert shell.execution(execution_id).status.terminal
    assert (shell.task.performer.owners, shell.task.performer.sessions) == (set(), {})
    await shell.task.close()


class Looked:
    """A store that notes the thread of each scan."""

    def __init__(self, store) -> None:
        self._store = store
        self.threads: set[int] = set()

    def scan(self, *bounds):
        self.threads.add(threading.get_ident())
        return self._store.scan(*bounds)

    def __getattr__(self, name):
        return getattr(self._store, name)


class ThreadPublisher:
    """Reads the rows, and notes the thread."""

    def __init__(self) -> None:
        self.thread = 0

    def publish(self, execution, incarnation, outputs, rejects) -> str:
        self.thread = threading.get_ident()
        return f"{len(list(outputs))} and {len(list(rejects))}"


async def test_rows_to_publish_are_looked_up_on_the_thread_that_writes_them():
    """A memory log inserts keys into a list: a scan in the pool could count its places before, and read them after."""
    with ThreadPoolExecutor(1) as pool:
        shell = Shell("S", source, publishes=True, executor=pool)
        shell.env.publisher = publisher = ThreadPublisher()
        await shell.open()
        shell.task.log.store = store = Looked(shell.task.log.store)  # type: ignore[misc]
        execution_id = await shell.submit(3)
        for _ in range(5_000):
            if shell.execution(execution_id).status.terminal:
                break
            await asyncio.sleep(0.001)
            await shell.task.turn()
        assert shell.execution(execution_id).published == "3 and 0"
        assert publisher.thread != threading.get_ident()
        assert store.threads == {threading.get_ident()}
        await shell.task.close()
