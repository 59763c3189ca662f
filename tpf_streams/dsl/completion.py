"""What an await step speaks with its provider, where that is not the pipeline's own types (contract 1.5, 3, 12.1).

    transport: {type: kafka, inputType: pay_pb2:Payment, outputType: pay_pb2:Status, ...}   # each by its fields, or
    completion: {type: partner:Verdict, projector: steps:decided}      # the answer alone, by a function of yours

A projector takes the stored request and the transport value, and gives the output. It must be pure: it runs while the
answer is decided, and what it gives is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tpf_streams.core.step import Cardinality, Completion, Json
from tpf_streams.dsl import transport_types
from tpf_streams.dsl.bindings import ProjectorSignature, bind_classes, finisher, input_converter, inspect_projector
from tpf_streams.dsl.scalars import SCALARS
from tpf_streams.dsl.section import Section
from tpf_streams.dsl.transport_types import TransportType
from tpf_streams.dsl.type_names import TypeNames
from tpf_streams.dsl.types import TypeRegistry
from tpf_streams.errors import PayloadError


@dataclass(frozen=True, slots=True)
class Written:
    """A text, and where it stands."""

    section: Section
    key: str
    text: str

    def problem(self, message: str) -> None:
        self.section.problem(self.key, message)


@dataclass(frozen=True, slots=True)
class BoundaryKeys:
    """What an await step says of it."""

    input_type: Written | None = None
    output_type: Written | None = None
    projector: Written | None = None
    completion: bool = False
    """Whether there is a `completion`, which needs both of the latter."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The same, put together for AwaitDefinition."""

    input_type: str
    output_type: str
    to_transport: Callable[[Json], Json] | None = None
    completion: Completion | None = None


def read_boundary(body: Section, transport: Section | None, cardinality: Cardinality) -> BoundaryKeys:
    """`body`: the step's `await`; `transport`: what is in it."""
    sent, answered = (_written(transport, key) if transport else None for key in ("inputType", "outputType"))
    section, projector = body.section("completion"), None
    if section is not None:
        if answered is not None:
            answered.problem("completion.type says it already; keep one")
        answered, projector = (_written(section, key) for key in ("type", "projector"))
        section.finish()
    for found in (sent, answered):
        if found is not None and cardinality is not Cardinality.ONE_TO_ONE:
            found.problem(f"a transport type of its own has only a ONE_TO_ONE await, and this is {cardinality}")
    return BoundaryKeys(sent, answered, projector, section is not None)


def _written(section: Section, key: str) -> Written | None:
    text = section.text(key)
    return None if text is None else Written(section, key, text)


class BoundaryBuilder:
    """Of one step, in two goes: all steps bind their classes before any converter is built.

    `find` imports `package.module:name`, and raises ValueError. `prefix` stands before declared types on the wire
    (contract 1.1). Problems are reported where they were written.
    """

    def __init__(
        self,
        keys: BoundaryKeys,
        flow: tuple[str, str],
        types: TypeRegistry,
        find: Callable[[str], Any],
        prefix: str,
    ) -> None:
        self._keys = keys
        self._input, self._output = flow
        self._types = types
        self._find = find
        self._prefix = prefix
        self._sent = self._resolved(keys.input_type)
        self._answered = self._resolved(keys.output_type)
        self._projector = None if keys.projector is None else self._bound(keys.projector)

    def _resolved(self, written: Written | None) -> str | type | None:
        """The name of a declared type or scalar, or a class; None: nothing is written, or it was reported as wrong."""
        if written is None:
            return None
        if written.text in SCALARS:
            return written.text
        if ":" not in written.text:
            return TypeNames(self._types, str).resolve(written.section, written.key, written.text) or None
        try:
            found = self._find(written.text)
        except ValueError as error:
            written.problem(str(error))
            return None
        if not transport_types.is_transport_class(found):
            written.problem(f"{written.text} is neither a protobuf message nor a pydantic model nor a dataclass")
            return None
        cls: type = found
        return cls

    def _bound(self, written: Written) -> tuple[Callable[[Any, Any], Any], ProjectorSignature] | None:
        """The function, its classes bound."""
        try:
            function: Callable[[Any, Any], Any] = self._find(written.text)
            signature = inspect_projector(function)
            bind_classes(self._types, self._input, signature.request, "request")
            bind_classes(self._types, self._output, signature.output, "output")
            if isinstance(self._answered, str) and self._answered in self._types:
                bind_classes(self._types, self._answered, signature.completion, "completion")
            elif self._answered is not None and not signature.takes(self._answered):
                raise ValueError(
                    f"its second parameter is not annotated with {_called(self._answered)}, completion.type"
                )
        except ValueError as error:
            written.problem(str(error))
            return None
        return function, signature

    def build(self) -> Boundary:
        """Only what was reported is missing in it."""
        keys = self._keys
        sent, answered = self._type(keys.input_type, self._sent), self._type(keys.output_type, self._answered)
        if sent is not None and keys.input_type is not None:
            _report(keys.input_type, sent, self._input, whole=True)
        if answered is not None and keys.output_type is not None and not keys.completion:
            _report(keys.output_type, answered, self._output, whole=False)
        return Boundary(
            sent.name if sent else self._prefix + self._input,
            answered.name if answered else self._prefix + self._output,
            self._sender(sent) if sent else None,
            self._completion(answered) if answered else None,
        )

    def _type(self, written: Written | None, resolved: str | type | None) -> TransportType | None:
        if written is None or resolved is None:
            return None
        if not isinstance(resolved, str):
            try:
                return transport_types.of_class(self._types, resolved)
            except Exception as error:  # pydantic has several for a class that it can make nothing of
                written.problem(f"{written.text} cannot be read from JSON: {type(error).__name__}")
                return None
        if resolved in SCALARS:
            return transport_types.scalar(resolved)
        return transport_types.declared(self._types, resolved, self._prefix + resolved)

    def _sender(self, sent: TransportType) -> Callable[[Json], Json]:
        failed = f"Failed to normalize await payload from {self._input}"

        def to_transport(request: Json) -> Json:
            try:
                return sent.write(sent.read(request))
            except PayloadError as error:
                raise PayloadError(f"{failed}: {error}") from error
            except Exception as error:  # of the user's class; its words may hold the payload
                raise PayloadError(f"{failed}: {sent.name} raised {type(error).__name__}") from error

        return to_transport

    def _completion(self, answered: TransportType) -> Completion | None:
        written = self._keys.projector
        if not self._keys.completion:
            return Completion(answered.name, None, answered.read, self._adapter(answered))
        if written is None or self._projector is None:
            return None
        return Completion(answered.name, written.text, answered.read, self._projecting(answered, written.text))

    def _adapter(self, answered: TransportType) -> Callable[[Json, Any], tuple[object, Json]]:
        convert, encode = self._types.converter(self._output), self._types.encoder(self._output)

        def adapt(request: Json, value: Any) -> tuple[object, Json]:
            found = convert(answered.write(value))
            return found, encode(found)

        return adapt

    def _projecting(self, answered: TransportType, name: str) -> Callable[[Json, Any], tuple[object, Json]]:
        assert self._projector is not None
        function, signature = self._projector
        read, encode = self._types.converter(self._input), self._types.encoder(self._output)
        to_request = input_converter(self._input, self._types, signature.request)
        to_completion = self._completion_converter(answered, signature)
        finish = finisher(f"projector {name}", self._output, self._types)

        def project(request: Json, value: Any) -> tuple[object, Json]:
            found = finish(function(to_request(read(request)), to_completion(value)))
            return found, encode(found)

        return project

    def _completion_converter(self, answered: TransportType, signature: ProjectorSignature) -> Callable[[Any], Any]:
        if isinstance(self._answered, str) and self._answered in self._types:
            return input_converter(self._answered, self._types, signature.completion)
        return answered.write if signature.wants_json else lambda value: value


def _called(resolved: str | type) -> str:
    return SCALARS[resolved].python.__name__ if isinstance(resolved, str) else resolved.__qualname__


def _report(written: Written, found: TransportType, name: str, *, whole: bool) -> None:
    for misfit in found.misfits(name, whole):
        written.problem(misfit)
