"""Requests over Kafka: the framework's envelope on the step's request topic (contract 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tpf_streams.core.envelope import dispatch_envelope
from tpf_streams.core.identity import route_of
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import AwaitDefinition, Json
from tpf_streams.core.token import TokenSigner
from tpf_streams.errors import TerminalError
from tpf_streams.ports import Record
from tpf_streams.transports.options import CODE, option, required, text_map

TYPE = "kafka"
GROUP_KEYS = ("consumer.group", "consumerGroup")
BLOCK = 64
"""Items of one stream that go to one partition of the request topic before the next has its turn."""


class KeyStrategy(StrEnum):
    """Which id of the interaction keys its request record."""

    INTERACTION_ID = "interactionId"
    CORRELATION_ID = "correlationId"


@dataclass(frozen=True, slots=True)
class _Settings:
    """The transport of one step, read once."""

    step: AwaitDefinition
    request_topic: str
    response_topic: str
    key: KeyStrategy
    group: str | None
    headers: Mapping[str, bytes]

    @classmethod
    def of(cls, step: AwaitDefinition) -> _Settings:
        return cls(
            step=step,
            request_topic=required(step, "request.topic"),
            response_topic=required(step, "response.topic"),
            key=_key_strategy(step),
            group=next((group for key in GROUP_KEYS if (group := option(step, key))), None),
            headers={name: value.encode() for name, value in text_map(step, "headers").items()},
        )


class KafkaTransport:
    """The request of an interaction is a record of the log, so it joins the turn.

    The record is a function of step and row alone: a repeat, under a later clock or after a restart, is the same bytes.
    Times in it are epoch milliseconds; the token is signed for every correlation strategy.
    """

    def __init__(self, signer: TokenSigner) -> None:
        self._signer = signer
        self._settings: dict[int, _Settings] = {}

    @property
    def type(self) -> str:
        return TYPE

    def prepare(self, step: AwaitDefinition) -> None:
        """Check the step's own keys. Raises TerminalError (contract 1.4)."""
        self._settings_of(step)

    def request_record(self, step: AwaitDefinition, interaction: InteractionRecord) -> Record:
        """The request. Raises TerminalError for a step that lacks a topic, or when no secret is configured."""
        settings = self._settings_of(step)
        key = _key_of(settings.key, interaction)
        value = dispatch_envelope(
            tenant_id=interaction.tenant_id,
            execution_id=interaction.execution_id,
            interaction_id=interaction.interaction_id,
            correlation_id=interaction.correlation_id,
            step_id=interaction.step_id,
            deadline_epoch_ms=interaction.deadline_epoch_ms,
            input_type=step.transport_input_type,
            output_type=step.transport_output_type,
            resume_token=self._signer.sign(interaction.claims()),
            request_payload=step.request_payload(interaction.request_payload),
            transport_metadata=_metadata(settings, key, interaction),
        )
        headers = {
            **settings.headers,
            "tpf-tenant-id": interaction.tenant_id.encode(),
            "tpf-execution-id": interaction.execution_id.encode(),
            "tpf-interaction-id": interaction.interaction_id.encode(),
            "tpf-correlation-id": interaction.correlation_id.encode(),
            "tpf-step-id": interaction.step_id.encode(),
            "tpf-response-topic": settings.response_topic.encode(),
            "tpf-idempotency-key": interaction.idempotency_key.encode(),
        }
        return Record(settings.request_topic, key.encode(), value, tuple(headers.items()), place=_place(interaction))

    async def send(self, step: AwaitDefinition, interaction: InteractionRecord) -> Mapping[str, object]:
        raise TerminalError("a kafka request leaves as a record of the turn, it is never sent on its own", CODE)

    def metadata(self, step: AwaitDefinition, interaction: InteractionRecord) -> dict[str, Json]:
        """`transportMetadata` of the request: what the interaction's stored metadata may be given."""
        settings = self._settings_of(step)
        return _metadata(settings, _key_of(settings.key, interaction), interaction)

    def _settings_of(self, step: AwaitDefinition) -> _Settings:
        settings = self._settings.get(step.index)
        if settings is None or settings.step is not step:
            settings = self._settings[step.index] = _Settings.of(step)
        return settings


def _place(interaction: InteractionRecord) -> int:
    """By the execution's route (contract 0.1), and on to the next partition with each block of items: every instance of
    a provider gets a share of a long stream, and a turn writes to few partitions. By its key each request would go to
    another one, and a turn to all of them (seen: 614 µs an item in the broker, that being most of what it did)."""
    return (route_of(interaction.execution_id) or 0) + (interaction.item_index or 0) // BLOCK


def _key_strategy(step: AwaitDefinition) -> KeyStrategy:
    named = option(step, "request.key") or KeyStrategy.INTERACTION_ID
    try:
        return KeyStrategy(named)
    except ValueError:
        raise TerminalError(f"Unsupported kafka await request.key: {named}", CODE) from None


def _key_of(strategy: KeyStrategy, interaction: InteractionRecord) -> str:
    if strategy is KeyStrategy.CORRELATION_ID:
        return interaction.correlation_id
    return interaction.interaction_id


def _metadata(settings: _Settings, key: str, interaction: InteractionRecord) -> dict[str, Json]:
    metadata: dict[str, Json] = {
        "adapter": TYPE,
        "requestTopic": settings.request_topic,
        "responseTopic": settings.response_topic,
        "keyStrategy": settings.key.value,
        "key": key,
    }
    if settings.group is not None:
        metadata["consumerGroup"] = settings.group
    metadata["dispatchedAtEpochMs"] = interaction.dispatched_at_epoch_ms
    metadata["idempotencyKey"] = interaction.idempotency_key
    return metadata
