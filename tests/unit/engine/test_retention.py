"""A task deletes what has been kept long enough, turn by turn, and whatever happens in between (contract 0.18)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.engine.shell import Shell
from tpf_streams.core.decide import decide as decide_well
from tpf_streams.core.events import RetentionReached
from tpf_streams.core.identity import IdFactory
from tpf_streams.engine import task

TTL_MS, REMEMBERED_MS = 100_000, 1_000_000


def kinds(shell: Shell) -> Counter[str]:
    """Rows by kind, but for those of the partition itself."""
    found = shell.log.store(0).scan(b"", b"\xff" * 64)
    return Counter(kind for key, _ in found if (kind := key[2:3].decode()) not in "nlm")


async def ended(shell: Shell, key: str = "key-1") -> str:
    execution_id = await shell.submit({"n": 1}, key)
    for row in shell.open_interactions():
        await shell.answer(row)
    await shell.settle()
    assert shell.execution(execution_id).status.terminal
    return execution_id


def shell(shape: str = "k") -> Shell:
    return Shell(shape, execution_ttl_ms=TTL_MS, identity_ttl_ms=REMEMBERED_MS)


async def test_an_ended_execution_is_deleted_and_later_its_memory():
    it = await shell().open()
    await ended(it)
    await it.pass_time(TTL_MS)
    assert kinds(it)["e"] == 1
    # A jump of the clock is not believed at once; three readings that agree are.
    await it.pass_time(30_000)
    await it.pass_time(30_000)
    assert kinds(it) == Counter("gx")
    assert it.observer.count("execution.deleted.total") == 1
    for _ in range(12):
        await it.pass_time(REMEMBERED_MS // 10)
    assert kinds(it) == Counter()
    await it.task.close()


async def test_a_store_is_not_asked_every_turn(monkeypatch: pytest.MonkeyPatch):
    it = await shell().open()
    await ended(it)
    asked: list[int] = []
    first = it.task.state.first_retention_ms

    def asking() -> int | None:
        asked.append(1)
        return first()

    monkeypatch.setattr(it.task.state, "first_retention_ms", asking)
    for _ in range(50):
        await it.task.turn()
    assert len(asked) <= 1
    await it.task.close()


async def test_a_crash_in_the_middle_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(task, "DELETE_AT_ONCE", 2)
    it = await shell().open()
    for number in range(5):
        await ended(it, f"key-{number}")
    it.clock.advance(TTL_MS + 60_000)
    turns = 0
    while kinds(it) != Counter(g=5, x=5):
        await it.reopen()
        await it.task.turn()
        turns += 1
        assert turns < 100
    assert turns >= 10
    await it.task.close()


async def test_a_key_is_used_again_through_the_log():
    it = await shell().open()
    await ended(it)
    await it.pass_time(TTL_MS + 60_000)
    await it.pass_time(60_000)
    assert kinds(it) == Counter("gx")
    await it.submit({"n": 2})
    second = IdFactory("ids").execution_id("tenant-1", "pay", "key-1", 1)
    assert it.execution(second).input_payload == {"n": 2}
    assert it.dead_letters() == []
    await it.task.close()


async def test_what_cannot_be_decided_is_put_off_and_stops_nobody(monkeypatch: pytest.MonkeyPatch):
    it = await shell().open()
    await ended(it)
    it.clock.advance(TTL_MS + 60_000)
    await it.reopen()
    broken = [True]

    def decide(state, event):
        if isinstance(event, RetentionReached) and broken[0]:
            raise KeyError("a bug")
        return decide_well(state, event)

    monkeypatch.setattr(task, "decide", decide)
    await it.settle()
    assert kinds(it)["e"] == 1
    await ended(it, "key-2")
    broken[0] = False
    await it.pass_time(59_999)
    assert kinds(it)["e"] == 2
    await it.pass_time(1)
    assert kinds(it)["e"] == 1
    await it.task.close()
