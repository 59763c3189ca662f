"""Deadlines pass only after what arrived in time has been seen, or when the grace is over (contract 0.8)."""

from __future__ import annotations

from tests.unit.core.machine import TIMEOUT_MS
from tests.unit.engine.shell import Shell
from tpf_streams.core.events import ArrivalMarked
from tpf_streams.core.execution import ExecutionStatus
from tpf_streams.engine.wire import encode_marker
from tpf_streams.ports import Record

GRACE_MS = 300_000


async def waiting(shell: Shell) -> str:
    """An execution with one open interaction."""
    await shell.open()
    execution_id = await shell.submit({"n": 1})
    assert len(shell.open_interactions()) == 1
    return execution_id


async def test_a_deadline_passes_a_millisecond_after_it():
    shell = Shell("k")
    execution_id = await waiting(shell)
    await shell.pass_time(TIMEOUT_MS)
    assert shell.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    await shell.pass_time(1)
    assert shell.execution(execution_id).error_code == "AWAIT_TIMEOUT"
    await shell.task.close()


async def test_after_an_outage_deadlines_wait_until_the_answers_before_it_have_been_forwarded():
    shell = Shell("k")
    execution_id = await waiting(shell)
    await shell.task.close()
    await shell.log.append([Record("responses", None, b"an answer that came in time", ())])
    shell.clock.advance(TIMEOUT_MS + 1_000)
    await shell.reopen()
    await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    assert shell.task.sweep.next_ms(shell.task.state) == shell.clock.now_ms() + GRACE_MS
    await shell.append(encode_marker(ArrivalMarked({"responses/0": 1})))
    await shell.settle()
    assert shell.execution(execution_id).error_code == "AWAIT_TIMEOUT"
    assert shell.task.sweep.next_ms(shell.task.state) is None
    await shell.task.close()


async def test_an_answer_that_came_in_time_is_admitted_after_the_outage():
    shell = Shell("k")
    execution_id = await waiting(shell)
    (row,) = shell.open_interactions()
    await shell.answer(row)
    await shell.task.close()
    shell.clock.advance(TIMEOUT_MS + 1_000)
    await shell.reopen()
    await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.SUCCEEDED
    await shell.task.close()


async def test_the_grace_ends_the_waiting_for_markers_that_do_not_come(caplog):
    shell = Shell("k")
    execution_id = await waiting(shell)
    await shell.log.append([Record("responses", None, b"an answer", ())])
    await shell.reopen()
    await shell.pass_time(GRACE_MS)
    assert shell.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    await shell.pass_time(1)
    assert shell.execution(execution_id).error_code == "AWAIT_TIMEOUT"
    assert "deadlines pass before all earlier answers were seen" in caplog.text
    await shell.task.close()


async def test_deadlines_wait_while_the_clock_is_not_believed():
    shell = Shell("k")
    execution_id = await waiting(shell)
    shell.clock.jump(3_600_000)
    await shell.settle()
    assert shell.execution(execution_id).status is ExecutionStatus.WAITING_EXTERNAL
    for _ in range(3):
        await shell.pass_time(10_000)
    assert shell.execution(execution_id).error_code == "AWAIT_TIMEOUT"
    await shell.task.close()
