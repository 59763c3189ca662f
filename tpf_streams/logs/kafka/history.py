"""Reading one partition from somewhere to its end of now, without a group: what an operator wants to see again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError

from tpf_streams.errors import LogError
from tpf_streams.logs.kafka.reader import input_record
from tpf_streams.logs.kafka.settings import FETCH_WAIT_MS, KafkaSettings
from tpf_streams.logs.kafka.stopping import stop
from tpf_streams.ports import InputRecord

POLL_MS = 200
RECORDS_MAX = 500


async def history(settings: KafkaSettings, topic: str, partition: int, start: int) -> AsyncIterator[list[InputRecord]]:
    """The committed records from offset `start`, or the first that is kept, in lots. Raises LogError.

    By a consumer of its own: that of the client follows what is restored.
    """
    at = KafkaPartition(topic, partition)
    consumer = AIOKafkaConsumer(
        **settings.connection,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    try:
        await consumer.start()
        begin, end = (await consumer.beginning_offsets([at]))[at], (await consumer.end_offsets([at]))[at]
        # Nothing is awaited in between: with an await the client began at the end of the log (see Restorer).
        consumer.assign([at])
        consumer.seek(at, max(start, begin))
        # By the client's position: it walks over markers and aborted records, which are no records to wait for.
        while (await consumer.position(at)) < end:
            found = (await consumer.getmany(at, timeout_ms=POLL_MS, max_records=RECORDS_MAX)).get(at, [])
            if found:
                yield [input_record(record) for record in found if record.offset < end]
    except (KafkaError, OSError, TimeoutError) as error:
        raise LogError(f"{topic}/{partition} cannot be read: {type(error).__name__}: {error}") from error
    finally:
        await stop(consumer)
