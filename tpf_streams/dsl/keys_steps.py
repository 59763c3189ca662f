"""The keys of a step (contract 12.1, 12.2)."""

from __future__ import annotations

from enum import StrEnum

from tpf_streams.core.step import Cardinality, CorrelationStrategy, OnItemTimeout
from tpf_streams.dsl.keys import (
    Key,
    Table,
    Variants,
    choice,
    duration,
    flag,
    mapping,
    refused,
    text,
    texts,
    unused,
)
from tpf_streams.dsl.keys_transports import BY_TYPE

ALIASES = {"EXPANSION": Cardinality.ONE_TO_MANY, "REDUCTION": Cardinality.MANY_TO_ONE}
_OWN_TYPES = "types come from `types` or from Python classes"


class StepKind(StrEnum):
    SERVICE = "service"
    AWAIT = "await"


_AWAIT = Table(
    {
        "correlation": mapping(
            "How answers find their request.",
            required=True,
            table=Table(
                {
                    "strategy": choice(
                        "signedResumeToken: an answer must bring the token of its request.",
                        required=True,
                        choices=tuple(CorrelationStrategy),
                        exact=True,
                    ),
                    "require-token": flag(
                        "Whether answers need the token; default: for signedResumeToken.",
                        setting="await.correlation.require-token",
                    ),
                }
            ),
        ),
        "transport": mapping(
            "What carries requests and answers.",
            required=True,
            variants=BY_TYPE,
        ),
        "completion": mapping(
            "Makes the output of the stored request and an answer of another type.",
            table=Table(
                {
                    "type": text(
                        "What is answered: a declared type, a scalar, or package.module:Class of a protobuf message, "
                        "pydantic model or dataclass.",
                        required=True,
                    ),
                    "projector": text("package.module:name of a pure function of (request, answer).", required=True),
                }
            ),
        ),
        "assignee": text("Who is asked: a field of the input, or a literal."),
        "group": text("Which group is asked: a field of the input, or a literal."),
        "onItemTimeout": choice(
            "A late item of a stream.", choices=tuple(OnItemTimeout), exact=True, setting="await.onItemTimeout"
        ),
        "dispatch": refused("await.dispatch is not allowed; transport.request says where requests go"),
        "scope": refused("await.scope is not allowed"),
    }
)
_MAPPERS = ("inboundMapper", "outboundMapper", "mapper")
_STEP: dict[str, Key] = {
    "name": text("For people; the id on the wire is made from it.", required=True),
    "kind": choice("await: an outside actor does the work.", choices=tuple(StepKind), default=StepKind.SERVICE),
    "cardinality": choice(
        "How many values go in and out.",
        choices=(*Cardinality, *ALIASES),
        default=Cardinality.ONE_TO_ONE,
    ),
    "input": text("What it takes: a declared type, or package.module:Class."),
    "inputTypeName": text("Another spelling of input."),
    "output": text("What it gives: a declared type, or package.module:Class."),
    "outputTypeName": text("Another spelling of output."),
    "java": unused(_OWN_TYPES),
}
_TYPED = (("input", "inputTypeName"), ("output", "outputTypeName"))
_SERVICE_STEP = Table(
    _STEP
    | {
        "service": text("package.module:name of the callable; without it one is bound to the step's name."),
        "inline": flag("Pure and quick: runs inside the turn.", default="false"),
        "accepts": texts("Arms of the input union that it takes; default: those its type admits."),
        "terminal": flag("Says that it is the last step."),
    }
    | {key: unused(_OWN_TYPES) for key in _MAPPERS}
    | {
        key: refused("belongs to a step of kind: await")
        for key in ("timeout", "await", "idempotency", "idempotencyKeyFields")
    },
    some_of=_TYPED,
)
_AWAIT_STEP = Table(
    _STEP
    | {
        "timeout": duration("How long an answer is waited for.", required=True),
        "idempotencyKeyFields": texts("Fields of the input that make the provider's idempotency key."),
        "idempotency": mapping(
            "Another spelling of idempotencyKeyFields.",
            table=Table({"fields": texts("The same.", required=True)}),
        ),
        "await": mapping("The boundary.", required=True, table=_AWAIT),
    }
    | {
        key: refused("an await step has no code of its own; the provider answers it")
        for key in ("service", "operator", "delegate")
    }
    | {key: refused("an await step takes no mapper") for key in _MAPPERS}
    | {key: refused("belongs to a service step") for key in ("inline", "terminal", "accepts")}
    | {"pipelines": refused("an await step cannot be nested in a local pipeline")},
    some_of=_TYPED,
    one_of=(("idempotency", "idempotencyKeyFields"),),
)

BY_KIND = Variants("kind", {StepKind.SERVICE: _SERVICE_STEP, StepKind.AWAIT: _AWAIT_STEP}, otherwise=StepKind.SERVICE)
