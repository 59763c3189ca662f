"""Whether values can flow from step to step, and which union arms each step takes (contract 12.2).

Followed is the set of record types that can be on their way. A step takes those its input type admits; the others pass
by. So the arms of a union part at the steps that take one each, and meet again at a step that takes what these give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tpf_streams.dsl.types import TypeRegistry


@dataclass(frozen=True, slots=True)
class Stop:
    """One step as routing sees it. `accepts`: arm names, where the step says them itself."""

    name: str
    input_type: str
    output_type: str
    awaits: bool
    terminal: bool
    accepts: tuple[str, ...] | None
    joins: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """What a step takes of what can arrive: everything, when both are None, else these arms, of these record types."""

    arms: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None


def route(stops: Sequence[Stop], types: TypeRegistry, problem: Callable[[int, str, str], None]) -> list[Way]:
    """The way through each step. `problem` is told (step position, key, what does not fit)."""
    flowing: dict[str, str] = {}  # record type -> the arm it came as, or its own name
    ways: list[Way] = []
    for position, stop in enumerate(stops):
        tell = partial(problem, position)
        admitted = _admitted(stop, types, tell)
        if position == 0:
            flowing = _outputs(stop.input_type, types)
        taken = [kind for kind in flowing if kind in admitted]
        passing = [kind for kind in flowing if kind not in admitted]
        _check(stop, taken, passing, flowing, tell)
        ways.append(Way(tuple(flowing[kind] for kind in taken), tuple(taken)) if passing else Way())
        flowing = {kind: flowing[kind] for kind in passing} | _outputs(stop.output_type, types)
    return ways


def _outputs(type_name: str, types: TypeRegistry) -> dict[str, str]:
    union = types.unions.get(type_name)
    return {kind: arm for arm, kind in union.arms.items()} if union else {type_name: type_name}


def _admitted(stop: Stop, types: TypeRegistry, problem: Callable[[str, str], None]) -> list[str]:
    if stop.accepts is None:
        return list(types.concrete(stop.input_type))
    union = types.unions.get(stop.input_type)
    if union is None:
        problem("accepts", f"{stop.input_type} is no union, so it has no arms to choose from")
        return [stop.input_type]
    for arm in stop.accepts:
        if arm not in union.arms:
            problem("accepts", f"{arm!r} is no arm of {union.name}: {', '.join(union.arms)}")
    return [kind for arm, kind in union.arms.items() if arm in stop.accepts]


def _check(
    stop: Stop, taken: list[str], passing: list[str], flowing: dict[str, str], problem: Callable[[str, str], None]
) -> None:
    if not flowing:
        return  # the type before it has no arm left, which is told where it is declared
    if not taken:
        problem("input", f"no step before it gives {stop.input_type}; what can arrive here is {', '.join(flowing)}")
    elif passing and stop.terminal:
        problem("input", f"the last step must take everything, and {_named(passing, flowing)} would pass it by")
    elif passing and stop.awaits:
        problem("input", f"an await step takes everything, and {_named(passing, flowing)} would pass it by")
    elif passing and stop.joins:
        said = "a step that takes many together takes everything"
        problem("input", f"{said}, and {_named(passing, flowing)} would pass it by")


def _named(kinds: list[str], flowing: dict[str, str]) -> str:
    return ", ".join(kind if flowing[kind] == kind else f"{kind} (arm {flowing[kind]})" for kind in kinds)
