"""Faust's Kafka transport, reading committed records only.

Faust's consumer reads uncommitted ones unless it runs transactions of its own: an agent on the outputs would act on a
turn that never came to be.
"""

from __future__ import annotations

from typing import Any

from faust.exceptions import ImproperlyConfigured
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport

from tpf_streams.logs.kafka import stop

SCHEMES = ("kafka", "aiokafka")


class CommittedConsumerThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Read when it starts. There is no argument that Faust would pass on.
        consumer._isolation_level = "read_committed"
        return consumer

    async def on_thread_stop(self) -> None:
        """Without waiting for a rebalance under way: behind the death of another worker it lasts as long as its session
        (a minute here), and a worker that is told to stop would be killed instead."""
        consumer, self._consumer = self._consumer, None
        await super().on_thread_stop()
        if consumer is not None:
            await stop(consumer)


class CommittedConsumer(Consumer):
    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return CommittedConsumerThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(Transport):
    Consumer = CommittedConsumer


def check_scheme(scheme: str) -> None:
    """Raises ImproperlyConfigured for a driver that is none of Kafka's, or would read what is not committed."""
    if scheme not in SCHEMES:
        raise ImproperlyConfigured(f"broker: {scheme}:// is not supported; {' or '.join(SCHEMES)} is wanted")
