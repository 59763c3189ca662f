"""The provider ends within seconds, whatever the broker does."""

from __future__ import annotations

import signal
import time

import pytest

from tests.e2e.program import environment, finish, result_of
from tests.integration.applications import Payments

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

END_S = 15


@pytest.mark.parametrize("trouble", ["pause", "kill"])
def test_a_broker_that_hangs_or_is_gone_holds_no_end_up(own_broker, tmp_path, trouble):
    """It waited for the broker's answer for more than 90 s (seen)."""
    payments = Payments(tmp_path, own_broker.bootstrap_servers)
    # A client that is left leaves its connections, and where warnings are errors uvloop's close never ends then.
    env = environment(PYTHONWARNINGS=None)
    with payments.provider("--json", log=tmp_path / "provider.log", env=env) as process:
        getattr(own_broker, trouble)()
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        found = finish(process, 60)
        assert time.monotonic() - began_s < END_S
    assert (found.returncode, result_of(found)["answered"]) == (0, 0)
