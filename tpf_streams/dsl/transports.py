"""The transport keys of an await step (contract 1.4, 12.1), checked and put into one spelling.

`TransportSpec.options` afterwards, all optional keys left out where absent:
kafka: request.topic, request.key, response.topic, consumer.group, headers. sqs: request.queueUrl, response.queueUrl.
webhook: request.url, method, timeoutMillis, headers, callback (as configured). interaction-api: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from tpf_streams.core.step import TransportSpec
from tpf_streams.dsl.naming import is_topic
from tpf_streams.dsl.report import shown, suggestion
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.settings import Settings

NEEDS_SECRET = frozenset({"kafka", "sqs", "webhook"})
"""Their requests always carry a signed token (contract 1.1), whatever the correlation strategy."""


def read_transport(section: Section, settings: Settings) -> TransportSpec | None:
    """The checked transport, or None when its type is missing or unknown; problems are reported."""
    name = section.text("type")
    if name is None:
        return None
    reader = _READERS.get(name.lower())
    if reader is None:
        section.problem(
            "type",
            f"No AwaitTransportAdapter provider is available for type {shown(name)}: "
            f"allowed are {', '.join(_READERS)}.{suggestion(name, _READERS)}",
        )
        return None
    spec = reader(section, settings)
    section.finish()
    return spec


def _kafka(section: Section, settings: Settings) -> TransportSpec:
    request, response = section.section("request"), section.section("response")
    topic, answers = _topic(request), _topic(response)
    if topic and topic == answers:
        section.problem("response", "response.topic is the request topic; answers need a topic of their own")
    options: dict[str, Any] = {
        "request": {"topic": topic, "key": request.word("key") if request else None},
        "response": {"topic": answers},
    }
    group = _group(section)
    if group:
        options["consumer"] = {"group": group}
    _headers(section, options)
    _finish(request, response)
    return TransportSpec("kafka", endpoint=f"kafka://{topic}", live=True, options=options)


def _topic(section: Section | None) -> str | None:
    topic = section.text("topic") if section else None
    if section and topic is not None and not is_topic(topic):
        section.problem("topic", f"{shown(topic)}: a topic has 1 to 249 letters, digits, dots, dashes, underscores")
    return topic


def _group(section: Section) -> str | None:
    consumer = section.section("consumer")
    group = consumer.text("group") if consumer else None
    _finish(consumer)
    return group or section.text("consumerGroup")


def _headers(section: Section, options: dict[str, Any]) -> None:
    headers = section.section("headers")
    if headers is None:
        return
    found = {name: headers.raw_text(name) for name in headers.node.entries}
    for name, value in found.items():
        if not name.isascii() or not name.isprintable() or " " in name or not value.isprintable():
            headers.problem(name, "a header has a printable ASCII name without blanks, and a printable value")
        if name.lower().startswith("tpf-"):
            headers.problem(name, "headers that begin with tpf- are ours")
    options["headers"] = found


def _sqs(section: Section, settings: Settings) -> TransportSpec:
    request, response = section.section("request"), section.section("response")
    queue, answers = _queue(request), _queue(response)
    if queue and queue == answers:
        section.problem("response", "response.queueUrl is the request queue; answers need a queue of their own")
    _finish(request, response)
    owned = settings.text("tpf.await.sqs.response-queue-url")
    live = settings.flag("tpf.await.sqs.poller.enabled") and owned == answers
    if not live:
        section.note(
            "type",
            "runs on the durable path; live needs tpf.await.sqs.poller.enabled=true "
            "and tpf.await.sqs.response-queue-url set to this response queue",
        )
    options = {"request": {"queueUrl": queue}, "response": {"queueUrl": answers}}
    return TransportSpec("sqs", endpoint=f"sqs://{queue}", live=live, owed=True, options=options)


def _queue(section: Section | None) -> str | None:
    url = section.text("queueUrl") if section else None
    if section and url is not None:
        _check_url(section, "queueUrl", url)
        if url.split("?")[0].split("#")[0].endswith(".fifo"):
            section.problem("queueUrl", "sqs await transport supports standard queues only in v1")
    return url


def _webhook(section: Section, settings: Settings) -> TransportSpec:
    options: dict[str, Any] = {"request": {"url": _webhook_url(section)}, "method": section.word("method")}
    timeout = _webhook_timeout(section)
    if timeout is not None:
        options["timeoutMillis"] = timeout
    _headers(section, options)
    callback = section.section("callback")
    if callback:
        options["callback"] = _callback(callback)
    return TransportSpec("webhook", owed=True, options=options)


def _webhook_url(section: Section) -> str | None:
    """request.url, then dispatch.url, then url (contract 9.4); only one may be there."""
    found: list[tuple[Section, str]] = []
    for parent in ("request", "dispatch"):
        child = section.section(parent)
        url = child.text("url") if child else None
        if child and url:
            found.append((child, url))
        _finish(child)
    url = section.text("url")
    found += [(section, url)] if url else []
    if not found:
        section.problem("request", "webhook await transport requires request.url, dispatch.url, or url")
        return None
    for extra, _ in found[1:]:
        extra.problem("url", f"{found[0][0].key('url')} says it already; keep one")
    _check_url(found[0][0], "url", found[0][1])
    return found[0][1]


def _webhook_timeout(section: Section) -> int | None:
    millis, duration = section.integer("timeoutMillis"), section.duration_ms("timeout")
    return duration or millis


def _callback(section: Section) -> dict[str, str]:
    found = {name: section.text(name) for name in ("completionUrl", "baseUrl", "completionPath")}
    for name in ("completionUrl", "baseUrl"):
        url = found[name]
        if url:
            _check_url(section, name, url)
    if found["completionPath"] and not found["baseUrl"]:
        section.problem("completionPath", "is used together with baseUrl only")
    section.finish()
    return {name: text for name, text in found.items() if text}


def _interaction_api(section: Section, settings: Settings) -> TransportSpec:
    return TransportSpec("interaction-api")


def _check_url(section: Section, name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in url and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        section.problem(name, "an http or https URL is wanted")


def _finish(*sections: Section | None) -> None:
    for section in sections:
        if section:
            section.finish()


_READERS: Mapping[str, Callable[[Section, Settings], TransportSpec]] = {
    "interaction-api": _interaction_api,
    "webhook": _webhook,
    "kafka": _kafka,
    "sqs": _sqs,
}
