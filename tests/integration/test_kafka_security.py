"""SASL settings reach every client: a broker that knows its users serves a run, and refuses one with a wrong password.

With TLS the client is handed one thing more, an ssl.SSLContext made of the `kafka.ssl.*` files.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.program import ROWS_12, assert_same_payments, environment, result_of, tpf
from tests.integration.applications import Payments

USER, PASSWORD = "tpf", "a-password-for-tests"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL_BROKER = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    # The broker speaks to itself as a user, too; where it cannot, no transaction is verified.
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{_MODULE} required username="broker" password="its-own" user_broker="its-own" user_{USER}="{PASSWORD}";'
    ),
}

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(180),
    pytest.mark.parametrize("own_broker", [SASL_BROKER], indirect=True),
]


def sasl(password: str) -> dict[str, Any]:
    """The password by the environment: on a command line everybody could read it."""
    return {"env": environment(KAFKA_SASL_PASSWORD=password)}


@pytest.fixture
def payments(tmp_path, own_broker) -> Payments:
    found = Payments(tmp_path, own_broker.bootstrap_servers)
    found.settings |= {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.username": USER}
    return found


def test_a_run_and_a_provider_with_a_user_of_the_broker(payments, tmp_path):
    words = payments.run_words(ROWS_12, out=tmp_path / "out", data=tmp_path / "data")
    with payments.provider(log=tmp_path / "provider.log", **sasl(PASSWORD)):
        result = result_of(tpf(*words, timeout=120, **sasl(PASSWORD)))
    assert result["executions"] == {"SUCCEEDED": 1}
    assert_same_payments(ROWS_12, tmp_path / "out" / f"{ROWS_12.name}.out")


def test_a_wrong_password_is_told_and_not_shown(payments, tmp_path):
    words = payments.run_words(ROWS_12, out=tmp_path / "out", data=tmp_path / "data")
    done = tpf(*words, timeout=120, **sasl("not-the-password"))
    assert done.returncode == 1
    assert "uthentication" in done.stderr
    assert "not-the-password" not in done.stderr + done.stdout
