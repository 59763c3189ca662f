"""The steps of the replayed pipelines. Sources must go on giving what they gave: sessions check it."""

from __future__ import annotations

from typing import Any

from tpf_streams.core.step import Completion, ItemReject, Json

PROJECTED = "projected"
"""Stands for a `Completion` among the options of a scene."""
PROJECTIONS: list[Json] = []
"""What has been projected in this process."""


def elements(count: int) -> list[Any]:
    """`count` items, and a bad row behind the first one."""
    items: list[Any] = [{"n": n, "amount": "12.50"} for n in range(count)]
    return [items[0], ItemReject("payments.csv", 3, "Amount", "no decimal", "3,Ann,1e3,EUR"), *items[1:]]


def source(count: int) -> Any:
    yield from elements(count)


def step(value: object) -> object:
    return {"of": value}


def definition_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a scene as a definition takes them."""
    if options.get("completion") != PROJECTED:
        return options
    return {**options, "completion": Completion("Said", "steps:projected", lambda payload: payload, project)}


def project(request: Json, value: Any) -> tuple[object, Json]:
    PROJECTIONS.append(value)
    found = {"asked": request, "answered": value}
    return found, found
