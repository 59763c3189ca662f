"""The only broker dies right behind a commit. See broker_loss.py, which also runs it as long as one likes."""

from __future__ import annotations

import pytest

from tests.integration.broker_loss import TURNS, Loss

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
