"""The names of what may go wrong: rows of the table that the simulation prints."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TypeAlias


class Fault(StrEnum):
    CRASH_BEFORE_COMMIT = "crash before commit"
    CRASH_AFTER_COMMIT = "crash after commit, before effects"
    UNKNOWN_HELD = "commit outcome unknown, held"
    UNKNOWN_NOT_HELD = "commit outcome unknown, not held"
    RESULT_LOST = "effect done, result lost"
    DUPLICATE = "completion duplicated"
    REORDERED = "completion reordered"
    LATE = "completion late"
    EARLY = "completion early"
    BAD_TOKEN = "completion with a bad token"
    OTHER_TENANT = "completion of another tenant"
    MIXED_IDS = "completion with mixed ids"
    CONFLICT = "completion with another payload"
    BAD_PAYLOAD = "completion of a wrong type"
    POISON = "record that is no completion"
    SILENT = "provider silent"
    PROVIDER_RESTART = "provider restarts, reads again"
    CLOCK_JUMP = "clock jump"
    REBALANCE = "rebalance in mid-unit"
    ZOMBIE = "zombie goes on"
    OUTAGE = "outage, answers pile up"
    OPEN_FAILED = "opening a task failed"
    ROUTER_CRASH = "router commit lost"
    SESSION_CANCELLED = "session cancelled"
    OPERATOR_CANCEL = "operator cancels"
    REDRIVE = "operator redrives"
    SOURCE_CHANGED = "source changed"
    STEP_RAISED = "step raised"
    DECISION_RAISED = "decision raised"
    SEND_FAILED = "dispatch failed"
    PUBLISH_FAILED = "publish failed"
    UNSYNCED_LOST = "machine crash, unsynced lost"
    SUBMITTED_TWICE = "submitted twice"


ABSENT = "ABSENT"
"""Beside the statuses of interactions: there is no row."""

Table: TypeAlias = Counter[tuple[Fault, str]]
"""How often a fault met interactions in a status."""
