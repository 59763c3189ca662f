"""One entry of `steps` as it is written: keys checked, types resolved, nothing yet known of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tpf_streams.core.step import Cardinality, CorrelationStrategy, OnItemTimeout, TransportSpec
from tpf_streams.dsl.naming import step_id
from tpf_streams.dsl.report import one_of, shown, suggestion
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.transports import read_transport
from tpf_streams.dsl.type_names import TypeNames

_ALIASES = {"EXPANSION": Cardinality.ONE_TO_MANY, "REDUCTION": Cardinality.MANY_TO_ONE}
_MAPPERS = ("inboundMapper", "outboundMapper", "mapper")
_OUT_OF_SCOPE = ("command", "query", "pipeline")


class StepKind(StrEnum):
    SERVICE = "service"
    AWAIT = "await"


@dataclass(frozen=True, slots=True)
class AwaitKeys:
    """What is under an await step; `transport` None: reported as wrong."""

    timeout_ms: int
    transport: TransportSpec | None
    correlation: CorrelationStrategy
    require_token: bool
    idempotency_fields: tuple[str, ...]
    assignee: str | None
    group: str | None
    on_item_timeout: OnItemTimeout


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """`awaits` is None for a service step; type names are empty where they were reported as wrong."""

    section: Section
    index: int
    name: str
    step_id: str
    cardinality: Cardinality
    input_type: str
    output_type: str
    inline: bool = False
    terminal: bool = False
    service: str | None = None
    accepts: tuple[str, ...] | None = None
    awaits: AwaitKeys | None = None


def read_step(section: Section, index: int, names: TypeNames, settings: Settings) -> ParsedStep:
    kind = section.text("kind") or StepKind.SERVICE
    name = section.text("name", required=True) or ""
    ident = step_id(name)
    if name and not ident:
        section.problem("name", f"{shown(name)}: a name needs a letter or digit")
    cardinality = _cardinality(section)
    types = (names.read(section, "input"), names.read(section, "output"))
    section.unused("java", "types come from `types` or from Python classes")
    common = (section, index, name, ident, cardinality, *types)
    if kind.lower() == StepKind.AWAIT:
        step = ParsedStep(*common, awaits=_await_keys(section, types[0], cardinality, names, settings))
    else:
        if kind.lower() != StepKind.SERVICE:
            scope = " is not supported" if kind.lower() in _OUT_OF_SCOPE else ""
            section.problem(
                "kind", f"{shown(kind)}{scope}: allowed are {one_of(StepKind)}.{suggestion(kind, StepKind)}"
            )
        step = _service(section, common, cardinality)
    section.finish()
    return step


def _cardinality(section: Section) -> Cardinality:
    allowed = [*(it.value for it in Cardinality), *_ALIASES]
    word = section.word("cardinality", allowed)
    if word is None:
        return Cardinality.ONE_TO_ONE
    return _ALIASES.get(word) or Cardinality(word)


def _service(
    section: Section, common: tuple[Section, int, str, str, Cardinality, str, str], cardinality: Cardinality
) -> ParsedStep:
    for key in _MAPPERS:
        section.unused(key, "types come from `types` or from Python classes")
    for key in ("timeout", "await", "idempotency", "idempotencyKeyFields"):
        section.forbid(key, "belongs to a step of kind: await")
    inline = section.flag("inline") or False
    if inline and cardinality is not Cardinality.ONE_TO_ONE:
        section.problem("inline", "only a ONE_TO_ONE step can be inline: others are pulled or collected item by item")
    accepts = section.texts("accepts")
    return ParsedStep(
        *common,
        inline=inline,
        terminal=section.flag("terminal") or False,
        service=section.text("service"),
        accepts=tuple(accepts) if accepts else None,
    )


def _await_keys(
    section: Section, input_type: str, cardinality: Cardinality, names: TypeNames, settings: Settings
) -> AwaitKeys:
    for key in ("service", "operator", "delegate"):
        section.forbid(key, "an await step has no code of its own; the provider answers it")
    for key in _MAPPERS:
        section.forbid(key, "an await step takes no mapper")
    for key in ("inline", "terminal", "accepts"):
        section.forbid(key, "belongs to a service step")
    section.forbid("pipelines", "an await step cannot be nested in a local pipeline")
    timeout = section.duration_ms("timeout", required=True) or 0
    fields = _idempotency(section, input_type, cardinality, names)
    body = section.section("await", required=True)
    if body is None:
        return AwaitKeys(
            timeout, None, CorrelationStrategy.INTERACTION_ID, False, fields, None, None, OnItemTimeout.FAIL_UNIT
        )
    body.forbid("dispatch", "await.dispatch is not allowed; transport.request says where requests go")
    body.forbid("scope", "await.scope is not allowed")
    _completion(body)
    strategy, require = _correlation(body, settings)
    transport = body.section("transport", required=True)
    spec = read_transport(transport, settings) if transport else None
    assignee, group = (_person(body, key, input_type, cardinality, names) for key in ("assignee", "group"))
    late = body.choice("onItemTimeout", OnItemTimeout)
    if late is None or settings.above_pipeline("await.onItemTimeout"):
        late = OnItemTimeout(settings.required_text("await.onItemTimeout"))
    body.finish()
    return AwaitKeys(timeout, spec, strategy, require, fields, assignee, group, late)


def _completion(body: Section) -> None:
    completion = body.section("completion")
    if completion is None:
        return
    completion.text("type", required=True)
    completion.text("projector", required=True)
    completion.finish()
    body.problem("completion", "completion projectors are not supported yet; let the provider answer the output type")


def _correlation(body: Section, settings: Settings) -> tuple[CorrelationStrategy, bool]:
    section = body.section("correlation", required=True)
    strategy, own = None, None
    if section is not None:
        if section.text("strategy", required=True) is not None:
            strategy = section.choice("strategy", CorrelationStrategy)
        own = section.flag("require-token")
        section.finish()
    key = "await.correlation.require-token"
    if settings.is_given(key) and (own is None or settings.above_pipeline(key)):
        own = settings.flag(key)
    signed = strategy is CorrelationStrategy.SIGNED_RESUME_TOKEN
    return strategy or CorrelationStrategy.INTERACTION_ID, signed if own is None else own


def _idempotency(section: Section, input_type: str, cardinality: Cardinality, names: TypeNames) -> tuple[str, ...]:
    """Both spellings are honoured (contract 0.7); a field that no payload has would fail every item."""
    flat, nested = section.texts("idempotencyKeyFields"), section.section("idempotency")
    inner = nested.texts("fields") if nested else None
    where, key = (nested, "fields") if nested else (section, "idempotencyKeyFields")
    if nested:
        if not nested.has("fields"):
            nested.problem("fields", "missing, and required")
        nested.finish()
        if section.has("idempotencyKeyFields"):
            section.problem("idempotencyKeyFields", "idempotency.fields says it already; keep one of the two")
    fields = tuple(inner or flat or ())
    if cardinality.joins and fields:
        where.problem(key, f"the request of a {cardinality} step is a list, which has no fields; leave it out")
        return ()
    if input_type in names.types.unions and fields:
        where.problem(key, f"{input_type} is a union: its JSON has one key, the arm, and no common fields")
    record = names.types.records.get(input_type)
    known = [field.name for field in record.fields] if record else list(fields)
    for field in fields:
        if field not in known:
            hint = suggestion(field, known)
            where.problem(key, f"{shown(field)} is no field of {input_type}: {one_of(known)}.{hint}")
    return fields


def _person(body: Section, key: str, input_type: str, cardinality: Cardinality, names: TypeNames) -> str | None:
    """`assignee` or `group`: the name of a payload field, or else a literal (contract 0.14)."""
    text = body.text(key)
    record = names.types.records.get(input_type)
    field = next((it for it in record.fields if it.name == text), None) if record else None
    if field is not None and cardinality.joins:
        body.problem(key, f"the request of a {cardinality} step is a list, which has no field {text}")
    elif text is not None:
        body.note(key, f"is the payload's field {text}" if field else f"is the literal {shown(text)}")
    if field is not None and field.type not in SCALARS:
        body.problem(key, f"field {field.name} is no single value")
    return text
