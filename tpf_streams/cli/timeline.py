"""A timeline for people: a line an event, or one for many items of the same turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from tpf_streams.cli.console import out
from tpf_streams.engine.lifecycle import LifecycleEvent
from tpf_streams.runtime.replay import Part, step_index

RANGES_SHOWN = 3
STYLES = {
    "start": "bold",
    "success": "bold green",
    "error": "bold red",
    "cancelled": "bold red",
    "reject": "yellow",
    "await_unit_completed": "green",
    "await_interaction_timed_out": "red",
    "await_interaction_failed": "red",
    "await_interaction_cancelled": "yellow",
    "await_admission_acquired": "dim",
    "await_admission_released": "dim",
    "await_completion_admitted": "cyan",
}
REFUSED = "magenta"
"""Of completions that were not admitted."""


def print_timeline(document: Part, events: Sequence[LifecycleEvent], began_ms: int, *, each: bool) -> None:
    """`document`: without events. `each`: a line for every event."""
    steps = document["topology"]["steps"]
    out.print(_title(document), soft_wrap=True)
    name_width = max(len(event.name) for event in events)
    step_width = max(len(step["step"]) for step in steps)
    for group in _grouped(events, each=each):
        first = group[0]
        of_step = first.step_index is not None
        line = Text(f"{_clock(first.at_ms)}  {_since(first.at_ms - began_ms):>10}  ")
        line.append(f"{first.name:{name_width}}", style=_style(first.name))
        line.append(f"  {steps[step_index(steps, first)]['step'] if of_step else '':{step_width}}  {_items(group):18} ")
        line.append(_detail(group), style="dim")
        line.rstrip()
        out.print(line, soft_wrap=True)
    lines = f"{len(events):,} events"
    out.print(lines if each else f"{lines}; --each shows each of them, --item N those of one item", style="dim")


def _title(document: Part) -> Text:
    entries = {entry["key"]: entry["value"] for entry in document["runParameters"]["sections"][0]["entries"]}
    style = {"completed": "bold green", "failed": "bold red"}.get(document["status"], "bold")
    title = Text.assemble(
        (f"{document['pipeline']} ", "bold"),
        f"{entries['executionId']} ",
        (document["status"], style),
        f", {_since(document['durationMs'])} from {document['startedAt']}",
    )
    for name in ("source", "failureType", "failureMessage"):
        found = entries.get(name) or document.get(name)
        if found:
            title.append(f"\n  {name}: {found}")
    return title


def _grouped(events: Iterable[LifecycleEvent], *, each: bool) -> Iterator[list[LifecycleEvent]]:
    """Events of items with one name in one turn, at the place of their first; turns follow each other in time."""
    turn: dict[tuple[object, ...], list[LifecycleEvent]] = {}
    at_ms: int | None = None
    for event in events:
        if event.at_ms != at_ms:
            yield from turn.values()
            turn, at_ms = {}, event.at_ms
        alone = each or event.item_index is None
        key = (event.name, event.unit_id, event.number if alone else None)
        turn.setdefault(key, []).append(event)
    yield from turn.values()


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%H:%M:%S.") + f"{at_ms % 1000:03}"


def _since(ms: int) -> str:
    return f"{ms / 1000:,.3f} s"


def _style(name: str) -> str:
    if name.startswith("await_completion_") and name not in STYLES:
        return REFUSED
    return STYLES.get(name, "")


def _items(group: Sequence[LifecycleEvent]) -> str:
    numbers = sorted({event.item_index for event in group if event.item_index is not None})
    if not numbers:
        return ""
    ranges = list(_ranges(numbers))
    shown = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in ranges[:RANGES_SHOWN])
    more = "…" if len(ranges) > RANGES_SHOWN else ""
    word = "item" if len(numbers) == 1 else f"{len(numbers):,} items"
    return f"{word} {shown}{more}"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = before = numbers[0]
    for number in numbers[1:]:
        if number != before + 1:
            yield start, before
            start = number
        before = number
    yield start, before


def _detail(group: Sequence[LifecycleEvent]) -> str:
    """Of one event everything; of many what can be added up, or stands with the last."""
    last: dict[str, Any] = dict(group[-1].detail or {})
    if len(group) == 1:
        ids = {"interaction": group[0].interaction_id} if group[0].interaction_id else {}
        return "  ".join(f"{name} {value}" for name, value in {**last, **ids}.items() if value not in (None, ""))
    found: list[str] = []
    if "outputs" in last:
        arms = Counter(str((event.detail or {}).get("arm")) for event in group)
        found.append(f"outputs {sum((event.detail or {}).get('outputs', 0) for event in group):,}")
        found += [f"{count:,} {arm}" for arm, count in sorted(arms.items()) if arm != "None"]
    if "completedItemCount" in last:
        found.append(f"completedItemCount {last['completedItemCount']:,}")
    codes = Counter((event.detail or {}).get("errorCode") for event in group)
    found += [f"{count:,} {code}" for code, count in codes.items() if code]
    return "  ".join(found)
