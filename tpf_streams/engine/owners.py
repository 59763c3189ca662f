"""Which worker has which partition, as the workers themselves say it on the `owners` topic (architecture 3).

A task that has opened writes its partition's record by its own transaction, so that a worker that has lost the
partition cannot; the next owner's record takes the place of it. Nothing is decided by them: who is asked for a
partition looks whether it has it, under the incarnation it was asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import orjson

from tpf_streams.core.frozen import frozen
from tpf_streams.engine.wire import EVENT_HEADER, VERSION, VERSION_HEADER
from tpf_streams.ports import Headers, InputRecord, Record

log = logging.getLogger(__name__)

_HEADERS: Headers = ((EVENT_HEADER, b"owner"), (VERSION_HEADER, VERSION))
_INT64_MAX = 2**63 - 1


@frozen
class Advertised:
    """This worker, as others may reach it. `url` None: it answers no HTTP."""

    worker_id: str
    url: str | None = None


@frozen
class Owner:
    """Who has a partition, since the opening that `incarnation` stands for."""

    partition: int
    worker_id: str
    url: str | None
    incarnation: int


def owners_topic(application_id: str) -> str:
    return f"{application_id}-owners"


def owner_record(topic: str, owner: Owner) -> Record:
    """{workerId, url, incarnation}; the key is the partition's number, and its place the partition of that number: a
    transaction that hangs hides the records of its own partition alone."""
    value = {"workerId": owner.worker_id, "url": owner.url, "incarnation": owner.incarnation}
    return Record(topic, b"%d" % owner.partition, orjson.dumps(value), _HEADERS, owner.partition)


def owner_of(record: InputRecord) -> Owner | None:
    """None for what this version cannot read: that nobody is known costs a moment, a wrong owner would cost more."""
    headers = dict(record.headers)
    if record.value is None or headers.get(EVENT_HEADER) != b"owner" or headers.get(VERSION_HEADER) != VERSION:
        return None
    try:
        value = orjson.loads(record.value)
        worker_id, url, incarnation = value["workerId"], value["url"], value["incarnation"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(worker_id, str) or not isinstance(url, str | None):
        return None
    if type(incarnation) is not int or not 0 <= incarnation <= _INT64_MAX:
        return None
    return Owner(record.partition, worker_id, url, incarnation)


class Owners:
    """The newest record of each partition. Told on one thread, and may be asked on any."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._found: dict[int, Owner] = {}

    def told(self, records: Iterable[InputRecord]) -> None:
        """In the order of the topic: a partition's last record holds."""
        for record in records:
            owner = owner_of(record)
            if owner is not None and owner.partition < self.partitions:
                self._found[owner.partition] = owner
                continue
            self._found.pop(record.partition, None)
            if record.value is not None:
                log.warning(
                    "%s/%d at %d cannot be read; what others have of that partition is not known here",
                    record.topic,
                    record.partition,
                    record.offset,
                )

    def of(self, partition: int) -> Owner | None:
        return self._found.get(partition)
