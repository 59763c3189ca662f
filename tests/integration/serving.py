"""Which Kafka the broker tests run on: TPF_TEST_BOOTSTRAP_SERVERS; a container, where a Docker engine answers and has
the image or can fetch it; a broker from the Maven jars. Tests that kill their broker always have one of the last kind.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from tests.integration.kafka_broker import KafkaUnavailable, KraftBroker, kafka_jars
from tests.integration.kafka_container import container_broker, image_here

BOOTSTRAP_VARIABLE = "TPF_TEST_BOOTSTRAP_SERVERS"


def fetch_jars() -> None:
    """Before the first test: on a fresh machine that may last longer than a test's own time-out."""
    if BOOTSTRAP_VARIABLE not in os.environ:
        try:
            kafka_jars()
        except KafkaUnavailable:
            pass  # the fixture meets the same error, and there it belongs to a test


@contextlib.contextmanager
def shared_broker() -> Iterator[str]:
    if given := os.environ.get(BOOTSTRAP_VARIABLE):
        yield given
        return
    if image := image_here():
        with container_broker(image) as address:
            yield address
        return
    with running(KraftBroker()) as broker:
        yield broker.bootstrap_servers


@contextlib.contextmanager
def running(broker: KraftBroker) -> Iterator[KraftBroker]:
    """Fails, and does not skip, where there can be none: whoever asks for broker tests would take a skip for a pass."""
    try:
        broker.start()
    except KafkaUnavailable as problem:
        pytest.fail(f"the broker tests have no broker: {problem}", pytrace=False)
    try:
        yield broker
    finally:
        broker.stop()
