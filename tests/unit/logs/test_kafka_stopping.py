"""The end of a Kafka client that left requests of its own behind."""

from __future__ import annotations

import asyncio

from tpf_streams.logs.kafka.stopping import stop


class Connection:
    closed = False

    def close(self) -> None:
        self.closed = True


class Connections:
    """What `aiokafka.client.AIOKafkaClient` is to `stop`: connections by node, closed together."""

    def __init__(self) -> None:
        self._conns: dict[int, Connection] = {1: Connection()}

    async def close(self) -> None:
        for connection in self._conns.values():
            connection.close()


class Producer:
    def __init__(self) -> None:
        self.client = Connections()
        self.lasts = asyncio.Event()

    async def stop(self) -> None:
        await self.lasts.wait()


async def test_a_connection_that_is_made_after_the_end_is_closed_at_once():
    """It was in nobody's hands: a broker that hangs cost a socket for each task that was lost meanwhile."""
    producer, late = Producer(), Connection()
    first = producer.client._conns[1]
    await stop(producer, within_s=0.01)
    producer.client._conns[2] = late
    assert first.closed
    assert late.closed
