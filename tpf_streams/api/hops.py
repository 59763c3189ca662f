"""A request that one worker passes on to another, marked so that it is passed on once.

`x-tpf-partitions: 3@1207,5@88` names the partitions that are asked for, each with the incarnation of its task that the
asker knows of. Who is asked answers of these and of no others, or says that it cannot; it never asks a third. Its own
id in `x-tpf-worker` says that it was the one who answered: whatever else may listen at its address by now does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tpf_streams.api.problems import ProblemError
from tpf_streams.runtime.refusals import ElsewhereError

HOP_HEADER = "x-tpf-partitions"
WORKER_HEADER = "x-tpf-worker"
LIFE_HEADER = "x-tpf-life"
"""Of a submission whose key is used again (contract 0.18): the life that it is for. In an answer `partition@life`: the
home of the key's first life has taken it, and it is to be asked for there."""


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


def life_of(request: web.Request) -> int:
    """Of a submission that is asked for by its life; 0 for any other request. Raises ProblemError."""
    text = request.headers.get(LIFE_HEADER)
    try:
        return 0 if text is None else _number(text)
    except ValueError:
        raise ProblemError(400, "invalid_argument", f"{LIFE_HEADER} is for workers among themselves") from None


def life_text(error: ElsewhereError) -> str:
    return f"{error.partition}@{error.life}"


def sent_on(headers: Mapping[str, str]) -> ElsewhereError | None:
    """What an answer with the header says; None for any other answer."""
    partition, _, life = headers.get(LIFE_HEADER, "").partition("@")
    try:
        return ElsewhereError("the key is used again", _number(partition), life=_number(life))
    except ValueError:
        return None


def _number(text: str) -> int:
    """Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise ValueError("no number")
    return int(text)
