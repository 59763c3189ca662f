"""Answers of a provider that speaks another type than the pipeline (contract 3, step 7).

Where the two types are one, the payload is what the row keeps, and `convert` is all that happens. Else the row keeps
the step's own output, projected once at admission: recovery reads that back and never projects again, so that neither a
restart nor a later release makes another value of an answer that was admitted. Of the payload itself a digest remains,
because a repeat is told from a conflict by what the provider sent (contract 0.4).
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.json_policy import canonical
from tpf_streams.core.step import COMPLETION_PROJECTOR, COMPLETION_TYPE, AwaitDefinition, Completion, Json
from tpf_streams.errors import PayloadError

DIGEST = "tpf.await.completion.digest"
_Pinned: TypeAlias = tuple[str, str | None, str | None]
"""Output type, transport type and projector."""


def read(step: AwaitDefinition, payload: Json) -> object:
    """The transport value; where that is the step's own type, what flows on. Raises PayloadError, and nothing else."""
    reader = step.convert if step.completion is None else step.completion.read
    try:
        return reader(payload)
    except PayloadError:
        raise
    except Exception as error:
        # A class of the user's refuses what a provider sent: that is the provider's answer, not an error of ours. Its
        # own words may hold the payload.
        raise PayloadError(f"the conversion raised {type(error).__name__}") from error


def check_pinned(step: AwaitDefinition, interaction: InteractionRecord) -> None:
    """The answer is read as the request promised. Raises PayloadError: a later release changed a type or the projector
    while the interaction was open; what the new one makes of an old request nobody has agreed to."""
    metadata, completion = interaction.transport_metadata, step.completion
    then = (interaction.output_type, metadata.get(COMPLETION_TYPE), metadata.get(COMPLETION_PROJECTOR))
    now: _Pinned = (step.output_type, None, None)
    if completion is not None:
        now = (step.output_type, completion.transport_type, completion.projector)
    if now != then:
        raise PayloadError(
            f"{step.step_id} was asked with output type {_told(*then)} and now has {_told(*now)}: "
            "run the release that asked, or cancel the interaction"
        )


def _told(output_type: str, transport_type: str | None, projector: str | None) -> str:
    found = output_type if transport_type is None else f"{output_type} from {transport_type}"
    return found if projector is None else f"{found} by {projector}"


def project(completion: Completion, interaction: InteractionRecord, value: object) -> tuple[object, Json]:
    """What flows on, and its plain JSON. Raises PayloadError, and nothing else."""
    try:
        return completion.project(interaction.request_payload, value)
    except PayloadError:
        raise
    except Exception as error:
        who = completion.projector or f"the adapter from {completion.transport_type}"
        raise PayloadError(f"{who} raised {type(error).__name__}") from error


def digest(payload: Json) -> str:
    return hashlib.sha256(canonical(payload)).hexdigest()
