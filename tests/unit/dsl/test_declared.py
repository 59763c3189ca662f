"""Steps declared in Python become the document that a file would be: same checks, same words, the lines of the code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tpf_streams.core.step import AwaitDefinition, Cardinality, ItemReject
from tpf_streams.dsl.declared import DeclaredSteps
from tpf_streams.dsl.document import ListNode, MapNode, TextNode
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline, read_outline
from tpf_streams.dsl.written import from_python
from tpf_streams.errors import DefinitionError

KAFKA = {"type": "kafka", "request": {"topic": "a.requests"}, "response": {"topic": "a.answers"}}


@dataclass(frozen=True)
class Order:
    order_id: str


@dataclass(frozen=True)
class Line:
    sku: str


class Approved(BaseModel):
    sku: str


class Denied(BaseModel):
    sku: str
    reason: str


def split(order: Order) -> Iterator[Line | ItemReject]:
    yield Line(order.order_id)


def settle(answer: Approved | Denied) -> Line:
    return Line(answer.sku)


def declared(root: Mapping[str, Any] | None = None) -> DeclaredSteps:
    steps = DeclaredSteps(root or {})
    steps.service("Split", split, {})
    steps.awaits("Ask", {"output": Approved | Denied, "timeout": "PT1M", "transport": KAFKA}, __file__, 7)
    steps.service("Settle", settle, {"inline": True})
    return steps


def load(steps: DeclaredSteps) -> LoadedPipeline:
    return load_pipeline(steps.document("a"), environ={}, require_secret=False, functions=steps.functions)


def problems(steps: DeclaredSteps) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        load(steps)
    return [f"{problem.line} {problem.key}: {problem.message}" for problem in caught.value.problems]


def test_types_and_cardinality_are_those_of_the_annotations():
    definition = load(declared()).definition
    assert [(step.input_type, step.output_type) for step in definition.steps] == [
        ("Order", "Line"),
        ("Line", "ApprovedOrDenied"),
        ("ApprovedOrDenied", "Line"),
    ]
    split_step, ask, settle_step = definition.steps
    assert split_step.cardinality is Cardinality.ONE_TO_MANY
    assert isinstance(ask, AwaitDefinition)
    assert ask.arms == ("approved", "denied")
    assert ask.require_token, "a token unless something else is said"
    assert getattr(settle_step, "inline", False)
    assert definition.application_id == "a"


def test_async_generators_expand_too():
    async def parts(order: Order) -> AsyncIterator[Line]:
        yield Line(order.order_id)

    steps = DeclaredSteps({})
    steps.service("Parts", parts, {})
    assert load(steps).definition.steps[0].cardinality is Cardinality.ONE_TO_MANY


def test_what_stands_beside_the_steps_has_the_keys_of_a_file():
    steps = declared({"settings": {"pipeline": {"max-concurrency": 5}}, "publish": {"topic": "a-out"}})
    definition = load(steps).definition
    assert (definition.limits.max_concurrency, definition.output_topic) == (5, "a-out")


def test_a_mistake_is_told_with_the_line_that_made_it():
    steps = DeclaredSteps({"settings": {"pipeline.max-concurency": 5}})
    steps.service("Split", split, {"inlin": True})
    steps.awaits("Ask", {"output": Line, "timeout": "5m", "transport": KAFKA}, __file__, 7)
    steps.service("Settle", settle, {"input": "Line", "output": "Line"})
    line = split.__code__.co_firstlineno
    found = problems(steps)
    assert [problem for problem in found if problem.startswith(f"{line} steps[0].inlin: unknown key")]
    assert [problem for problem in found if problem.startswith("7 steps[1].timeout: '5m'")]
    assert [problem for problem in found if "Did you mean 'pipeline.max-concurrency'" in problem]


def test_types_that_are_said_nowhere_are_asked_for():
    with pytest.raises(ValueError, match="step 'X': annotate its input"):
        DeclaredSteps({}).service("X", lambda value: value, {})
    with pytest.raises(ValueError, match="step 'Ask': annotate its output"):
        DeclaredSteps({}).awaits("Ask", {"input": Line, "transport": KAFKA}, __file__, 1)


def test_a_class_inside_a_function_serves_though_no_import_finds_it():
    @dataclass
    class Hidden:
        value: str

    def same(value: dict[str, Any]) -> dict[str, Any]:
        return value

    steps = DeclaredSteps({})
    steps.service("Same", same, {"input": Hidden, "output": Hidden})
    assert load(steps).definition.steps[0].input_type == "Hidden"


def test_what_a_provider_speaks_may_be_classes_and_functions():
    @dataclass
    class Said:
        ok: bool

    def decided(request, said):
        assert said == Said(True)
        return request

    steps = DeclaredSteps({})
    keys = {"input": Line, "output": Line, "timeout": "PT5M", "transport": KAFKA | {"inputType": Line}}
    steps.awaits("Ask", keys | {"completion": {"type": Said, "projector": decided}}, __file__, 7)
    (ask,) = load(steps).definition.steps
    assert isinstance(ask, AwaitDefinition) and ask.completion is not None and ask.to_transport is not None
    value, kept = ask.completion.project({"sku": "a"}, ask.completion.read({"ok": True}))
    assert (value, kept) == (Line("a"), {"sku": "a"})


def test_a_projector_needs_a_name_that_tells_it_from_another():
    steps = DeclaredSteps({})
    completion = {"type": "boolean", "projector": lambda request, ok: request}
    keys = {"input": Line, "output": Line, "timeout": "PT5M", "transport": KAFKA, "completion": completion}
    steps.awaits("Ask", keys, __file__, 7)
    (found,) = problems(steps)
    assert found.startswith("7 steps[0].await.completion.projector: a projector has a name of its own")


def test_names_are_known_before_everything_is_right():
    steps = DeclaredSteps({"publish": {"topic": "a-out"}})
    steps.awaits("Ask", {"input": Line, "output": Line, "timeout": "5m", "transport": KAFKA}, __file__, 7)
    outline = read_outline(steps.document("a"), environ={})
    assert (outline.output_topic, outline.awaits["Ask"].options["request"]["topic"]) == ("a-out", "a.requests")
    assert [problem.key for problem in outline.problems] == ["steps[0].timeout"]


class Colour(Enum):
    RED = "red"


def test_plain_values_are_written_as_a_person_would():
    root = from_python(
        Path("p.py"), {"a": True, "b": None, "c": [1, Colour.RED, Path("x/y")], "d": {"e": "no"}}, {}
    ).root
    texts = {name: entry.node for name, entry in root.entries.items()}
    assert isinstance(texts["a"], TextNode) and texts["a"].text == "true"
    assert isinstance(texts["b"], TextNode) and texts["b"].is_null
    assert isinstance(texts["c"], ListNode) and [getattr(it, "text", "") for it in texts["c"].items] == [
        "1",
        "red",
        "x/y",
    ]
    assert isinstance(texts["d"], MapNode)
    with pytest.raises(TypeError, match="a float"):
        from_python(Path("p.py"), {"a": 1.5}, {})
