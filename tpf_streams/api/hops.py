"""A request that one worker passes on to another, marked so that it is passed on once.

`x-tpf-partitions: 3@1207,5@88` names the partitions that are asked for, each with the incarnation of its task that the
asker knows of. Who is asked answers of these and of no others, or says that it cannot; it never asks a third. Its own
id in `x-tpf-worker` says that it was the one who answered: whatever else may listen at its address by now does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tpf_streams.api.problems import ProblemError

HOP_HEADER = "x-tpf-partitions"
WORKER_HEADER = "x-tpf-worker"


Owned = Mapping[int, int]
"""Partition -> incarnation."""


def hop_text(owned: Owned) -> str:
    return ",".join(f"{partition}@{incarnation}" for partition, incarnation in sorted(owned.items()))


def hop_of(request: web.Request) -> Owned | None:
    """None for a client's own request. Raises ProblemError for what no worker would send."""
    text = request.headers.get(HOP_HEADER)
    if text is None:
        return None
    try:
        pairs = [pair.split("@") for pair in text.split(",")]
        return {_number(partition): _number(incarnation) for partition, incarnation in pairs}
    except ValueError:
        raise ProblemError(400, "invalid_argument", f"{HOP_HEADER} is for workers among themselves") from None


def _number(text: str) -> int:
    """Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise ValueError("no number")
    return int(text)
