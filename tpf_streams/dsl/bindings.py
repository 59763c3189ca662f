"""Step callables: what kind they are, and what stands between them and the declared types.

A callable takes the value and, if it has a second parameter, a `StepContext`. Its annotations choose the classes:
a pydantic model or dataclass stands for the declared type from then on, a union `A | B` gives the arms their classes,
`dict` means plain JSON. Without annotation it gets what flows, a generated model if nobody bound a class. A step that
takes many together gets a list, or, where it is annotated `Iterable` or `Iterator`, the items one by one.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tpf_streams.core.context import StepContext
from tpf_streams.core.step import (
    ItemReject,
    PipelineDefinition,
    StepDefinition,
)
from tpf_streams.dsl.outgoing import outgoing
from tpf_streams.dsl.protobuf import is_message
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.shapes import record_classes, union_members
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import DefinitionError, PayloadError, Problem
from tpf_streams.ports import StepKind

_WRAPPERS = (
    collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator, collections.abc.AsyncIterator,
    collections.abc.AsyncIterable, collections.abc.AsyncGenerator, collections.abc.Sequence, list, tuple,
)  # fmt: skip
_LAZY = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
"""An input so annotated is read as the callable asks for it; any other list is in memory as a whole."""
_ASYNC = (collections.abc.AsyncIterator, collections.abc.AsyncIterable, collections.abc.AsyncGenerator)
_MAPPINGS = (dict, collections.abc.Mapping)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class StepBinding:
    """A service step's callable, ready to be called.

    For each value: `accepts` says whether the step takes it or lets it pass by (contract 12.2); `call` converts it and
    calls; each result goes through `finish`, which gives the instance that flows on, or the `ItemReject` as it is.
    `takes_json` and `classes` are how the callable wants its input.
    """

    index: int
    name: str
    callable: Callable[..., Any]
    kind: StepKind
    takes_context: bool
    accepts: Callable[[object], bool]
    to_input: Callable[[Any], Any]
    finish: Callable[[Any], Any]

    def call(self, value: object, context: StepContext | None) -> Any:
        """A result, an awaitable, an iterator or an async iterator, by `kind`. Raises PayloadError, and its own."""
        argument = self.to_input(value)
        return self.callable(argument, context) if self.takes_context else self.callable(argument)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a callable says of itself. `input` and `output` are annotations, None where there is none."""

    kind: StepKind
    takes_context: bool
    input: Any
    output: Any


def bind(
    definition: PipelineDefinition, types: TypeRegistry, functions: Mapping[str, Callable[..., Any]]
) -> dict[int, StepBinding]:
    """Bind callables by step name, without a pipeline file.

    Raises DefinitionError: a step without callable, a name that is no step, or a callable that does not fit.
    """
    steps = [step for step in definition.steps if isinstance(step, StepDefinition)]
    problems = [
        Problem("bind", 0, name, "no service step has this name")
        for name in functions
        if name not in [step.name for step in steps]
    ]
    signatures: dict[int, Signature] = {}
    for step in steps:
        try:
            if step.name not in functions:
                raise ValueError("no callable is bound to this step")
            signatures[step.index] = prepare(step, types, functions[step.name])
        except ValueError as error:
            problems.append(Problem("bind", 0, step.name, str(error)))
    if problems:
        raise DefinitionError(problems)
    return {
        step.index: finish_binding(step, types, functions[step.name], signatures[step.index], _admitted(step, types))
        for step in steps
    }


def _admitted(step: StepDefinition, types: TypeRegistry) -> Collection[str] | None:
    union = types.unions.get(step.input_type)
    if step.arms is None or union is None:
        return None if step.arms is None else (step.input_type,)
    return [kind for arm, kind in union.arms.items() if arm in step.arms]


def prepare(step: StepDefinition, types: TypeRegistry, function: Callable[..., Any]) -> Signature:
    """Check a callable and bind the classes of its annotations. Raises ValueError saying what does not fit."""
    signature = inspect_callable(function)
    _check_kind(step, signature)
    bind_classes(types, step.input_type, signature.input, "input")
    bind_classes(types, step.output_type, item_of(signature.output), "output")
    return signature


def finish_binding(
    step: StepDefinition,
    types: TypeRegistry,
    function: Callable[..., Any],
    signature: Signature,
    admitted: Collection[str] | None,
) -> StepBinding:
    """The binding, once every callable of the pipeline has had its classes bound.

    `admitted`: the record types the step takes, None for everything that can arrive.
    """
    return StepBinding(
        step.index,
        step.name,
        function,
        signature.kind,
        signature.takes_context,
        _acceptor(admitted, types),
        _input_converter(step, types, signature.input),
        finisher(f"step {step.name!r}", step.output_type, types),
    )


def inspect_callable(function: Callable[..., Any]) -> Signature:
    """Raises ValueError: not callable, or its parameters are not (value) or (value, context)."""
    if not callable(function):
        raise ValueError(f"{type(function).__name__} is not callable; a function is wanted")
    target = function if inspect.isroutine(function) or isinstance(function, type) else function.__call__  # type: ignore[operator]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise ValueError("its parameters cannot be read; wrap it in a function") from None
    hints = _hints(target, function)
    positional = [it for it in parameters if it.kind in _POSITIONAL]
    required = [it for it in positional if it.default is inspect.Parameter.empty]
    keywords = [
        it.name
        for it in parameters
        if it.kind is inspect.Parameter.KEYWORD_ONLY and it.default is inspect.Parameter.empty
    ]
    if not positional or len(required) > 2 or keywords:
        raise ValueError("must take (value) or (value, context), and nothing else that is required")
    takes_context = len(required) == 2 or (len(positional) > 1 and positional[1].name == "context")
    return Signature(_kind(target), takes_context, hints.get(positional[0].name), hints.get("return"))


@dataclass(frozen=True, slots=True)
class ProjectorSignature:
    """What a projector says of itself; annotations as in `Signature`."""

    request: Any
    completion: Any
    output: Any

    @property
    def wants_json(self) -> bool:
        """Whether it takes the completion as plain JSON."""
        return _wants_json(self.completion)

    def takes(self, transport: str | type) -> bool:
        """Whether it takes values of this class, or of this scalar; without annotation everything is taken."""
        members = union_members(self.completion)
        if self.completion is None or Any in members or self.wants_json:
            return True
        cls = SCALARS[transport].python if isinstance(transport, str) else transport
        return any(isinstance(member, type) and issubclass(cls, member) for member in members)


def inspect_projector(function: Callable[..., Any]) -> ProjectorSignature:
    """Raises ValueError: not callable, not a plain function, or its parameters are not (request, completion)."""
    if not callable(function):
        raise ValueError(f"{type(function).__name__} is not callable; a function is wanted")
    target = function if inspect.isroutine(function) or isinstance(function, type) else function.__call__  # type: ignore[operator]
    if getattr(function, "__name__", "") == "<lambda>":
        raise ValueError("a projector has a name of its own: it is pinned in every interaction that waits for it")
    if _kind(target) is not StepKind.FUNCTION:
        raise ValueError("a projector is a plain function: it runs while the answer is decided, and waits for nothing")
    try:
        signature = inspect.signature(function)
        signature.bind(None, None)
    except (TypeError, ValueError):
        raise ValueError("a projector takes (request, completion), and nothing else that is required") from None
    hints = _hints(target, function)
    first, second = (hints.get(name) for name in list(signature.parameters)[:2])
    return ProjectorSignature(first, second, hints.get("return"))


def _hints(target: Callable[..., Any], function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function if isinstance(function, type) else inspect.unwrap(target))
    except (NameError, TypeError) as error:
        if isinstance(error, NameError):
            raise ValueError(f"its annotations name {error.name}, which its module does not have") from None
        return {}


def _kind(target: Callable[..., Any]) -> StepKind:
    function = inspect.unwrap(target)
    if inspect.isasyncgenfunction(function):
        return StepKind.ASYNC_GENERATOR
    if inspect.iscoroutinefunction(function):
        return StepKind.ASYNC_FUNCTION
    if inspect.isgeneratorfunction(function):
        return StepKind.GENERATOR
    return StepKind.FUNCTION


def _check_kind(step: StepDefinition, signature: Signature) -> None:
    generates = signature.kind in (StepKind.GENERATOR, StepKind.ASYNC_GENERATOR)
    if generates and not step.expands:
        raise ValueError(f"a generator gives many values, and the step is {step.cardinality}")
    if typing.get_origin(signature.input) in _ASYNC:
        raise ValueError("its input is no async iterator; Iterable or list gives the items of a list")
    if is_many(signature.input) and not step.joins:
        raise ValueError(f"it takes many values, and the step is {step.cardinality}, which is called for each")
    if step.inline and signature.kind is not StepKind.FUNCTION:
        raise ValueError(f"an inline step is a plain function, and this is an {signature.kind}")


def item_of(annotation: Any) -> Any:
    """What a generator, or a function that returns many, gives one by one."""
    origin = typing.get_origin(annotation)
    if origin in _WRAPPERS or (origin is not None and origin in (collections.abc.Awaitable, collections.abc.Coroutine)):
        arguments = typing.get_args(annotation)
        position = 2 if origin is collections.abc.Coroutine else 0
        return item_of(arguments[position]) if len(arguments) > position else None
    return annotation


def bind_classes(types: TypeRegistry, type_name: str, annotation: Any, side: str) -> None:
    """Let the classes of an annotation stand for their types. Raises ValueError."""
    if is_many(annotation):
        annotation = item_of(annotation)
    concrete = types.concrete(type_name)
    for cls in (it for it in record_classes(annotation) if it is not ItemReject and it is not StepContext):
        wanted = types.bound_to(cls)
        if wanted not in concrete:
            wanted = concrete[0] if len(concrete) == 1 else cls.__name__
        if wanted not in concrete:
            names = ", ".join(concrete)
            raise ValueError(f"{side} {cls.__qualname__} is no arm of {type_name}; name the class as its type: {names}")
        types.bind(wanted, cls)


def is_many(annotation: Any) -> bool:
    return typing.get_origin(annotation) in _WRAPPERS


def _acceptor(admitted: Collection[str] | None, types: TypeRegistry) -> Callable[[object], bool]:
    if admitted is None:
        return lambda value: True
    type_of = types.type_of
    return lambda value: type_of(value) in admitted


def _input_converter(step: StepDefinition, types: TypeRegistry, annotation: Any) -> Callable[[Any], Any]:
    if step.joins:
        one = input_converter(step.input_type, types, item_of(annotation) if is_many(annotation) else None)
        if typing.get_origin(annotation) in _LAZY:
            return lambda values: map(one, values)
        return lambda values: [one(value) for value in values]
    return input_converter(step.input_type, types, annotation)


def input_converter(type_name: str, types: TypeRegistry, annotation: Any) -> Callable[[Any], Any]:
    """From a value of `type_name` to what the parameter with this annotation takes."""
    if _wants_json(annotation):
        return types.encoder(type_name)
    wanted = {types.bound_to(cls): cls for cls in record_classes(annotation)}
    others = {kind: cls for kind, cls in wanted.items() if kind and types.model(kind) is not cls}
    if not others:
        return types.converter(type_name) if not wanted else _unless(tuple(wanted.values()), type_name, types)
    readers = {kind: (cls, types.converter_to(kind, cls), types.encoder(kind)) for kind, cls in others.items()}

    def convert(value: Any) -> Any:
        kind = types.type_of(value)
        if kind not in readers:
            return value
        cls, read, write = readers[kind]
        return value if isinstance(value, cls) else read(write(value))

    return convert


def _wants_json(annotation: Any) -> bool:
    members = union_members(annotation)
    return any(member in _MAPPINGS or typing.get_origin(member) in _MAPPINGS for member in members)


def _unless(classes: tuple[type, ...], type_name: str, types: TypeRegistry) -> Callable[[Any], Any]:
    """Instances pass untouched: the usual case, and the cheap one."""
    convert = types.converter(type_name)
    return lambda value: value if isinstance(value, classes) else convert(value)


def finisher(name: str, type_name: str, types: TypeRegistry) -> Callable[[Any], Any]:
    """From what the callable of that name gave to the instance of `type_name` that flows on."""
    convert = types.converter(type_name)
    concrete = frozenset(types.concrete(type_name))
    type_of = types.type_of

    def finish(result: Any) -> Any:
        if type_of(result) in concrete or isinstance(result, ItemReject):
            return result
        if isinstance(result, dict):
            return convert(result)
        if is_message(result):
            return convert(outgoing(result))
        raise PayloadError(f"{name} gave {type(result).__name__} where {type_name} is declared")

    return finish
