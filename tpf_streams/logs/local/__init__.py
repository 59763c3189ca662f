"""The local log: one process, one database, no broker."""

from __future__ import annotations

from tpf_streams.errors import LogFailedError
from tpf_streams.logs.local.log import LocalLog
from tpf_streams.logs.local.retention import Retention
from tpf_streams.logs.local.store import JournalStore, OpenStore
from tpf_streams.logs.local.syncer import SyncMode
from tpf_streams.logs.local.task import LocalTaskLog

__all__ = ["JournalStore", "LocalLog", "LocalTaskLog", "LogFailedError", "OpenStore", "Retention", "SyncMode"]
