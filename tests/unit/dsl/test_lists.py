"""Steps that take many together, in a file and in Python: what they are given, and what does not fit them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.core.context import StepContext
from tpf_streams.core.step import AwaitDefinition, Cardinality
from tpf_streams.dsl.declared import DeclaredSteps
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.errors import DefinitionError

CONTEXT = StepContext("t", "e", 0)
HEAD = """
version: 3
appName: lists
types:
  Item: {fields: [[id, string], [owner, string]]}
  Red: {fields: [[id, string]]}
  Blue: {fields: [[id, string]]}
  Any: {variants: {red: Red, blue: Blue}}
steps:
"""
AWAIT = """
  - name: Ask
    kind: await
    cardinality: {cardinality}
    input: Item
    output: Item
    timeout: PT1M
    {more}
    await:
      {inside}
      correlation: {{strategy: interactionId}}
      transport: {{type: interaction-api}}
"""


@dataclass(frozen=True)
class Order:
    id: str


def step(cardinality: str, input: str = "Item", output: str = "Item", name: str = "Sum") -> str:
    return f"  - {{name: {name}, cardinality: {cardinality}, input: {input}, output: {output}}}\n"


def load(folder: Path, text: str, **functions: Any) -> Any:
    file = folder / "pipeline.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    return load_pipeline(file, environ={}, functions=functions)


def problems(folder: Path, text: str, **functions: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        load(folder, text, **functions)
    return "\n".join(f"{it.key}: {it.message}" for it in caught.value.problems)


def test_a_step_gets_a_list_of_the_declared_type(tmp_path):
    def total(items: list[dict[str, str]]) -> dict[str, str]:
        assert isinstance(items, list)
        return items[-1]

    loaded = load(tmp_path, step("REDUCTION"), Sum=total)
    bound, converter = loaded.bindings[0], loaded.types.converter("Item")
    items = (converter({"id": name, "owner": "o"}) for name in "ab")
    assert bound.call(items, CONTEXT) == {"id": "b", "owner": "o"}


@pytest.mark.parametrize("annotation", [Iterable, Iterator])
def test_an_iterable_is_read_as_it_is_asked_for(tmp_path, annotation):
    """Of a list of any length the step holds as much as it keeps."""
    given: list[int] = []

    def total(items: Any) -> dict[str, str]:
        found: dict[str, str] = next(iter(items))
        assert given == [0]
        return found

    total.__annotations__["items"] = annotation[dict[str, str]]
    loaded = load(tmp_path, step("MANY_TO_ONE"), Sum=total)
    converter = loaded.types.converter("Item")

    def items() -> Iterator[object]:
        for number in range(5):
            given.append(number)
            yield converter({"id": str(number), "owner": "o"})

    assert loaded.bindings[0].call(items(), CONTEXT)["id"] == "0"


def test_what_does_not_fit(tmp_path):
    def one_by_one(items: list[dict[str, str]]) -> dict[str, str]:
        return items[0]

    def later(items: AsyncIterator[dict[str, str]]) -> dict[str, str]:
        return {}

    assert "takes many values, and the step is ONE_TO_ONE" in problems(tmp_path, step("ONE_TO_ONE"), Sum=one_by_one)
    assert "no async iterator; Iterable or list" in problems(tmp_path, step("REDUCTION"), Sum=later)


def test_it_takes_every_arm(tmp_path):
    text = step("ONE_TO_ONE", "Item", "Any", name="Paint") + step("REDUCTION", "Red", "Blue")
    text += step("ONE_TO_ONE", "Blue", "Blue", name="Last")
    found = problems(tmp_path, text, Paint=lambda it: it, Sum=lambda its: its, Last=lambda it: it)
    assert "a step that takes many together takes everything, and Blue (arm blue) would pass it by" in found


@pytest.mark.parametrize("cardinality", ["MANY_TO_ONE", "MANY_TO_MANY"])
def test_a_list_has_no_fields(tmp_path, cardinality):
    keyed = AWAIT.format(cardinality=cardinality, more="idempotencyKeyFields: [id]", inside="")
    assert f"idempotencyKeyFields: the request of a {cardinality} step is a list, which has no fields" in problems(
        tmp_path, keyed
    )
    owned = AWAIT.format(cardinality=cardinality, more="", inside="assignee: owner")
    assert "assignee: the request of a" in problems(tmp_path, owned)


def test_a_literal_assignee_is_one(tmp_path):
    text = AWAIT.format(cardinality="REDUCTION", more="", inside="assignee: back-office")
    (ask,) = load(tmp_path, text).definition.steps
    assert isinstance(ask, AwaitDefinition)
    assert (ask.cardinality, ask.assignee) == (Cardinality.MANY_TO_ONE, "back-office")


def test_the_limits_are_those_of_the_settings(tmp_path):
    text = "settings: {pipeline.orchestrator.await-aggregate-max-input-items: 0}\n"
    file = tmp_path / "pipeline.yaml"
    file.write_text(text + HEAD + AWAIT.format(cardinality="EXPANSION", more="", inside=""), encoding="utf-8")
    overrides = {"pipeline.orchestrator.await-aggregate-max-output-items": "7"}
    limits = load_pipeline(file, environ={}, settings_overrides=overrides).definition.limits
    assert (limits.max_aggregate_input_items, limits.max_aggregate_output_items) == (0, 7)


def test_in_python_the_annotations_say_it():
    def split(order: Order) -> Iterator[Order]:
        yield order

    def each(orders: Iterable[Order]) -> Iterator[Order]:
        yield from orders

    def total(orders: list[Order]) -> Order:
        return orders[0]

    steps = DeclaredSteps({})
    steps.service("Split", split, {})
    steps.service("Each", each, {})
    steps.service("Total", total, {})
    loaded = load_pipeline(steps.document("lists"), environ={}, functions=steps.functions)
    assert [step.cardinality for step in loaded.definition.steps] == ["ONE_TO_MANY", "MANY_TO_MANY", "MANY_TO_ONE"]
