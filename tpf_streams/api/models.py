"""The shapes of requests and answers (contract 9.1); the OpenAPI document is printed from them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

Text = Annotated[str, StringConstraints(strip_whitespace=True)]


class Answer(BaseModel):
    """What the server says: camel case, every field there, unknown ones never."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The fields as they are called in JSON."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())


class Request(BaseModel):
    """What a client says. Unknown fields are ignored, as in every envelope (contract 0.5)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, strict=True)


class Problem(BaseModel):
    """RFC 9457. `outcome` is the stable word; the rest is for people."""

    type: str
    title: str
    status: int
    detail: str
    outcome: str


class CompletionProblem(Problem):
    """Why an answer was not admitted, and what it met: who was faster, and with what."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    interaction_id: str | None = None
    execution_id: str | None = None
    step_id: str | None = None
    status_of_interaction: str | None = None
    response_payload: Any = None
    actor: str | None = None


class Submitted(Answer):
    execution_id: str
    duplicate: bool
    status_url: str
    submitted_at_epoch_ms: int | None


class Execution(Answer):
    execution_id: str
    execution_key: str
    tenant_id: str
    status: str
    step_index: int
    step: str
    attempt: int
    version: int
    generation: int
    next_due_at_epoch_ms: int | None
    created_at_epoch_ms: int
    updated_at_epoch_ms: int
    error_code: str | None
    error_message: str | None
    source: str | None
    published: str | None
    items: int
    in_flight: int
    outputs: int
    rejected_rows: int
    rejected_items: int
    by_arm: dict[str, int]


class Replay(Answer):
    """A page of what became true of an execution, as a replay document (contract 10.3) of its events."""

    pipeline: str
    started_at: str
    duration_ms: int
    status: str
    """`running` until the execution has ended, then `completed` or `failed`."""
    failure_type: str | None
    failure_message: str | None
    topology: dict[str, Any]
    events: list[dict[str, Any]]
    next: int
    """Where the next page begins."""
    more: bool
    """Whether there is one already."""


class Pending(Answer):
    """An interaction that waits for its answer."""

    interaction_id: str
    correlation_id: str
    execution_id: str
    tenant_id: str
    step: str
    step_id: str
    step_index: int
    item_index: int | None
    output_type: str
    status: str
    request_payload: Any
    assignee: str | None
    group: str | None
    transport_type: str
    transport_metadata: dict[str, Any]
    deadline_epoch_ms: int
    created_at_epoch_ms: int
    updated_at_epoch_ms: int
    needs_token: bool
    completion_schema: str
    """Where the JSON Schema of its answer is."""


class Interaction(Pending):
    """One interaction, open or not."""

    response_payload: Any
    actor: str | None


class AwaitUnit(Answer):
    """One await step of an execution. `interaction`: of a unit that has a single one; those of a stream are counted."""

    unit_id: str
    step: str
    step_id: str
    step_index: int
    generation: int
    status: str
    itemized: bool
    expected_item_count: int | None
    completed_item_count: int
    rejected_item_count: int
    created_at_epoch_ms: int
    updated_at_epoch_ms: int
    interaction: Interaction | None


class Completion(Request):
    """An answer. One of `interactionId`, `correlationId` and `resumeToken` is needed; every one that is there must name
    the same interaction (contract 0.3). An authenticated principal takes the place of `actor`."""

    interaction_id: Text | None = None
    correlation_id: Text | None = None
    resume_token: Any = None
    idempotency_key: Text | None = None
    actor: Text | None = None
    response_payload: Any = Field()


class Completed(Answer):
    """`status` HELD: the interaction is not there yet; the answer is decided as soon as it is (contract 0.11)."""

    interaction_id: str | None
    execution_id: str | None
    step_id: str | None
    status: str
    duplicate: bool
    outcome: str
    response_payload: Any = None


class Cancel(Request):
    reason: Text | None = None


class Redrive(Request):
    expected_version: int | None = None
    reason: Text | None = None
    allow_failed: bool = True


class Wished(Answer):
    """What became of an operator's wish."""

    outcome: str


class AwaitStep(Answer):
    """A step that waits for answers from outside."""

    step: str
    step_id: str
    step_index: int
    cardinality: str
    transport_type: str
    output_type: str
    timeout_ms: int
    needs_token: bool
    completion_schema: str


class Health(Answer):
    status: str


class Readiness(Answer):
    status: str
    partitions: list[int]
