"""Apache Kafka in a container, where a Docker engine answers: for machines without Java and Maven.

TPF_TEST_KAFKA_IMAGE   another image with the interface of Apache's own (KAFKA_… variables are server properties)
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import socket
import warnings
from collections.abc import Iterator

from tests.integration.kafka_broker import SETTINGS

log = logging.getLogger(__name__)

IMAGE_VARIABLE = "TPF_TEST_KAFKA_IMAGE"
IMAGE = "apache/kafka:4.1.0"
ANSWER_S = 60
START_S = 90
PORT = 9092
_READY_LINE = "Kafka Server started"


def image_here() -> str | None:
    """The image, if an engine answers and has it or can fetch it; why not is logged. Raises nothing."""
    image = os.environ.get(IMAGE_VARIABLE, IMAGE)
    with warnings.catch_warnings():
        # Where no engine answers its client drops a socket unclosed, and the next test would be blamed for it.
        warnings.simplefilter("ignore", ResourceWarning)
        found = _engine_has(image)
        gc.collect()
    return image if found else None


def _engine_has(image: str) -> bool:
    try:
        from testcontainers.core.docker_client import DockerClient

        with contextlib.closing(DockerClient(timeout=ANSWER_S).client) as engine:
            engine.ping()
            if not engine.images.list(name=image):
                engine.images.pull(image)
    except Exception as error:
        log.info("no container: %s", error)
        return False
    return True


@contextlib.contextmanager
def container_broker(image: str) -> Iterator[str]:
    """A broker of one node; -> its address."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    # Its janitor is one more image to fetch; the container ends with this block.
    testcontainers_config.ryuk_disabled = True
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    container = DockerContainer(image).with_bind_ports(PORT, port)
    for name, value in _settings(port).items():
        container = container.with_env(name, value)
    container.waiting_for(LogMessageWaitStrategy(_READY_LINE).with_startup_timeout(START_S))
    with container:
        yield f"127.0.0.1:{port}"


def _settings(port: int) -> dict[str, str]:
    """Those of the broker from the jars, as variables: `group.id` is KAFKA_GROUP_ID."""
    own = {
        **SETTINGS,
        "node.id": "1",
        # The broker speaks to itself, too (transactions are verified so), and cannot reach the port on the outside.
        "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:9093,INTERNAL://:9094",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},INTERNAL://localhost:9094",
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
        "controller.quorum.voters": "1@localhost:9093",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    return {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in own.items()}
