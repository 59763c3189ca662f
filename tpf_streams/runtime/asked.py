"""What a question is about: a pipeline on its log, and the application, if one runs here that could carry it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.identity import route_of
from tpf_streams.core.interaction import InteractionRecord
from tpf_streams.core.outcome import OperatorOutcome
from tpf_streams.core.step import PipelineDefinition
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.open_log import ViewableLog
from tpf_streams.runtime.refusals import DeletedError, NotFoundError, OperatorError, UndecidedError
from tpf_streams.runtime.views import LogViews
from tpf_streams.runtime.whereabouts import Whereabouts

Arguments = Mapping[str, Any]
"""Of a command, by name. `tenantId`: rows of other tenants are not there for who asks."""

LIMIT_MAX = 10_000
REASON_CHARS = 512


class Asked:
    """`application`: a running one, which all that changes something needs."""

    def __init__(
        self, definition: PipelineDefinition, log: ViewableLog, application: Application | None, default_tenant: str
    ) -> None:
        self.definition = definition
        self.log = log
        self.views = LogViews(log, definition)
        self.default_tenant = default_tenant
        self.whereabouts = Whereabouts(log, application)
        self._application = application

    def running(self, what: str) -> Application:
        """Raises OperatorError where nothing runs that could do `what`."""
        if self._application is None:
            raise OperatorError(f"nothing runs here that could {what}")
        return self._application

    def execution(self, arguments: Arguments) -> ExecutionRecord:
        """The one that `executionId` names. Raises NotFoundError, DeletedError, ElsewhereError."""
        execution_id = str(arguments.get("executionId") or "")
        self.whereabouts.check(execution_id)
        found = self.views.execution(execution_id)
        if found is None:
            self.refuse_deleted(execution_id, arguments.get("tenantId"))
        if found is None or not is_of(arguments, found.tenant_id):
            raise NotFoundError("there is no execution of that id")
        return found

    def interaction(self, ident: str, arguments: Arguments) -> InteractionRecord:
        """Raises NotFoundError, ElsewhereError."""
        self.whereabouts.check(ident)
        found = self.views.interaction(ident)
        if found is None or not is_of(arguments, found.tenant_id):
            raise NotFoundError("there is no interaction of that id")
        return found

    def refuse_deleted(self, execution_id: str, tenant: str | None = None) -> None:
        """Raises DeletedError for an execution of which nothing is left but that it was there."""
        stone = self.views.tombstone(execution_id)
        if stone is None or tenant not in (None, stone.tenant_id) or self.views.execution(execution_id) is not None:
            return
        raise DeletedError(
            f"execution {execution_id} ended and has been deleted (pipeline.orchestrator.execution-ttl-days): "
            "nothing of it is left; submit its key again for a new one"
        )

    async def wished(self, ident: str, arguments: Arguments, wish: Callable[[Application], Awaitable[str]]) -> str:
        """What became of a wish about the execution or interaction `ident`. Raises OperatorError."""
        application = self.running("do it")
        if route_of(ident) is None or not self._concerns(ident, arguments):
            return OperatorOutcome.NOT_FOUND.value
        self.whereabouts.check(ident)
        self.refuse_deleted(ident, arguments.get("tenantId"))
        return await decided(wish(application))

    def _concerns(self, ident: str, arguments: Arguments) -> bool:
        found = self.views.execution(ident) or self.views.interaction(ident)
        return found is None or is_of(arguments, found.tenant_id)


async def decided(wish: Awaitable[str]) -> str:
    """The outcome of what has been asked. Raises UndecidedError."""
    try:
        return str(await wish)
    except TimeoutError:
        raise UndecidedError("no outcome in time; it may still come true: look with status") from None


def is_of(arguments: Arguments, tenant_id: str) -> bool:
    return arguments.get("tenantId") in (None, tenant_id)


def reason_in(arguments: Arguments) -> str:
    return str(arguments.get("reason") or "")[:REASON_CHARS]


def limit_in(arguments: Arguments) -> int:
    limit = arguments.get("limit", 50)
    if not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise OperatorError(f"limit: 1 to {LIMIT_MAX} is wanted")
    return limit
