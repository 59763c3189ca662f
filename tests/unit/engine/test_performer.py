"""Outside work after the commit: publishing, slow inline segments, and the sources of streams."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.unit.engine.shell import Shell
from tpf_streams.core import effects as fx
from tpf_streams.core.events import OwedDue, RedriveRequested
from tpf_streams.core.execution import ExecutionStatus, OwedKind, OwedRecord
from tpf_streams.core.step import OnItemFailure
from tpf_streams.engine import performer
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.engine.wire import encode_redrive
from tpf_streams.errors import OutputExistsError, PublishError


def source(count):
    for number in range(count):
        yield {"n": number}


class Publisher:
    """Writes into a list; fails with `errors` first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.written: list[tuple[int, list[object], list[str]]] = []

    def publish(self, execution, incarnation, outputs, rejects) -> str:
        found = (incarnation, [it.payloads for it in outputs], [it.reason for it in rejects])
        if self.errors:
            raise self.errors.pop(0)
        self.written.append(found)
        return f"{execution.execution_key}.out"


async def published(publisher: Publisher, **options) -> tuple[Shell, str]:
    shell = Shell("S", source, publishes=True, policy=RetryPolicy(limit=1, wait_ms=100), **options)
    shell.env.publisher = publisher
    await shell.open()
    execution_id = await shell.submit(3)
    return shell, execution_id


async def test_the_object_is_written_from_the_committed_rows_in_item_order():
    publisher = Publisher()
    shell, execution_id = await published(publisher)
    execution = shell.execution(execution_id)
    assert (execution.status, execution.published) == (ExecutionStatus.SUCCEEDED, "key-1.out")
    assert publisher.written == [(1, [[{"n": 0}], [{"n": 1}], [{"n": 2}]], [])]
    await shell.task.close()


async def test_rejects_are_written_too():
    publisher = Publisher()
    shell, _ = await published(publisher, max_payload_bytes=3, on_item_failure=OnItemFailure.REJECT_ITEM)
    ((_, outputs, rejects),) = publisher.written
    assert outputs == [[], [], []]
    assert [it.split(":")[0] for it in rejects] == ["PAYLOAD_TOO_LARGE"] * 3
    await shell.task.close()


async def test_a_publisher_that_fails_is_tried_again():
    publisher = Publisher(PublishError("the disk is full"))
    shell, execution_id = await published(publisher)
    assert shell.execution(execution_id).status is ExecutionStatus.RUNNING
    await shell.pass_time(100)
    assert shell.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    await shell.task.close()


async def test_a_publisher_that_gives_up_fails_the_execution():
    shell, execution_id = await published(Publisher(OutputExistsError("another execution's")))
    assert shell.execution(execution_id).error_code == "OUTPUT_EXISTS"
    await shell.task.close()


async def test_a_step_is_not_called_any_more_once_its_execution_is_cancelled():
    """It fails, and would be tried again for half an hour. Redriven, it is called again."""
    calls: list[int] = []

    def down(value):
        calls.append(value["n"])
        raise ConnectionError("nobody there")

    shell = Shell("s", down, policy=RetryPolicy(limit=1_000, wait_ms=1_000, max_backoff_ms=1_000), max_retries=0)
    await shell.open()
    first, second = await shell.submit({"n": 1}, "key-1"), await shell.submit({"n": 2}, "key-2")
    await shell.pass_time(1_000)
    assert calls == [1, 2, 1, 2]
    await cancel(shell, first)
    await shell.pass_time(1_000)
    await cancel(shell, second)
    await shell.pass_time(60_000)
    assert calls == [1, 2, 1, 2, 2]
    calls.clear()
    await shell.append(encode_redrive(RedriveRequested(first, None, True, "mended", "")))
    await shell.settle()
    await shell.pass_time(1_000)
    assert calls == [1, 1]
    await shell.task.close()


async def test_no_file_appears_of_an_execution_that_was_cancelled_while_it_was_written():
    publisher = Publisher(PublishError("the disk is full"))
    shell, execution_id = await published(publisher)
    await cancel(shell, execution_id)
    await shell.pass_time(100)
    assert (shell.execution(execution_id).error_code, publisher.written) == ("CANCELLED", [])
    await shell.append(encode_redrive(RedriveRequested(execution_id, None, True, "there is room", "")))
    await shell.settle()
    execution = shell.execution(execution_id)
    assert (execution.status, execution.published) == (ExecutionStatus.SUCCEEDED, "key-1.out")
    await shell.task.close()


async def test_an_object_that_was_being_written_is_written_again_by_the_next_incarnation():
    publisher = Publisher(PublishError("the disk is full"))
    shell, execution_id = await published(publisher)
    await shell.reopen()
    await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    assert [incarnation for incarnation, *_ in publisher.written] == [2]
    await shell.task.close()


async def test_an_effect_of_the_turn_is_not_performed_after_it():
    shell = await Shell("S", source).open()
    with pytest.raises(AssertionError, match="belongs into the turn"):
        await shell.task.performer.perform(fx.UseSlot("e"))
    await shell.task.close()


async def test_a_slow_inline_segment_is_warned_about(monkeypatch, caplog):
    monkeypatch.setattr(performer, "INLINE_MS", -1)
    caplog.set_level(logging.WARNING)
    shell = Shell("s", lambda value: value)
    shell.runner._inline = {0: True}
    await shell.open()
    for number in range(5):
        await shell.submit({"n": number}, f"key-{number}")
    warnings = [it.message for it in caplog.records if "declare it inline: false" in it.message]
    assert len(warnings) == 1
    await shell.task.close()


async def cancel(shell: Shell, execution_id: str) -> None:
    await shell.append((None, b'{"executionId": "%s", "reason": "enough"}' % execution_id.encode(), CANCEL))
    await shell.settle()


async def test_a_failed_stream_stops_its_source_and_gives_its_slots_back():
    closed = []

    def watched(count):
        try:
            yield from source(count)
        finally:
            closed.append(True)

    shell = await Shell("Sk", watched).open()
    execution_id = await shell.submit(100)
    assert shell.env.budgets.held(1) == 4
    await cancel(shell, execution_id)
    assert shell.execution(execution_id).error_code == "CANCELLED"
    assert (shell.env.budgets.held(1), closed, shell.task.performer.sessions) == (0, [True], {})
    assert not shell.env.budgets.concerns(execution_id)
    await shell.task.close()


async def test_a_durable_stream_is_released_no_faster_than_its_continuations_run(monkeypatch):
    monkeypatch.setattr(performer, "CONTINUATIONS_MAX", 2)
    shell = Shell("s", source)
    shell.env.segments_max = 1
    await shell.open()
    go_on = asyncio.Event()

    async def slow() -> None:
        await go_on.wait()

    for _ in range(3):
        shell.task.jobs.submit(slow)
    release = OwedRecord("e", OwedKind.RELEASE, 1, 1)
    await shell.task.performer.perform(fx.ContinueOwed(release))
    assert not await shell.task.performer.pump()
    assert list(shell.task._inbox) == []
    go_on.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert await shell.task.performer.pump()
    assert list(shell.task._inbox) == [OwedDue(release)]
    await shell.task.close()


CANCEL = (("tpf-event", b"cancel-execution"), ("tpf-version", b"1"))
