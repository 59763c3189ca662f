"""What a load puts together beyond the samples: classes as types, version 2, aggregates, callables by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tpf_streams.core.step import AwaitDefinition, Cardinality
from tpf_streams.dsl import load_pipeline
from tpf_streams.errors import DefinitionError

CLASSES = """
from __future__ import annotations
from dataclasses import dataclass
from decimal import Decimal
from pydantic import BaseModel

@dataclass(frozen=True)
class Order:
    order_id: str
    amount: Decimal

class Shipped(BaseModel):
    order: Order
    note: str | None = None

def ship(order: Order) -> Shipped:
    return Shipped(order=order)
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def identity(value: Any) -> Any:
    return value


def test_types_can_be_python_classes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shipping_classes.py").write_text(CLASSES, encoding="utf-8")
    path = write(
        tmp_path,
        "version: 3\nappName: shipping\nsteps:\n  - name: Ship\n    service: shipping_classes:ship\n"
        "    input: shipping_classes:Order\n    outputTypeName: shipping_classes:Shipped\n",
    )
    loaded = load_pipeline(path, environ={})
    assert loaded.types.names == ["Order", "Shipped"]
    order = loaded.types.converter("Order")({"order_id": "o-1", "amount": "1.50"})
    shipped = loaded.bindings[0].finish(loaded.bindings[0].callable(order))
    assert loaded.types.to_json(shipped) == {"order": {"order_id": "o-1", "amount": "1.50"}}


AGGREGATE = """
version: 2
appName: batch
basePackage: com.example
types:
  Order:
    fields:
      - [orderId, string]
steps:
  - name: Read
    cardinality: expansion
    inputTypeName: com.example.Order
    outputTypeName: Order
    java: {input: com.example.Order}
    outboundMapper: com.example.Mapper
  - name: Decide
    kind: await
    cardinality: MANY_TO_MANY
    input: Order
    output: Order
    timeout: PT1M
    await:
      correlation: {strategy: interactionId}
      transport: {type: Interaction-API}
  - name: Sum up
    cardinality: Reduction
    input: Order
    output: Order
"""


def test_aggregate_shapes_load_by_name_and_by_alias(tmp_path):
    def read(order: Any) -> Any:
        yield order

    functions = {"Read": read, "Sum up": identity}
    loaded = load_pipeline(write(tmp_path, AGGREGATE), environ={}, functions=functions)
    assert [step.cardinality for step in loaded.definition.steps] == [
        Cardinality.ONE_TO_MANY,
        Cardinality.MANY_TO_MANY,
        Cardinality.MANY_TO_ONE,
    ]
    noted = "\n".join(loaded.notes)
    for key in ("basePackage", "steps[0].java", "steps[0].outboundMapper"):
        assert f" {key}: accepted and unused" in noted
    assert "steps[0].inputTypeName: read as the declared type Order" in noted


def test_a_callable_for_no_step_is_told(tmp_path):
    with pytest.raises(DefinitionError, match="Red: a callable is given for it, and no service step has this name"):
        load_pipeline(write(tmp_path, AGGREGATE), environ={}, functions={"Red": identity})


UNION = """
version: 3
appName: routes
types:
  A: {fields: [[id, string]]}
  B: {fields: [[id, string]]}
  C: {fields: [[id, string]]}
  Any:
    variants: {a: A, b: {type: B}}
steps:
  - name: Ask
    kind: await
    input: A
    output: Any
    timeout: PT1M
    idempotency: {fields: [id]}
    await:
      correlation: {strategy: signedResumeToken, require-token: false}
      transport: {type: webhook, url: "http://partner.example/x", timeout: PT5S, headers: {x-a: ""}}
      assignee: somebody
  - name: Turn b into c
    input: Any
    accepts: [b]
    output: C
  - name: End
    input: C
    output: C
    terminal: true
"""


def test_accepts_takes_some_arms_of_a_union(tmp_path):
    functions = {"Turn b into c": lambda b: {"id": b.id}, "End": identity}
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(write(tmp_path, UNION), environ={}, functions=functions, require_secret=False)
    assert [problem.key for problem in caught.value.problems] == ["steps[2].input"]
    text = UNION.replace("[b]", "[a, b]")
    loaded = load_pipeline(write(tmp_path, text), environ={}, functions=functions, require_secret=False)
    step = loaded.definition.steps[0]
    assert isinstance(step, AwaitDefinition)
    assert (step.require_token, step.assignee) == (False, "somebody")
    assert step.transport.options == {
        "request": {"url": "http://partner.example/x"},
        "method": "POST",
        "timeoutMillis": 5000,
        "headers": {"x-a": ""},
    }
    b = loaded.types.converter("Any")({"b": {"id": "1"}})
    assert loaded.bindings[1].accepts(b)
    noted = "\n".join(loaded.notes)
    assert "steps[0].await.assignee: is the literal 'somebody'" in noted
    assert "await.transport.callback: none" in noted
    assert "pipeline.id-secret: not set" in noted


def test_arms_that_part_meet_again(tmp_path):
    text = UNION.replace("[b]", "[b]").replace("  - name: End\n    input: C\n", "  - name: End\n    input: Last\n")
    text = text.replace("steps:\n", "  Last:\n    variants: {a: A, c: C}\nsteps:\n", 1)
    functions = {"Turn b into c": lambda b: {"id": b.id}, "End": lambda it: {"id": it.id}}
    loaded = load_pipeline(write(tmp_path, text), environ={}, functions=functions, require_secret=False)
    assert [getattr(step, "arms", None) for step in loaded.definition.steps] == [("a", "b"), ("b",), None]
    read = loaded.types.converter("Any")
    a, b = read({"a": {"id": "1"}}), read({"b": {"id": "2"}})
    assert [loaded.bindings[1].accepts(it) for it in (a, b)] == [False, True]
    assert loaded.types.to_json(a, "Last") == {"a": {"id": "1"}}


def test_an_await_step_may_be_the_whole_pipeline(tmp_path):
    text = UNION[: UNION.index("  - name: Turn")]
    loaded = load_pipeline(write(tmp_path, text), environ={}, require_secret=False)
    assert len(loaded.definition.steps) == 1
    assert loaded.bindings == {}


def test_unused_sources_and_publishers_are_noted(tmp_path):
    text = UNION[: UNION.index("  - name: Turn")] + (
        "sources:\n  files: {kind: object, provider: filesystem, location: {root: ./in}}\n"
        "publish:\n  files: {kind: object, provider: filesystem, location: {root: ./out}}\n"
    )
    loaded = load_pipeline(write(tmp_path, text), environ={}, require_secret=False)
    assert (loaded.source, loaded.publish) == (None, None)
    unused = [note.split(": ")[1] for note in loaded.notes if "neither input nor output names it" in note]
    assert unused == ["sources.files", "publish.files"]
