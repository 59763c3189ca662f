"""Step callables: what is found, what fits, and what stands between them and the types."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from tpf_streams.core.context import StepContext
from tpf_streams.core.step import Cardinality, ItemReject, PipelineDefinition, StepDefinition
from tpf_streams.dsl import StepBinding, TypeRegistry, bind
from tpf_streams.dsl.bindings import inspect_callable
from tpf_streams.dsl.imports import Importer
from tpf_streams.dsl.shapes import FieldSpec, RecordType, UnionType
from tpf_streams.errors import DefinitionError, PayloadError
from tpf_streams.ports import StepKind

CONTEXT = StepContext("tenant", "execution", 0)
FIELDS = (FieldSpec("orderId", "string"), FieldSpec("amount", "decimal"))


@dataclass(frozen=True)
class Order:
    order_id: str
    amount: Decimal


class OtherOrder(BaseModel):
    order_id: str
    amount: Decimal


@dataclass(frozen=True)
class Good:
    order_id: str
    amount: Decimal


@dataclass(frozen=True)
class Bad:
    order_id: str
    amount: Decimal


def types() -> TypeRegistry:
    records = [RecordType(name, FIELDS) for name in ("Order", "Good", "Bad")]
    return TypeRegistry(records, [UnionType("Answer", {"good": "Good", "bad": "Bad"})])


def definition(*steps: tuple[str, str, str], **changes: Any) -> PipelineDefinition:
    made = tuple(
        replace(
            StepDefinition(index, name, f"Process{name}Service", Cardinality.ONE_TO_ONE, input_type, output_type),
            **changes,
        )
        for index, (name, input_type, output_type) in enumerate(steps)
    )
    return PipelineDefinition("p", "p", made, "p", "p")


def bound(
    function: Callable[..., Any], input_type: str = "Order", output_type: str = "Order", **changes: Any
) -> tuple[StepBinding, TypeRegistry]:
    registry = types()
    return bind(definition(("S", input_type, output_type), **changes), registry, {"S": function})[0], registry


def value(registry: TypeRegistry, name: str = "Order") -> object:
    return registry.converter(name)({"orderId": "o-1", "amount": "1.50"})


class Callables:
    async def method(self, order: Order) -> Order:
        return order

    def __call__(self, order: Order, context: StepContext) -> Order:
        return order


async def stream(order: Order) -> AsyncIterator[Order]:
    yield order


def items(order: Order, context: StepContext) -> Iterator[Order | ItemReject]:
    yield order


def plain(order: Order) -> Order:
    return order


def with_default(order: Order, context: StepContext | None = None, *, rate: int = 2, **rest: object) -> Order:
    return order


@functools.wraps(items)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return items(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "kind", "takes_context"),
    [
        (plain, StepKind.FUNCTION, False),
        (with_default, StepKind.FUNCTION, True),
        (lambda order: order, StepKind.FUNCTION, False),
        (lambda order, context: order, StepKind.FUNCTION, True),
        (items, StepKind.GENERATOR, True),
        (wrapped, StepKind.GENERATOR, True),
        (stream, StepKind.ASYNC_GENERATOR, False),
        (Callables().method, StepKind.ASYNC_FUNCTION, False),
        (Callables(), StepKind.FUNCTION, True),
        (functools.partial(with_default, rate=3), StepKind.FUNCTION, True),
    ],
)
def test_callables_of_every_kind(function, kind, takes_context):
    signature = inspect_callable(function)
    assert (signature.kind, signature.takes_context) == (kind, takes_context)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (5, "int is not callable"),
        (lambda: 1, r"must take \(value\) or \(value, context\)"),
        (lambda a, b, c: 1, r"must take \(value\) or \(value, context\)"),
        (lambda a, *, b: 1, r"must take \(value\) or \(value, context\)"),
        (lambda *a: 1, r"must take \(value\) or \(value, context\)"),
        (min, "its parameters cannot be read|must take"),
    ],
)
def test_what_cannot_be_a_step(function, told):
    with pytest.raises(ValueError, match=told):
        inspect_callable(function)


def test_annotations_that_name_nothing():
    def step(value: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
        return None

    with pytest.raises(ValueError, match="its annotations name Nowhere"):
        inspect_callable(step)


def test_an_annotated_class_stands_for_the_type():
    step, registry = bound(plain)
    given = value(registry)
    assert given == Order("o-1", Decimal("1.50"))
    assert step.to_input(given) is given
    assert step.finish(step.call(given, CONTEXT)) is given
    assert step.call({"orderId": "o-1", "amount": "1.50"}, CONTEXT) == given


def test_a_dict_gets_plain_json_and_gives_it():
    def step(order: dict[str, Any]) -> dict[str, Any]:
        assert order == {"orderId": "o-1", "amount": "1.50"}
        return order | {"amount": Decimal("2.50"), "more": 1}

    bound_step, registry = bound(step)
    result = bound_step.finish(bound_step.call(value(registry), CONTEXT))
    assert registry.to_json(result) == {"orderId": "o-1", "amount": "2.50"}


def test_a_dict_of_a_union_has_its_arm():
    step, registry = bound(lambda answer: {"good": {"orderId": "o-2", "amount": "1"}}, "Answer", "Answer")
    result = step.finish(step.call(value(registry, "Bad"), CONTEXT))
    assert registry.arm_of(result, "Answer") == "good"

    def as_json(answer: dict[str, Any]) -> dict[str, Any]:
        return answer

    step, registry = bound(as_json, "Answer", "Answer")
    assert step.call(value(registry, "Bad"), CONTEXT) == {"bad": {"orderId": "o-1", "amount": "1.50"}}


def test_without_annotation_a_generated_model_flows():
    step, registry = bound(lambda order: order)
    given = value(registry)
    assert type(given).__name__ == "Order"
    assert step.finish(step.call(given, CONTEXT)) is given


def test_a_union_of_classes_gives_the_arms_their_classes():
    def step(answer: Good | Bad) -> Order:
        return Order(answer.order_id, answer.amount)

    bound_step, registry = bound(step, "Answer")
    given = registry.converter("Answer")({"bad": {"orderId": "o-1", "amount": "1.50"}})
    assert given == Bad("o-1", Decimal("1.50"))
    assert bound_step.call(given, CONTEXT) == Order("o-1", Decimal("1.50"))


def test_two_classes_for_one_type_are_converted():
    def second(order: OtherOrder) -> OtherOrder:
        return order

    registry = types()
    steps = bind(definition(("A", "Order", "Order"), ("B", "Order", "Order")), registry, {"A": plain, "B": second})
    given = value(registry)
    assert steps[1].call(given, CONTEXT) == OtherOrder(order_id="o-1", amount=Decimal("1.50"))
    assert registry.to_json(steps[1].finish(steps[1].call(given, CONTEXT))) == {"orderId": "o-1", "amount": "1.50"}
    assert steps[0].call(given, CONTEXT) is given


def test_only_its_own_arm_is_accepted():
    step, registry = bound(lambda good: good, "Good", "Order", arms=("good",))
    assert step.accepts(value(registry, "Good"))
    assert not step.accepts(value(registry, "Bad"))
    step, registry = bound(lambda it: it, "Answer", "Order", arms=("bad",))
    assert not step.accepts(value(registry, "Good"))
    step, registry = bound(lambda it: it)
    assert step.accepts(object())


def test_a_reject_passes_and_anything_else_is_refused():
    step, _ = bound(items, cardinality=Cardinality.ONE_TO_MANY)
    reject = ItemReject("f.csv", 2, "Amount", "bad")
    assert step.finish(reject) is reject
    with pytest.raises(PayloadError, match="step 'S' gave str where Order is declared"):
        step.finish("an order")
    with pytest.raises(PayloadError, match="amount: missing"):
        step.finish({"orderId": "o-1"})


def test_many_inputs_are_converted_one_by_one():
    def step(orders: Sequence[Order]) -> Order:
        return orders[0]

    bound_step, registry = bound(step, cardinality=Cardinality.MANY_TO_ONE)
    given = value(registry)
    assert bound_step.call([given, {"orderId": "o-2", "amount": "1"}], CONTEXT) is given


def test_bind_tells_every_step_that_is_wrong():
    steps = definition(("A", "Order", "Order"), ("B", "Order", "Order"), ("C", "Answer", "Order"))

    def no_arm(order: Order) -> Order:
        return order

    with pytest.raises(DefinitionError) as caught:
        bind(steps, types(), {"A": items, "C": no_arm, "D": plain})
    assert str(caught.value).splitlines() == [
        "bind:0: D: no service step has this name",
        "bind:0: A: a generator gives many values, and the step is ONE_TO_ONE",
        "bind:0: B: no callable is bound to this step",
        "bind:0: C: input Order is no arm of Answer; name the class as its type: Good, Bad",
    ]


# Finding them


def test_a_module_beside_the_pipeline_is_found_and_shadows_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    package = tmp_path / "lost_and_found" / "inner"
    package.mkdir(parents=True)
    (package / "steps.py").write_text("class Steps:\n    @staticmethod\n    def go(value):\n        return value\n")
    (tmp_path / "json.py").write_text("raise RuntimeError('shadows the standard library')\n")
    importer = Importer(package / "deep" / "pipeline.yaml")
    assert importer.find("lost_and_found.inner.steps:Steps.go")(3) == 3
    assert importer.find("json:dumps")(1) == "1"
    assert sys.path[-1] == str(tmp_path)


def test_why_a_module_cannot_be_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "needs_more.py").write_text("import no_such_thing_at_all\n")
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    importer = Importer(tmp_path / "pipeline.yaml")
    with pytest.raises(ValueError, match="module needs_more imports no_such_thing_at_all, which is not installed"):
        importer.find("needs_more:x")
    with pytest.raises(ValueError, match="module leaves fails to import: SystemExit: 0"):
        importer.find("leaves:x")
    with pytest.raises(ValueError, match="module breaks fails to import: ZeroDivisionError"):
        importer.find("breaks:x")
    for wrong in ("module", "a:b:c", "a.b", "a b:c", "", ":x", "1a:b"):
        with pytest.raises(ValueError, match=r"package\.module:name is wanted"):
            importer.find(wrong)
