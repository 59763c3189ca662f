"""The topics an application needs: created where they are missing, checked where they are there (contract 0.8, 0.18).

Nothing that exists is changed: a topic that cannot serve is refused with what would have to change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code

from tpf_streams.errors import LogError, LogMismatchError

log = logging.getLogger(__name__)

INTERNAL_RECORD_BYTES = 4 * 1024 * 1024
"""Internal topics take records of this size (contract 0.6)."""
APPEND_TIME = "LogAppendTime"
FOR_EVER = -1
KEPT_MS = 7 * 24 * 3600 * 1000
"""Of topics created here, at least: an answer that came in time is admitted after an outage of days, if it is there."""
APPEAR_S = 15.0
"""A topic just created is in the metadata of every broker a little later."""


class TopicUse(StrEnum):
    """What a topic is to the application."""

    INTERNAL = "internal"
    REQUESTS = "requests"
    RESPONSES = "responses"
    OUTPUTS = "outputs"

    @property
    def owned(self) -> bool:
        """Whether it is the engine's own: then its partitions and policies are too."""
        return self is TopicUse.INTERNAL


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """What is needed of a topic.

    partitions: the least; also what it is created with. record_bytes: the largest record it must take.
    retention_ms: how long its records must stay at least, -1 for ever. append_time: whether its timestamps must be the
    broker's.
    """

    name: str
    use: TopicUse
    partitions: int
    record_bytes: int = 1024 * 1024
    compacted: bool = False
    retention_ms: int | None = None
    append_time: bool = False
    created_with: Mapping[str, str] = field(default_factory=dict)
    """Settings that an operator may change later: they are not checked."""

    @property
    def config(self) -> dict[str, str]:
        """What it is created with."""
        config = {"cleanup.policy": "compact" if self.compacted else "delete"}
        if self.record_bytes > 1024 * 1024:
            config["max.message.bytes"] = str(self.record_bytes)
        if self.retention_ms is not None and not self.compacted:
            if self.retention_ms == FOR_EVER:
                config["retention.ms"] = config["retention.bytes"] = str(FOR_EVER)
            else:
                config["retention.ms"] = str(max(self.retention_ms, KEPT_MS))
        if self.append_time:
            config["message.timestamp.type"] = APPEND_TIME
        return {**config, **self.created_with}


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the broker describes it."""

    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)

    def number(self, key: str, default: int) -> int:
        return int(self.config.get(key, default))


def internal_topics(
    application_id: str, partitions: int, lifecycle_kept: Mapping[str, str] | None = None
) -> list[TopicSpec]:
    """The engine's own topics. `events` has no time retention: what a long outage left unread must still be there."""

    def spec(name: str, count: int, **how: Any) -> TopicSpec:
        return TopicSpec(f"{application_id}-{name}", TopicUse.INTERNAL, count, INTERNAL_RECORD_BYTES, **how)

    return [
        spec("events", partitions, retention_ms=FOR_EVER, append_time=True),
        spec("changelog", partitions, compacted=True),
        spec("lifecycle", partitions, created_with=lifecycle_kept or {}),
        spec("dead-letters", 1),
        spec("item-rejects", 1),
        spec("owners", partitions, compacted=True),
    ]


async def ensure_topics(
    admin: AIOKafkaAdminClient, specs: Sequence[TopicSpec], *, create: bool, replication: int
) -> dict[str, FoundTopic]:
    """Create what is missing, check the rest; -> what is there. Raises LogMismatchError with every topic that cannot
    serve, LogError."""
    found = await describe(admin, [spec.name for spec in specs])
    missing = [spec for spec in specs if spec.name not in found]
    wanted = [spec for spec in missing if create or spec.use.owned]
    refused = [spec for spec in missing if spec not in wanted]
    if refused:
        names = ", ".join(f"{spec.name} ({spec.use}, {spec.partitions} partitions)" for spec in refused)
        raise LogMismatchError(f"topics are missing and create-topics is false: create {names}, or allow it")
    if wanted:
        await _create(admin, wanted, replication)
        found |= await _appeared(admin, [spec.name for spec in wanted])
    problems = [problem for spec in specs for problem in _problems(spec, found[spec.name])]
    if problems:
        raise LogMismatchError("topics cannot serve as they are:\n" + "\n".join(f"  {each}" for each in problems))
    return found


def _problems(spec: TopicSpec, found: FoundTopic) -> Iterable[str]:
    """What is wrong with an existing topic, and the words that mend it."""
    if spec.use.owned and found.partitions < spec.partitions:
        number = found.partitions
        yield f"{spec.name} has {number} partitions, not {spec.partitions}: set topology.partitions to {number}"
    if spec.use.owned and found.partitions > spec.partitions:
        log.warning("%s has %d partitions, and %d are used", spec.name, found.partitions, spec.partitions)
    policy = found.config.get("cleanup.policy", "delete")
    if spec.compacted != ("compact" in policy) or (spec.compacted and "delete" in policy):
        yield f"{spec.name} has cleanup.policy={policy}: set it to {'compact' if spec.compacted else 'delete'}"
    size = found.number("max.message.bytes", spec.record_bytes)
    if size < spec.record_bytes:
        yield f"{spec.name} takes records of {size} bytes: set max.message.bytes to {spec.record_bytes}"
    if spec.append_time and found.config.get("message.timestamp.type", APPEND_TIME) != APPEND_TIME:
        other = "" if spec.use.owned else ", or await.arrival-time to read"
        yield f"{spec.name} keeps the producers' times: set message.timestamp.type to {APPEND_TIME}{other}"
    yield from _kept_long_enough(spec, found)


def _kept_long_enough(spec: TopicSpec, found: FoundTopic) -> Iterable[str]:
    if spec.retention_ms is None or spec.compacted:
        return
    kept_ms = found.number("retention.ms", FOR_EVER)
    if kept_ms != FOR_EVER and (spec.retention_ms == FOR_EVER or kept_ms < spec.retention_ms):
        yield f"{spec.name} keeps records {kept_ms} ms: set retention.ms to {spec.retention_ms} or more"
    if spec.retention_ms == FOR_EVER and found.number("retention.bytes", FOR_EVER) != FOR_EVER:
        yield f"{spec.name} is cut by retention.bytes: set it to -1"


async def describe(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, FoundTopic]:
    """Those of `names` that exist. All topics are asked for: a broker may make those it is asked for by name."""
    described = [topic for topic in await admin.describe_topics() if topic["topic"] in names]
    counts = {topic["topic"]: len(topic["partitions"]) for topic in described if topic["error_code"] == 0}
    configs = await _configs(admin, list(counts))
    return {name: FoundTopic(count, configs.get(name, {})) for name, count in counts.items()}


async def _configs(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources):
        for error_code, message, _, name, entries in response.resources:
            if error_code:
                raise LogError(
                    f"the settings of topic {name} cannot be read: {message or for_code(error_code).__name__}"
                )
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found


async def _create(admin: AIOKafkaAdminClient, specs: Sequence[TopicSpec], replication: int) -> None:
    # The client takes -1 only together with assignments, of which there are none.
    new = [
        NewTopic(spec.name, spec.partitions, replication, {} if replication == -1 else None, spec.config)
        for spec in specs
    ]
    response = await admin.create_topics(new)
    for name, error_code, *message in response.topic_errors:
        error = for_code(error_code)
        if error_code and error is not TopicAlreadyExistsError:
            raise LogError(f"topic {name} cannot be created: {(message or [''])[0] or error.__name__}")


async def _appeared(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, FoundTopic]:
    """The topics just created, once they are in the metadata."""
    async with asyncio.timeout(APPEAR_S):
        while len(found := await describe(admin, names)) < len(names):  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.1)
    return found
