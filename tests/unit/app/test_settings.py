"""Faust's settings are the source of the engine's, and a second spelling that differs is refused."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import faust
import pytest
from faust.exceptions import ImproperlyConfigured

from tpf_streams import App
from tpf_streams.errors import DefinitionError

FRAUD_CHECK = Path(__file__).parents[3] / "topologies/fraud_check/pipeline.yaml"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}


def app(settings: dict[str, str] | None = None, **options: Any) -> App:
    return App("checks", pipeline=FRAUD_CHECK, settings={**SECRET, **(settings or {})}, **options)


def refusals(settings: dict[str, str], **options: Any) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        app(settings, **options)._plan()
    return [f"{problem.key}: {problem.message}" for problem in caught.value.problems]


def test_the_engine_has_what_faust_has(tmp_path):
    plan = app(broker="kafka://one:1;kafka://two", datadir=str(tmp_path / "d"), topic_partitions=3)._plan()
    assert plan.kafka.bootstrap_servers == "one:1,two:9092"
    assert plan.kafka.application_id == plan.loaded.definition.application_id == "checks"
    assert plan.kafka.partitions == 3
    assert plan.loaded.settings.integer("topology.topic-partitions") == 3
    assert plan.data_dir == tmp_path / "d"
    assert plan.kafka.security == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"web_bind": "0.0.0.0"}, "http://host:6066"),
        ({"web_bind": "0.0.0.0", "web_port": 8080}, "http://host:8080"),
        ({"web_bind": "127.0.0.1"}, "http://127.0.0.1:6066"),
        ({"canonical_url": "https://worker-1.example:8443/"}, "https://worker-1.example:8443"),
        ({"web_enabled": False}, None),
        ({"web_transport": "unix:///tmp/server.sock"}, None),
    ],
)
def test_other_workers_are_told_where_the_web_server_is(options, url):
    assert app(web_host="host", **options)._plan().advertised.url == url


def test_the_users_topics_may_have_other_partitions():
    settings = app({"topology.topic-partitions": "5"}, topic_partitions=3)._plan().loaded.settings
    assert (settings.integer("topology.partitions"), settings.integer("topology.topic-partitions")) == (3, 5)


def test_the_same_in_both_places_is_no_conflict():
    same = {
        "kafka.bootstrap.servers": "two:9092, one:1",
        "topology.partitions": "3",
        "pipeline.application-id": "checks",
    }
    app(same, broker="kafka://one:1;kafka://two", topic_partitions=3)._plan()


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("kafka.bootstrap.servers", "other:9092", "other:9092 differs from the app's broker, which is one:9092"),
        ("topology.partitions", "4", "4 differs from the app's topic_partitions, which is 3"),
        ("pipeline.application-id", "else", "else differs from the app's id, which is checks"),
        ("kafka.security.protocol", "SSL", "differs from the app's broker_credentials"),
        ("kafka.ssl.cafile", "ca.pem", "the SSL context of broker_credentials says it"),
    ],
)
def test_a_difference_is_refused(key, value, told):
    [refusal] = refusals({key: value}, broker="kafka://one", topic_partitions=3)
    assert refusal.startswith(key) and told in refusal


def test_every_difference_is_told_at_once():
    settings = {"topology.partitions": "4", "kafka.bootstrap.servers": "other:1"}
    assert len(refusals(settings, broker="kafka://one", topic_partitions=3)) == 2


def test_credentials_hold_for_the_engine_and_no_password_is_shown():
    context = ssl.create_default_context()
    credentials = faust.SASLCredentials(
        username="me", password="pass-word", mechanism="SCRAM-SHA-256", ssl_context=context
    )
    plan = app(broker_credentials=credentials)._plan()
    assert plan.kafka.security == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": "pass-word",
        "ssl_context": context,
    }
    assert "pass-word" not in repr(plan)
    [refusal] = refusals({"kafka.sasl.password": "other-word"}, broker_credentials=credentials)
    assert "word" not in refusal.partition(":")[2]
    app({"kafka.sasl.username": "me", "kafka.security.protocol": "SASL_SSL"}, broker_credentials=credentials)._plan()


def test_a_broker_that_is_no_kafka_is_refused():
    with pytest.raises(ImproperlyConfigured, match="confluent://"):
        app(broker="confluent://one")._plan()
