"""How this process reaches Kafka, and the times that fencing and fail-over depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HEARTBEAT_MS = 1_000
"""Short, because a member learns only by its heartbeats that the group is being rebalanced."""
POLL_INTERVAL_MS = 2**31 - 1
"""aiokafka's own idle clock is per consumer and stops while any task polls, so it protects nobody here; a task that
hangs is the worker's to notice, and a process that hangs sends no heartbeats."""
FETCH_WAIT_MS = 50
RETRY_MS = 20
"""Back-off of a client's retries. Also bounds how long a successor waits for its predecessor's transaction: 115 to 153
ms with the client's default of 100, 20 to 24 with 10 (seen)."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """`security`: the client's own TLS and SASL arguments, passed through as they are; never logged.

    `transaction_timeout_ms`: how long a frozen worker blocks readers of its outputs; `session_timeout_ms`: how long its
    partitions stay without an owner. `replication`: of topics created here, -1 for the broker's default.
    `lifecycle_ms`, `lifecycle_bytes`: what is kept of each partition of the lifecycle topic, where it is created here.
    `readers_isolation`: of readers by group; read_uncommitted also gives what may never be committed.
    """

    bootstrap_servers: str
    application_id: str
    partitions: int = 8
    replication: int = -1
    create_topics: bool = True
    transaction_timeout_ms: int = 10_000
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 30_000
    lifecycle_ms: int = 7 * 24 * 3600 * 1000
    lifecycle_bytes: int = 256 * 1024 * 1024
    readers_isolation: str = "read_committed"
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def connection(self) -> dict[str, Any]:
        """Arguments of every client."""
        return {"bootstrap_servers": self.bootstrap_servers, "retry_backoff_ms": RETRY_MS, **self.security}

    @property
    def lifecycle_kept(self) -> dict[str, str]:
        """What the lifecycle topic is created with; an operator may change it later."""
        return {"retention.ms": str(self.lifecycle_ms), "retention.bytes": str(self.lifecycle_bytes)}

    @property
    def membership(self) -> dict[str, Any]:
        """Arguments of a consumer in a group."""
        return {
            "enable_auto_commit": False,
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": min(HEARTBEAT_MS, self.session_timeout_ms // 3),
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "max_poll_interval_ms": POLL_INTERVAL_MS,
        }
