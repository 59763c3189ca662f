"""What an application is asked while its log fails."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.unit.core.machine import pipeline
from tests.unit.engine.shell import KAFKA, PlainBindings
from tpf_streams.core.identity import IdFactory
from tpf_streams.errors import LogFailedError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.runtime import application
from tpf_streams.runtime.application import Application
from tpf_streams.testing.clock import ManualClock

ENVELOPE = orjson.dumps(
    {
        "tenantId": "tenant-1",
        "interactionId": IdFactory("ids").execution_id("tenant-1", "pay", "key-1", 0),
        "responsePayload": {},
    }
)


@pytest.fixture
def asked() -> Application:
    clock = ManualClock()
    log = MemoryLog(application_id="pay", partitions=1, clock=clock)
    return Application(pipeline("k", transport=KAFKA), PlainBindings({}), log, clock)


async def test_nobody_waits_for_an_answer_that_cannot_come(asked, monkeypatch):
    """A process that is asked for months must not keep every question that failed."""

    async def full(records):
        raise LogFailedError("the disk is full")

    monkeypatch.setattr(asked.log, "append", full)
    with pytest.raises(LogFailedError):
        await asked.complete(ENVELOPE)
    await asyncio.sleep(0)
    assert asked.environment.answers._open == {}


async def test_an_answer_that_does_not_come_in_time_is_not_waited_for(asked, monkeypatch):
    monkeypatch.setattr(application, "ANSWER_TIMEOUT_S", 0.01)
    with pytest.raises(TimeoutError):
        await asked.complete(ENVELOPE)
    await asyncio.sleep(0)
    assert asked.environment.answers._open == {}
