"""The topics of an application: made as they are needed, refused with the words that mend them, never changed."""

from __future__ import annotations

import logging

import pytest

from tests.integration.clients import fresh
from tests.integration.logs import Members, create_topic, described, opened
from tpf_streams.errors import LogMismatchError
from tpf_streams.logs.kafka import TopicSpec, TopicUse

pytestmark = pytest.mark.broker

INTERNAL_BYTES = 4 * 1024 * 1024
WEEK_MS = 7 * 24 * 3600 * 1000
AS_EVENTS: dict[str, str | int] = {
    "max_message_bytes": INTERNAL_BYTES,
    "retention_ms": -1,
    "message_timestamp_type": "LogAppendTime",
}
AS_CHANGELOG: dict[str, str | int] = {"max_message_bytes": INTERNAL_BYTES, "cleanup_policy": "compact"}


def answers(name: str, **needs: object) -> TopicSpec:
    return TopicSpec(name, TopicUse.RESPONSES, 3, **needs)  # type: ignore[arg-type]


async def test_missing_topics_are_made_as_they_are_needed(bootstrap_servers, tmp_path):
    application, responses, requests = fresh("app"), fresh("answers"), fresh("requests")
    topics = [
        answers(responses, retention_ms=300_000, append_time=True),
        TopicSpec(requests, TopicUse.REQUESTS, 2, record_bytes=3_000_000),
    ]
    async with opened(bootstrap_servers, application, tmp_path, joined=False, partitions=3, topics=topics):
        own = ("events", "changelog", "dead-letters", "item-rejects", "lifecycle", "owners")
        names = [f"{application}-{name}" for name in own]
        found = await described(bootstrap_servers, [*names, responses, requests])
    events, changelog, _, _, lifecycle, owners = internal = [found[name] for name in names]
    assert [found[name].partitions for name in (*names, responses, requests)] == [3, 3, 1, 1, 3, 3, 3, 2]
    assert {each.config["max.message.bytes"] for each in internal} == {str(INTERNAL_BYTES)}
    assert (lifecycle.number("retention.ms", 0), lifecycle.number("retention.bytes", 0)) == (WEEK_MS, 256 * 1024 * 1024)
    assert events.config["cleanup.policy"] == "delete"
    assert (events.config["retention.ms"], events.config["retention.bytes"]) == ("-1", "-1")
    assert events.config["message.timestamp.type"] == "LogAppendTime"
    assert {each.config["cleanup.policy"] for each in (changelog, owners)} == {"compact"}
    assert found[responses].config["message.timestamp.type"] == "LogAppendTime"
    assert found[requests].config["max.message.bytes"] == "3000000"


async def test_answers_are_kept_through_a_long_outage(bootstrap_servers, tmp_path):
    """The longest await time-out is the least that serves, not what is wanted: answers that came in time while the
    worker was down for a day are admitted, and with five minutes of retention they would be gone."""
    short, long = fresh("answers"), fresh("answers")
    topics = [answers(short, retention_ms=300_000), answers(long, retention_ms=2 * WEEK_MS)]
    async with opened(bootstrap_servers, fresh("app"), tmp_path, joined=False, topics=topics):
        found = await described(bootstrap_servers, [short, long])
    assert found[short].number("retention.ms", 0) >= WEEK_MS
    assert found[long].number("retention.ms", 0) == 2 * WEEK_MS


@pytest.mark.parametrize(
    ("name", "partitions", "config", "words"),
    [
        ("events", 1, AS_EVENTS, "has 1 partitions, not 2: set topology.partitions"),
        ("changelog", 2, {**AS_CHANGELOG, "cleanup_policy": "delete"}, "set it to compact"),
        ("changelog", 2, {**AS_CHANGELOG, "cleanup_policy": "compact,delete"}, "set it to compact"),
        ("owners", 2, {**AS_CHANGELOG, "cleanup_policy": "delete"}, "set it to compact"),
        ("owners", 1, AS_CHANGELOG, "has 1 partitions, not 2: set topology.partitions"),
        ("events", 2, {**AS_EVENTS, "cleanup_policy": "compact"}, "set it to delete"),
        ("events", 2, {**AS_EVENTS, "max_message_bytes": 1_000_000}, "set max.message.bytes to 4194304"),
        ("events", 2, {**AS_EVENTS, "message_timestamp_type": "CreateTime"}, "message.timestamp.type to LogAppendTime"),
        ("events", 2, {**AS_EVENTS, "retention_ms": WEEK_MS}, "set retention.ms to -1"),
        ("events", 2, {**AS_EVENTS, "retention_bytes": 10_000_000}, "retention.bytes: set it to -1"),
    ],
)
async def test_an_internal_topic_that_cannot_serve_is_refused(
    bootstrap_servers, tmp_path, name, partitions, config, words
):
    application = fresh("app")
    topic = await create_topic(bootstrap_servers, f"{application}-{name}", partitions, **config)
    with pytest.raises(LogMismatchError, match=words) as refusal:
        async with opened(bootstrap_servers, application, tmp_path, joined=False, partitions=2):
            pass
    assert topic in str(refusal.value)


@pytest.mark.parametrize(
    ("needs", "config", "words"),
    [
        ({"append_time": True}, {}, "message.timestamp.type to LogAppendTime, or await.arrival-time to read"),
        (
            {"retention_ms": 8_640_000},
            {"retention_ms": 60_000},
            "keeps records 60000 ms: set retention.ms to 8640000",
        ),
        ({"record_bytes": 2_000_000}, {}, "takes records of 1048588 bytes: set max.message.bytes to 2000000"),
    ],
    ids=["times", "retention", "size"],
)
async def test_a_topic_of_the_user_that_cannot_serve_is_refused(bootstrap_servers, tmp_path, needs, config, words):
    topic = await create_topic(bootstrap_servers, fresh("answers"), 1, **config)
    with pytest.raises(LogMismatchError, match=words) as refusal:
        async with opened(bootstrap_servers, fresh("app"), tmp_path, joined=False, topics=[answers(topic, **needs)]):
            pass
    assert topic in str(refusal.value)


async def test_a_topic_of_the_user_may_have_any_partition_count(bootstrap_servers, tmp_path):
    topic = await create_topic(bootstrap_servers, fresh("answers"), 1)
    async with opened(bootstrap_servers, fresh("app"), tmp_path, joined=False, topics=[answers(topic)]) as log:
        assert len(await log.end_offsets([topic])) == 1


async def test_partitions_beyond_the_applications_are_warned_of_and_ignored(bootstrap_servers, tmp_path, caplog):
    application, members = fresh("app"), Members()
    events = await create_topic(bootstrap_servers, f"{application}-events", 5, **AS_EVENTS)
    with caplog.at_level(logging.WARNING, "tpf_streams"):
        async with opened(bootstrap_servers, application, tmp_path, members=members, partitions=2):
            assert members.partitions == {0, 1}
    assert f"{events} has 5 partitions, and 2 are used" in caplog.text


async def test_without_create_topics_a_missing_one_is_named(bootstrap_servers, tmp_path):
    missing, there = fresh("answers"), await create_topic(bootstrap_servers, fresh("answers"), 1)
    application = fresh("app")
    with pytest.raises(LogMismatchError, match=rf"create {missing} \(responses, 3 partitions\)"):
        async with opened(
            bootstrap_servers,
            application,
            tmp_path,
            joined=False,
            topics=[answers(missing), answers(there)],
            create_topics=False,
        ):
            pass
    async with opened(
        bootstrap_servers, application, tmp_path, joined=False, topics=[answers(there)], create_topics=False
    ) as log:
        assert len(await log.end_offsets([f"{application}-events"])) == 1, "internal topics are the engine's own"


async def test_another_partition_count_than_the_first_is_refused(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path, partitions=2) as log:
        await log.open_task(1)
    with pytest.raises(LogMismatchError, match=r"set topology\.partitions to 2"):
        async with opened(bootstrap_servers, application, tmp_path, joined=False, partitions=3):
            pass
    with pytest.raises(LogMismatchError, match=r"begun with 2 partitions, not 1.* set topology\.partitions to 2"):
        async with opened(bootstrap_servers, application, tmp_path, joined=False, partitions=1):
            pass


async def test_other_ids_than_the_first_are_refused(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path, identity="one") as log:
        await log.open_task(0)
    with pytest.raises(LogMismatchError, match=r"another pipeline\.id-secret"):
        async with opened(bootstrap_servers, application, tmp_path, joined=False, identity="two"):
            pass
    async with opened(bootstrap_servers, application, tmp_path, joined=False):
        pass  # a tool that does not know the ids


@pytest.mark.parametrize("own_broker", [{"auto.create.topics.enable": "true"}], indirect=True, ids=["auto-create"])
async def test_a_broker_that_makes_topics_when_asked_for_them(own_broker, tmp_path):
    """Kafka's default. Whoever only asks for the description of a topic then makes it, with one partition and the
    broker's settings, and the application would be refused for topics that nobody made."""
    application, topic = fresh("app"), fresh("answers")
    topics = [answers(topic, append_time=True)]
    async with opened(own_broker.bootstrap_servers, application, tmp_path, partitions=3, topics=topics) as log:
        ends = await log.end_offsets([f"{application}-events", topic])
        assert len(ends) == 6
