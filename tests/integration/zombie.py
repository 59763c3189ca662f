"""A worker that stops in mid-turn, to be run as a process: it prints what it does and what became of its commit.

python -m tests.integration.zombie BOOTSTRAP GROUP TRANSACTIONAL_ID TOPIC

It joins the group, opens a transaction with one record, prints "open" and waits for a line of input; its owner stops
the process there, lets a successor take over, and lets it go on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.integration.clients import transactional

SESSION_TIMEOUT_MS = 6000


async def outcome(call: Callable[[], Awaitable[object]]) -> str:
    try:
        await call()
    except Exception as error:
        return type(error).__name__
    return "success"


async def main(bootstrap: str, group: str, transactional_id: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    await consumer.start()
    here = TopicPartition(topic, 0)
    async with transactional(bootstrap, transactional_id) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"zombie", partition=0)
        print("open", flush=True)
        sys.stdin.readline()  # blocks the loop on purpose: not even a heartbeat between waking up and the two calls
        offsets = await outcome(lambda: consumer.commit({here: 1}))
        turn = await outcome(producer.commit_transaction)
        print(f"offsets={offsets} turn={turn}", flush=True)
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
