"""A transport outside the log, as SQS and webhooks are: its requests are owed after the commit, at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from tpf_streams.core.envelope import dispatch_envelope
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.core.token import TokenClaims, TokenSigner
from tpf_streams.ports import Record
from tpf_streams.transports import registry


class PushedTransport:
    """Counts what it is given to send. `fails`: raises for these; `hangs`: sends, and the process never learns it."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.sent: list[bytes] = []
        self.fails: Callable[[InteractionRecord], bool] = lambda interaction: False
        self.hangs = False
        self._signer: TokenSigner | None = None

    @classmethod
    def stand_in(cls, monkeypatch: pytest.MonkeyPatch, type: str) -> PushedTransport:
        """One for all lives of the process, in the place of the transport `type`."""
        found = cls(type)
        monkeypatch.setitem(registry.PROVIDERS, type, found._with_signer)
        return found

    def _with_signer(self, signer: TokenSigner) -> PushedTransport:
        self._signer = signer
        return self

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [orjson.loads(it) for it in self.sent]

    def request_of(self, interaction: InteractionRecord) -> dict[str, Any]:
        return next(it for it in self.requests if it["interactionId"] == interaction.interaction_id)

    def prepare(self, step: AwaitDefinition) -> None:
        """Every step will do."""

    def request_record(self, step: AwaitDefinition, interaction: InteractionRecord) -> Record | None:
        return None

    async def send(self, step: AwaitDefinition, interaction: InteractionRecord) -> Mapping[str, object]:
        if self.fails(interaction):
            raise ConnectionError("the queue refuses")
        self.sent.append(self._envelope(interaction))
        if self.hangs:
            await asyncio.Event().wait()
        return {"adapter": self.type}

    def _envelope(self, interaction: InteractionRecord) -> bytes:
        assert self._signer is not None
        token = self._signer.sign(
            TokenClaims(
                tenant_id=interaction.tenant_id,
                interaction_id=interaction.interaction_id,
                correlation_id=interaction.correlation_id,
                execution_id=interaction.execution_id,
                step_id=interaction.step_id,
                deadline_epoch_ms=interaction.deadline_epoch_ms,
                issued_at_epoch_ms=interaction.issued_at_epoch_ms,
            )
        )
        return dispatch_envelope(
            tenant_id=interaction.tenant_id,
            execution_id=interaction.execution_id,
            interaction_id=interaction.interaction_id,
            correlation_id=interaction.correlation_id,
            step_id=interaction.step_id,
            deadline_epoch_ms=interaction.deadline_epoch_ms,
            input_type=interaction.input_type,
            output_type=interaction.output_type,
            resume_token=token,
            request_payload=interaction.request_payload,
            transport_metadata={"adapter": self.type, "idempotencyKey": interaction.idempotency_key},
        )
