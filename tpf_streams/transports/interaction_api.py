"""The transport of inboxes: people and programs read pending interactions over HTTP and complete them there."""

from __future__ import annotations

from collections.abc import Mapping

from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.ports import Record

TYPE = "interaction-api"


class InteractionApiTransport:
    """Dispatch does nothing: the waiting row is the request (contract 9.4)."""

    @property
    def type(self) -> str:
        return TYPE

    def prepare(self, step: AwaitDefinition) -> None:
        """Every step will do: there is nothing to set."""

    def request_record(self, step: AwaitDefinition, interaction: InteractionRecord) -> Record | None:
        return None

    async def send(self, step: AwaitDefinition, interaction: InteractionRecord) -> Mapping[str, object]:
        """{adapter, dispatchedAtEpochMs}; the time is the row's, so that a repeat says the same."""
        return {"adapter": TYPE, "dispatchedAtEpochMs": interaction.dispatched_at_epoch_ms}
