"""The pipelines of the simulation: drawn from a seed, defined by hand, as the DSL would define them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tpf_streams.core.step import (
    AnyStep,
    AwaitDefinition,
    Cardinality,
    Completion,
    CorrelationStrategy,
    Json,
    Limits,
    OnItemFailure,
    OnItemTimeout,
    Parallelism,
    PipelineDefinition,
    StepDefinition,
    TransportSpec,
)
from tpf_streams.errors import PayloadError

APPLICATION = "sim"
SECRET = "simulated-secret"
OUTPUTS = "sim-outputs"
FORGED = "forged"
"""A key that only forged payloads have: it must never get behind admission."""

PAYLOAD_BYTES = 16 * 1024

TRANSPORTS = ("kafka", "sqs", "queue", "webhook", "interaction-api")
"""queue: SQS without its poller. It has a budget and no live session."""
PUSHED = ("sqs", "queue", "webhook")


MARKS = {
    Cardinality.ONE_TO_ONE: "",
    Cardinality.ONE_TO_MANY: ">",
    Cardinality.MANY_TO_ONE: "<",
    Cardinality.MANY_TO_MANY: "*",
}


@dataclass(frozen=True, slots=True)
class Call:
    """How one service step is bound."""

    index: int
    style: str
    """function, async, generator or async generator."""
    selective: bool = False
    """Whether it takes one arm of the answer before it only, and lets the other pass by."""


@dataclass(slots=True)
class Pipeline:
    """A definition, and how its steps are called."""

    name: str
    definition: PipelineDefinition
    calls: dict[int, Call] = field(default_factory=dict)

    @property
    def awaits(self) -> list[AwaitDefinition]:
        return [step for step in self.definition.steps if isinstance(step, AwaitDefinition)]

    @property
    def streams(self) -> bool:
        step = self.definition.steps[0]
        return not isinstance(step, AwaitDefinition) and step.cardinality is Cardinality.ONE_TO_MANY

    @property
    def has_streams(self) -> bool:
        """Whether a stream begins anywhere in it, be it behind an answer."""
        return bool(self.definition.course.streams)

    @property
    def listed(self) -> bool:
        """Whether an input is a list."""
        return self.definition.takes_list_input

    @property
    def shaped(self) -> bool:
        """Whether there are lists in it, which only the model of lists understands."""
        steps = self.definition.steps
        return any(step.joins or step.expands for step in steps[self.streams :])

    @property
    def request_topics(self) -> list[str]:
        return [f"requests-{step.index}" for step in self.awaits if step.transport.type == "kafka"]

    @property
    def response_topics(self) -> list[str]:
        kafka = [step.transport.options for step in self.awaits if step.transport.type == "kafka"]
        return sorted({str(options["response"]["topic"]) for options in kafka})


class _Draft:
    """Steps in the making."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.steps: list[AnyStep] = []
        self.calls: dict[int, Call] = {}
        self.names: list[str] = []

    def step(self, style: str, *, inline: bool = False, shape: Cardinality = Cardinality.ONE_TO_ONE) -> None:
        index, cardinality = len(self.steps), shape
        name = f"ProcessStep{index}Service"
        self.steps.append(StepDefinition(index, f"Step {index}", name, cardinality, "In", "Out", inline=inline))
        behind = bool(self.steps[:-1]) and isinstance(self.steps[-2], AwaitDefinition)
        selective = shape is Cardinality.ONE_TO_ONE and behind and self.rng.random() < 0.3
        self.calls[index] = Call(index, style, selective)
        self.names.append(f"{'inline' if inline else style}{MARKS[cardinality]}")

    def segment(self) -> None:
        """Nothing, inline steps, or steps that are owed."""
        for style in self.rng.choice(((), ("inline",), ("inline",), ("function",), ("async",), ("inline", "async"))):
            self.step("function" if style == "inline" else style, inline=style == "inline")

    def wait(self, transport: str, shape: Cardinality = Cardinality.ONE_TO_ONE, *, keyed: bool = True) -> None:
        rng, index = self.rng, len(self.steps)
        signed = rng.random() < 0.7
        timeout_ms = rng.randrange(15_000, 60_000)
        projects = timeout_ms % 4 == 0 and shape is Cardinality.ONE_TO_ONE
        self.steps.append(
            AwaitDefinition(
                index=index,
                name=f"Await {index}",
                step_id=f"ProcessAwait{index}Service",
                cardinality=shape,
                input_type="Request",
                output_type="Answer",
                timeout_ms=timeout_ms,
                transport=_spec(transport, index, shared=rng.random() < 0.5, grouped=rng.random() < 0.3),
                correlation=CorrelationStrategy.SIGNED_RESUME_TOKEN if signed else CorrelationStrategy.INTERACTION_ID,
                require_token=signed,
                idempotency_fields=("g",) if keyed and rng.random() < 0.3 and not self.waits else (),
                on_item_timeout=rng.choices(tuple(OnItemTimeout), (2, 3))[0],
                arms=("yes", "no"),
                convert=convert,
                completion=Completion("Said", "projected", convert, project) if projects else None,
            )
        )
        self.names.append(transport + MARKS[shape] + " projected" * projects)

    @property
    def waits(self) -> bool:
        return any(isinstance(step, AwaitDefinition) for step in self.steps)


def _spec(transport: str, index: int, *, shared: bool, grouped: bool) -> TransportSpec:
    request, response = f"requests-{index}", "responses" if shared else f"responses-{index}"
    options = {"request": {"topic": request}, "response": {"topic": response}}
    if transport == "kafka":
        if grouped:
            options["consumer"] = {"group": f"group-{index}"}
        return TransportSpec("kafka", f"kafka://{request}", live=True, options=options)
    if transport in ("sqs", "queue"):
        return TransportSpec(transport, f"sqs://{request}", live=transport == "sqs", owed=True, options=options)
    return TransportSpec(transport, owed=transport == "webhook", options=options)


def convert(payload: Json) -> object:
    """The answer type of every await step: {yes: {...}} or {no: {...}}, with what it answers and a number."""
    if isinstance(payload, dict) and len(payload) == 1 and payload.keys() & {"yes", "no"}:
        inner = next(iter(payload.values()))
        if isinstance(inner, dict) and {"of", "nonce"} <= inner.keys():
            return payload
    raise PayloadError("neither yes nor no")


def draw_shapes(rng: Random, draft: _Draft) -> bool:
    """Steps that give many and take many together, in any order; whether there is a source."""
    stream = rng.random() < 0.6
    if stream:
        draft.step(rng.choice(("generator", "async generator")), shape=Cardinality.ONE_TO_MANY)
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        shape = rng.choice(tuple(Cardinality))
        if sum(step.cardinality is Cardinality.ONE_TO_MANY for step in draft.steps) == 2:
            shape = Cardinality.ONE_TO_ONE  # or a window of one would take for ever over the items
        if rng.random() < 0.6:
            draft.wait(rng.choices(TRANSPORTS, (8, 4, 2, 3, 2))[0], shape, keyed=False)
        elif draft.steps or shape is not Cardinality.ONE_TO_MANY:
            style = "generator" if shape.expands else "function"
            draft.step(style, inline=shape is Cardinality.ONE_TO_ONE and rng.random() < 0.5, shape=shape)
    if not draft.waits:
        draft.wait("kafka", rng.choice(tuple(Cardinality)), keyed=False)
    return stream


def project(request: Json, value: object) -> tuple[object, Json]:
    """A projector that loses something: two answers in a row may come to the same, and are a conflict all the same."""
    assert isinstance(value, dict)
    kept = {arm: {"of": request, "nonce": inner["nonce"] // 2} for arm, inner in value.items()}
    return kept, kept


def kept(step: AwaitDefinition, request: Json, payload: Json) -> Json:
    """What the row of an honest answer keeps of it; `request` is the row's, and may be a later one than it answers."""
    if step.completion is None:
        return payload
    ((arm, inner),) = payload.items()
    return {arm: {"of": request, "nonce": inner["nonce"] // 2}}


def draw_pipeline(rng: Random) -> Pipeline:
    """One of the pipelines. Weights favour streams over kafka, where most of the machinery is."""
    draft = _Draft(rng)
    shaped = rng.random() < 0.3
    stream = draw_shapes(rng, draft) if shaped else rng.random() < 0.78
    if shaped:
        pass
    elif stream:
        draft.step(rng.choice(("generator", "async generator")), shape=Cardinality.ONE_TO_MANY)
        if rng.random() < 0.15:
            draft.step(rng.choice(("function", "async")))
    else:
        draft.segment()
    count = 0 if shaped else rng.choices((0, 1, 2), (1 if stream else 0, 16, 6))[0]
    for _ in range(count):
        draft.wait(rng.choices(TRANSPORTS, (8, 6, 2, 3, 1))[0])
        draft.segment()
    publishes = stream and rng.random() < 0.6
    sequential = rng.random() < 0.1
    concurrency = rng.choice((1, 2, 2, 3, 3, 4, 5, 8))
    failing = rng.choices(tuple(OnItemFailure), (2, 3))[0]
    definition = PipelineDefinition(
        pipeline_id=APPLICATION,
        app_name=APPLICATION,
        steps=tuple(draft.steps),
        application_id=APPLICATION,
        id_secret=SECRET,
        limits=Limits(
            max_concurrency=concurrency,
            sweep_limit=rng.choice((1, 2, 100)),
            early_rows_max=rng.choice((1, 2, 100)),
            max_payload_bytes=PAYLOAD_BYTES,
            max_aggregate_input_items=rng.choice((0, 10_000, 10_000, 6)),
            max_aggregate_output_items=rng.choice((0, 10_000, 10_000, 2)),
            max_retries=rng.choice((0, 1, 1, 2)),
            retry_delay_ms=rng.choice((0, 300, 4_000)),
            retry_multiplier=rng.choice((1.0, 2.0)),
        ),
        parallelism=Parallelism.SEQUENTIAL if sequential else Parallelism.AUTO,
        on_item_failure=failing,
        budget_enabled=rng.random() < 0.9,
        resume_token_secrets=(SECRET,),
        output_topic=OUTPUTS,
        publishes=publishes,
    )
    name = "-".join(draft.names) + f" x{concurrency} {failing}"
    return Pipeline(name + " published" * publishes + " sequential" * sequential, definition, draft.calls)
