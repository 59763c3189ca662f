"""One entry of `steps` as it is written: keys checked, types resolved, nothing yet known of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from tpf_streams.core.step import Cardinality, CorrelationStrategy, OnItemTimeout, TransportSpec
from tpf_streams.dsl.completion import BoundaryKeys, read_boundary
from tpf_streams.dsl.keys_steps import ALIASES, StepKind
from tpf_streams.dsl.naming import step_id
from tpf_streams.dsl.report import one_of, shown, suggestion
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.transports import read_transport
from tpf_streams.dsl.type_names import TypeNames

_OUT_OF_SCOPE = ("command", "query", "pipeline")


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
    boundary: BoundaryKeys


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
    name = section.text("name") or ""
    ident = step_id(name)
    if name and not ident:
        section.problem("name", f"{shown(name)}: a name needs a letter or digit")
    cardinality = _cardinality(section)
    types = (names.read(section, "input"), names.read(section, "output"))
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
    word = section.word("cardinality") or Cardinality.ONE_TO_ONE
    return ALIASES.get(word) or Cardinality(word)


def _service(
    section: Section, common: tuple[Section, int, str, str, Cardinality, str, str], cardinality: Cardinality
) -> ParsedStep:
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
    timeout = section.duration_ms("timeout") or 0
    fields = _idempotency(section, input_type, cardinality, names)
    body = section.section("await")
    if body is None:
        return AwaitKeys(
            timeout,
            None,
            CorrelationStrategy.INTERACTION_ID,
            False,
            fields,
            None,
            None,
            OnItemTimeout.FAIL_UNIT,
            BoundaryKeys(),
        )
    strategy, require = _correlation(body, settings)
    transport = body.section("transport")
    boundary = read_boundary(body, transport, cardinality)
    spec = read_transport(transport, settings) if transport else None
    assignee, group = (_person(body, key, input_type, cardinality, names) for key in ("assignee", "group"))
    late = body.choice("onItemTimeout", OnItemTimeout)
    if late is None or settings.above_pipeline("await.onItemTimeout"):
        late = OnItemTimeout(settings.required_text("await.onItemTimeout"))
    body.finish()
    return AwaitKeys(timeout, spec, strategy, require, fields, assignee, group, late, boundary)


def _correlation(body: Section, settings: Settings) -> tuple[CorrelationStrategy, bool]:
    section = body.section("correlation")
    strategy, own = None, None
    if section is not None:
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
        nested.finish()
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
