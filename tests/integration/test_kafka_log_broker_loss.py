"""The only broker dies right behind a commit. See broker_loss.py, which also runs it as long as one likes."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.integration.broker_loss import TURNS, Loss
from tests.integration.clients import eventually, fresh
from tests.integration.logs import opened
from tpf_streams.logs.claim import claim
from tpf_streams.logs.kafka import KafkaLog

pytestmark = pytest.mark.broker

KILLS, KILLS_MAX = 3, 6


@pytest.mark.timeout(400)
async def test_what_was_committed_outlives_the_only_broker(own_broker, tmp_path):
    """Three kills, and more while none has come between a commit and its markers: those show nothing of it."""
    loss, kills = Loss(own_broker), 0
    while kills < KILLS or (loss.markers_missing == 0 and kills < KILLS_MAX):
        await loss.round(tmp_path / str(kills))
        kills += 1
    assert len(loss.returned) > kills * TURNS // 2


async def test_a_worker_whose_broker_is_gone_ends_all_the_same(own_broker, tmp_path):
    """The client lets the cancellation of its inner tasks out: close ended there, and the directory stayed locked."""
    application = fresh("app")
    async with opened(own_broker.bootstrap_servers, application, tmp_path) as log:
        await log.open_task(0)
        await log.open_reader(fresh("group"), [f"{application}-events"])
        own_broker.kill()
        await eventually(lambda: _unreachable(log))
        await asyncio.wait_for(log.close(), 20)
        os.close(claim(log.directory))


async def _unreachable(log: KafkaLog) -> bool:
    """Until the group's consumer knows of it, and is in the middle of its retries."""
    return bool(log._membership._consumer._coordinator.coordinator_id is None)
