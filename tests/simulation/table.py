"""The table of faults × interaction statuses: what met what, how often, and which cells no run can reach."""

from __future__ import annotations

from tests.simulation.words import ABSENT, Fault, Table
from tpf_streams.core.interaction import InteractionStatus

HITS_MIN = 20
COLUMNS = (ABSENT, *(status.value for status in InteractionStatus))


def unreachable(fault: Fault, status: str) -> str | None:
    """Why a cell cannot be hit, or None."""
    if status == InteractionStatus.DISPATCHING:
        return "no row is DISPATCHING: a dispatch takes it from WAITING to DISPATCHED in the turn that knows it done"
    if fault is Fault.EARLY:
        return None if status == ABSENT else "a completion is early only while there is no row"
    return "no row is no status" if status == ABSENT else None


def missing(table: Table) -> dict[tuple[Fault, str], int]:
    """Reachable cells that were hit too rarely."""
    cells = ((fault, status) for fault in Fault for status in COLUMNS if unreachable(fault, status) is None)
    return {cell: table[cell] for cell in cells if table[cell] < HITS_MIN}


def lines(table: Table) -> list[str]:
    """For people. Unreachable cells that nothing hit are dots."""
    head = " " * 36 + "".join(f"{column.lower().replace('_', ' '):>13}" for column in COLUMNS)
    rows = []
    for fault in Fault:
        cells = [_cell(table, fault, column) for column in COLUMNS]
        rows.append(f"{fault.value:36}" + "".join(f"{cell:>13}" for cell in cells))
    return [head, *rows]


def _cell(table: Table, fault: Fault, column: str) -> str:
    count = table[fault, column]
    return "·" if count == 0 and unreachable(fault, column) is not None else str(count)
