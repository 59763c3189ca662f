"""Steps declared in Python, in their order: the same document that pipeline.yaml would say, and the callables to it.

Types come from annotations: a pydantic model or dataclass, or a union of some. Everything is checked where a file's is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpf_streams.core.step import ItemReject
from tpf_streams.dsl.bindings import inspect_callable, is_many, item_of
from tpf_streams.dsl.shapes import record_classes
from tpf_streams.dsl.written import PipelineDocument, Placed, from_python
from tpf_streams.ports import StepKind

VERSION = 3
_UNDER_AWAIT = ("transport", "completion", "assignee", "group", "onItemTimeout")
_SHAPES = {
    (False, False): None,
    (False, True): "EXPANSION",
    (True, False): "REDUCTION",
    (True, True): "MANY_TO_MANY",
}
"""What a step is by its annotations: whether it takes many, and whether it gives many."""


class DeclaredSteps:
    """`root`: what stands beside the steps, with the keys of pipeline.yaml."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        self._root = dict(root)
        self._steps: list[Placed] = []
        self._objects: dict[str, Any] = {}
        self._path: Path | None = None

    def service(self, name: str, function: Callable[..., Any], keys: Mapping[str, Any]) -> None:
        """`keys`: further ones of a service step. Raises ValueError for types that are said nowhere."""
        signature = inspect_callable(function)
        step = {"name": name, **keys}
        step["input"] = self._type(name, "input", keys.get("input", signature.input))
        step["output"] = self._type(name, "output", keys.get("output", signature.output))
        generates = signature.kind in (StepKind.GENERATOR, StepKind.ASYNC_GENERATOR) or is_many(signature.output)
        shape = _SHAPES[is_many(signature.input), generates]
        if shape is not None:
            step.setdefault("cardinality", shape)
        code = getattr(function, "__code__", None)
        self._add(step, code.co_filename if code else "", code.co_firstlineno if code else 0)
        self.functions[name] = function

    def awaits(self, name: str, keys: Mapping[str, Any], file: str, line: int) -> None:
        """`keys` as in pipeline.yaml; those under `await` may stand beside the others. `input` is what the step before
        gives, unless it is said. Raises ValueError for types that are said nowhere."""
        inner = {key: keys[key] for key in _UNDER_AWAIT if key in keys}
        for key, of_python in (("transport", ("inputType", "outputType")), ("completion", ("type", "projector"))):
            if isinstance(inner.get(key), Mapping):
                inner[key] = {name: self._written(it) if name in of_python else it for name, it in inner[key].items()}
        correlation = keys.get("correlation", "signedResumeToken")
        inner["correlation"] = correlation if isinstance(correlation, Mapping) else {"strategy": correlation}
        step: dict[str, Any] = {"name": name, "kind": "await", "await": inner}
        step |= {key: value for key, value in keys.items() if key not in inner}
        before = self._steps[-1].value["output"] if self._steps else None
        step["input"] = self._type(name, "input", keys.get("input", before))
        step["output"] = self._type(name, "output", keys.get("output"))
        self._add(step, file, line)

    def document(self, app_name: str) -> PipelineDocument:
        """Raises TypeError for a value that no document can hold."""
        root = {"version": VERSION, "appName": app_name, **self._root, "steps": self._steps}
        return from_python(self._path or Path("pipeline"), root, self._objects)

    def _add(self, step: Mapping[str, Any], file: str, line: int) -> None:
        self._path = self._path or Path(file)
        self._steps.append(Placed(step, line))

    def _type(self, name: str, side: str, given: Any) -> str:
        """The text that stands for a type in the document."""
        if isinstance(given, str):
            return given
        classes = [cls for cls in record_classes(item_of(given)) if cls is not ItemReject]
        if not classes:
            raise ValueError(f"step {name!r}: annotate its {side} with a pydantic model or dataclass, or give {side}=")
        return "|".join(self._named(cls) for cls in classes)

    def _written(self, given: Any) -> Any:
        """A transport type or projector may be the class or function itself."""
        return self._named(given) if callable(given) else given

    def _named(self, found: Any) -> str:
        text = f"{found.__module__}:{found.__qualname__}"
        self._objects[text] = found
        return text
