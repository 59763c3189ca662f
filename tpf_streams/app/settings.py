"""Faust's settings as the source of ours. One thing said in two places must be said alike: a difference is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list
from faust.types.settings import Settings as FaustSettings

from tpf_streams.app.committed import check_scheme
from tpf_streams.dsl.settings import Settings
from tpf_streams.errors import DefinitionError, Problem
from tpf_streams.runtime.advertised import url_of

KAFKA_PORT = 9092
_SECURITY = {
    "kafka.security.protocol": "security_protocol",
    "kafka.sasl.mechanism": "sasl_mechanism",
    "kafka.sasl.username": "sasl_plain_username",
    "kafka.sasl.password": "sasl_plain_password",
}
_CERTIFICATES = ("kafka.ssl.cafile", "kafka.ssl.certfile", "kafka.ssl.keyfile", "kafka.ssl.password")


def security_of(conf: FaustSettings) -> Mapping[str, Any]:
    """The arguments of a Kafka client that `broker_credentials` stand for."""
    found: Mapping[str, Any] = credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context)
    return found


def served_at(conf: FaustSettings) -> str | None:
    """Where the worker's web server is reached, as its own settings say; None without one, or with one on a socket of
    the file system."""
    if not conf.web_enabled or conf.web_transport.scheme == "unix":
        return None
    canonical = str(conf.canonical_url).rstrip("/")
    if canonical != f"http://{conf.web_host}:{conf.web_port}":
        return canonical
    return url_of(conf.web_bind, conf.web_port, conf.web_host)


def engine_settings(conf: FaustSettings, given: Settings) -> dict[str, str]:
    """Our settings as Faust's say them. `given`: what stands elsewhere. Raises DefinitionError for what differs,
    ImproperlyConfigured for a broker that is no Kafka."""
    for url in conf.broker:
        check_scheme(url.scheme)
    partitions = str(conf.topic_partitions)
    ours = {
        "pipeline.application-id": conf.id,
        "kafka.bootstrap.servers": ",".join(server_list(conf.broker, KAFKA_PORT)),
        "topology.partitions": partitions,
    }
    problems = [*_differing(ours, given), *_differing_security(security_of(conf), given)]
    if problems:
        raise DefinitionError(problems)
    # Faust's is a default too, and those of the user's topics may well be others.
    return ours if given.is_given("topology.topic-partitions") else {**ours, "topology.topic-partitions": partitions}


_NAMES = {
    "pipeline.application-id": "id",
    "kafka.bootstrap.servers": "broker",
    "topology.partitions": "topic_partitions",
}


def _differing(ours: Mapping[str, str], given: Settings) -> Iterator[Problem]:
    for key, text in ours.items():
        found = given.given(key)
        if found is not None and _parts(found.text) != _parts(text):
            message = f"{found.text} differs from the app's {_NAMES[key]}, which is {text}; keep one of the two"
            yield Problem(found.file, found.line, found.label or key, message)


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.split(",")}


def _differing_security(security: Mapping[str, Any], given: Settings) -> Iterator[Problem]:
    """No value is repeated: it may be a password."""
    for key, argument in _SECURITY.items():
        found = given.given(key)
        if found is not None and given.text(key) != security.get(argument):
            yield Problem(found.file, found.line, found.label or key, "differs from the app's broker_credentials")
    for key in _CERTIFICATES:
        found = given.given(key)
        if found is not None:
            message = "with an App the SSL context of broker_credentials says it; leave this out"
            yield Problem(found.file, found.line, found.label or key, message)
