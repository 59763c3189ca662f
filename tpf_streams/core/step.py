"""What a pipeline is, to the machine: steps, segments and limits, with no I/O and no callables.

Index = position of a step in the pipeline, from 0. A *segment* is the run of service steps from one index up to the
next stop: an await step, a step that takes many together, or the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from tpf_streams.core.course import Course, Stream, course_of, is_stop, segment_end
from tpf_streams.core.token import TokenSigner

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, a list of these, or a dict of str to these. Decimals are str."""


COMPLETION_TYPE = "tpf.await.completion.type"
COMPLETION_PROJECTOR = "tpf.await.completion.projector"
"""In an interaction's metadata: what its answer was going to be read and projected with when it was asked for."""


class Cardinality(StrEnum):
    ONE_TO_ONE = "ONE_TO_ONE"
    ONE_TO_MANY = "ONE_TO_MANY"
    MANY_TO_ONE = "MANY_TO_ONE"
    MANY_TO_MANY = "MANY_TO_MANY"

    @property
    def joins(self) -> bool:
        """Whether it takes many together."""
        return self in (Cardinality.MANY_TO_ONE, Cardinality.MANY_TO_MANY)

    @property
    def expands(self) -> bool:
        """Whether it gives many."""
        return self in (Cardinality.ONE_TO_MANY, Cardinality.MANY_TO_MANY)


class CorrelationStrategy(StrEnum):
    INTERACTION_ID = "interactionId"
    SIGNED_RESUME_TOKEN = "signedResumeToken"


class OnItemTimeout(StrEnum):
    FAIL_UNIT = "FAIL_UNIT"
    REJECT_ITEM = "REJECT_ITEM"


class OnItemFailure(StrEnum):
    FAIL_EXECUTION = "FAIL_EXECUTION"
    REJECT_ITEM = "REJECT_ITEM"


class OnRowError(StrEnum):
    REJECT_ROW = "REJECT_ROW"
    FAIL_FILE = "FAIL_FILE"


class Parallelism(StrEnum):
    AUTO = "AUTO"
    PARALLEL = "PARALLEL"
    SEQUENTIAL = "SEQUENTIAL"


@dataclass(frozen=True, slots=True)
class TransportSpec:
    """The transport of one await step, checked by the DSL.

    `type` is lower-case: kafka, sqs, webhook, interaction-api. `endpoint` names what the admission budget is scoped to
    (`kafka://<request topic>`), None where a transport has no budget (contract section 8). `live` says whether an
    itemized stream over it keeps a live session (contract 0.20). `options` are the transport's own keys, validated.
    """

    type: str
    endpoint: str | None = None
    live: bool = False
    owed: bool = False
    """Whether a dispatch happens outside the log (HTTP, SQS): owed after the commit, at least once."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A service step: a callable bound by the DSL under the step's index."""

    awaits: ClassVar[bool] = False
    index: int
    name: str
    step_id: str
    cardinality: Cardinality
    input_type: str
    output_type: str
    inline: bool = False
    terminal: bool = False
    service: str | None = None
    arms: tuple[str, ...] | None = None
    """Union arms this step takes; None: everything. Items of other arms pass by (contract 12.2)."""
    joins: bool = field(init=False, repr=False, compare=False)
    expands: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "joins", self.cardinality.joins)
        object.__setattr__(self, "expands", self.cardinality.expands)


@dataclass(frozen=True, slots=True)
class Completion:
    """How an answer becomes the output of a step whose provider speaks another type (contract 3, step 7).

    Built by the DSL. `read` makes the transport value of a payload, and raises PayloadError where it is none. `project`
    takes the stored request and that value to what flows on and to its plain JSON, which the row keeps: it raises
    PayloadError, and whatever a projector of the user's raises. Both are pure.
    """

    transport_type: str
    projector: str | None
    read: Callable[[Json], object]
    project: Callable[[Json, Any], tuple[object, Json]]


@dataclass(frozen=True, slots=True)
class AwaitDefinition:
    """An await step (contract 12.1)."""

    awaits: ClassVar[bool] = True
    index: int
    name: str
    step_id: str
    cardinality: Cardinality
    input_type: str
    output_type: str
    timeout_ms: int
    transport: TransportSpec
    correlation: CorrelationStrategy
    require_token: bool
    """Contract 0.2: by default, for signedResumeToken."""
    idempotency_fields: tuple[str, ...] = ()
    assignee: str | None = None
    group: str | None = None
    on_item_timeout: OnItemTimeout = OnItemTimeout.FAIL_UNIT
    arms: tuple[str, ...] = ()
    """Variants of the output type where it is a union: the single key of a completion's payload."""
    decimal_fields: frozenset[str] = frozenset()
    """Top-level fields of the input type whose scalar is decimal: equal amounts make equal idempotency keys (0.7)."""
    convert: Callable[[Json], object] = lambda payload: payload
    """Completion payload (plain JSON) -> the object the next step takes. Raises PayloadError. Pure. Where the step
    expands: of one item of the answer."""
    transport_input_type: str = ""
    transport_output_type: str = ""
    """What requests call the two types (contract 1.1); by default as the pipeline does."""
    to_transport: Callable[[Json], Json] | None = None
    """Of a provider that speaks another type; None: the same. Pure, so that a request is a function of its row."""
    completion: Completion | None = None
    """None where answers are of the output type itself: then `convert` is all there is."""
    pinned: dict[str, Json] = field(init=False, repr=False, compare=False)
    """What the metadata of each new interaction says of `completion`; shared by all of them and never changed."""
    joins: bool = field(init=False, repr=False, compare=False)
    """Whether its request is a list: the whole of what comes before it."""
    expands: bool = field(init=False, repr=False, compare=False)
    """Whether its answer is a list, and each item of it flows on."""
    labels: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The bounded labels of the step's facts (contract 10.1). Made once: facts come by the item."""
    unit_labels: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The same with the cardinality, where a unit is known."""

    def __post_init__(self) -> None:
        labels = {"step_id": self.step_id, "transport": self.transport.type}
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "unit_labels", {**labels, "cardinality": self.cardinality.value})
        object.__setattr__(self, "joins", self.cardinality.joins)
        object.__setattr__(self, "expands", self.cardinality.expands)
        object.__setattr__(self, "transport_input_type", self.transport_input_type or self.input_type)
        object.__setattr__(self, "transport_output_type", self.transport_output_type or self.output_type)
        object.__setattr__(self, "pinned", {} if self.completion is None else _pinned(self.completion))

    def request_payload(self, stored: Json) -> Json:
        """The `requestPayload` of a request, or of an inbox entry (contract 1.1). Raises PayloadError."""
        return stored if self.to_transport is None else self.to_transport(stored)


def _pinned(completion: Completion) -> dict[str, Json]:
    found: dict[str, Json] = {COMPLETION_TYPE: completion.transport_type}
    if completion.projector is not None:
        found[COMPLETION_PROJECTOR] = completion.projector
    return found


AnyStep: TypeAlias = StepDefinition | AwaitDefinition


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of the machine, with its default. Bytes, counts, or milliseconds as named."""

    max_concurrency: int = 128
    max_payload_bytes: int = 256 * 1024
    max_aggregate_bytes: int = 3 * 1024 * 1024
    max_aggregate_input_items: int = 10_000
    max_aggregate_output_items: int = 10_000
    """Items of one aggregate request, and of one aggregate answer; 0: any number."""
    early_rows_max: int = 10_000
    sweep_limit: int = 100
    error_message_chars: int = 512
    error_detail_bytes: int = 8 * 1024
    max_retries: int = 3
    """Of one scalar segment, as a whole, after its steps' own tries."""
    retry_delay_ms: int = 10_000
    retry_multiplier: float = 2.0
    execution_ttl_ms: int = 7 * 86_400_000
    """How long an ended execution is kept; and, behind that, the memory of its key."""
    identity_ttl_ms: int = 90 * 86_400_000


@dataclass(frozen=True, slots=True)
class PipelineDefinition:
    """A whole pipeline as the machine sees it."""

    pipeline_id: str
    app_name: str
    steps: tuple[AnyStep, ...]
    application_id: str
    id_secret: str
    limits: Limits = field(default_factory=Limits)
    parallelism: Parallelism = Parallelism.AUTO
    on_item_failure: OnItemFailure = OnItemFailure.FAIL_EXECUTION
    on_row_error: OnRowError = OnRowError.REJECT_ROW
    encoding: str = "utf-8"
    """Of ingested text objects (contract 0.15)."""
    budget_enabled: bool = True
    resume_token_secrets: tuple[str, ...] = ()
    """The first signs, all verify (contract 0.13). Empty only where no await step needs a token."""
    strict_envelopes: bool = False
    output_topic: str = ""
    publishes: bool = False
    """Whether an object is published at the end of each execution (contract 0.16)."""
    ingests_objects: bool = False
    """Whether executions come from an object source, each carrying a `SourceObject`."""
    signer: TokenSigner = field(init=False, repr=False, compare=False)
    """The one signer of the pipeline: what signs a request knows its token when the answer comes."""
    course: Course = field(init=False, repr=False, compare=False)
    _stops: tuple[bool, ...] = field(init=False, repr=False, compare=False)
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _streams: Mapping[int, Stream] = field(init=False, repr=False, compare=False)
    _segments: tuple[tuple[StepDefinition, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = range(len(self.steps) + 1)
        course, ends = course_of(self.steps), tuple(segment_end(self.steps, index) for index in places)
        segments = (self.steps[index : ends[index]] for index in places)
        object.__setattr__(self, "signer", TokenSigner(self.resume_token_secrets))
        object.__setattr__(self, "course", course)
        object.__setattr__(self, "_stops", tuple(is_stop(self.steps, index) for index in places))
        object.__setattr__(self, "_ends", ends)
        object.__setattr__(self, "_streams", {stream.start: stream for stream in course.streams})
        object.__setattr__(
            self, "_segments", tuple(tuple(it for it in part if isinstance(it, StepDefinition)) for part in segments)
        )

    @property
    def window(self) -> int:
        """Items in flight per live session (contract section 6)."""
        if self.parallelism is Parallelism.SEQUENTIAL:
            return 1
        return max(1, min(self.limits.max_concurrency, 1024))

    @property
    def budget(self) -> int:
        """Slots of one admission scope (contract section 8)."""
        return max(1, self.limits.max_concurrency)

    def wants_slot(self, step: AwaitDefinition) -> bool:
        """Whether interactions of this step need a slot of the admission budget (contract section 8)."""
        return self.budget_enabled and step.transport.endpoint is not None

    def is_stop(self, index: int) -> bool:
        """Whether no service step runs from `index` on for a value that arrives there: an await step, a step that takes
        many together, or the end."""
        return self._stops[index]

    def segment_end(self, index: int) -> int:
        """The stop behind the segment from `index`."""
        return self._ends[index]

    def segment(self, index: int) -> tuple[StepDefinition, ...]:
        """The service steps from `index` up to the next stop; the first may be one that takes many together."""
        return self._segments[index]

    def stream_from(self, index: int) -> Stream | None:
        """The stream whose items the segment from `index` gives."""
        return self._streams.get(index)

    def takes_list(self, index: int) -> bool:
        """Whether what begins at `index` works on a list, and not on one value."""
        stream = self._streams.get(index)
        if stream is not None:
            return stream.listed
        return index < len(self.steps) and self.steps[index].joins

    @property
    def takes_list_input(self) -> bool:
        """Whether an execution is submitted with a list."""
        return self.steps[0].joins


@dataclass(frozen=True, slots=True)
class SourceObject:
    """The identity of an ingested object (contract 0.23); a submission carries this, not the bytes.

    `path` is where this process reads it, `root` + `key`; `etag` is the SHA-256 of the content in hex.
    """

    source: str
    provider: str
    container: str
    key: str
    etag: str
    path: str


@dataclass(frozen=True, slots=True)
class ItemReject:
    """A piece of a source that cannot become an item: a CSV row that does not parse, say (contract 0.15).

    A source step yields it among its items; it goes to the item-reject file and the stream goes on.
    `line` counts physical lines from 1; 0 where a source has no lines.
    """

    file: str
    line: int
    column: str
    reason: str
    raw: str = ""
