"""The steps of the replayed pipelines. Sources must go on giving what they gave: sessions check it."""

from __future__ import annotations

from typing import Any

from tpf_streams.core.step import ItemReject


def elements(count: int) -> list[Any]:
    """`count` items, and a bad row behind the first one."""
    items: list[Any] = [{"n": n, "amount": "12.50"} for n in range(count)]
    return [items[0], ItemReject("payments.csv", 3, "Amount", "no decimal", "3,Ann,1e3,EUR"), *items[1:]]


def source(count: int) -> Any:
    yield from elements(count)


def step(value: object) -> object:
    return {"of": value}
