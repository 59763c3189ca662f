"""What is asked about executions: begin one, where it stands, what it gave, end it, let it go on."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from tpf_streams.core.execution import ExecutionRecord, ExecutionStatus
from tpf_streams.core.json_policy import canonical, row_bytes
from tpf_streams.core.outcome import SubmitOutcome
from tpf_streams.core.step import Json
from tpf_streams.errors import PayloadError
from tpf_streams.runtime.application import Application
from tpf_streams.runtime.asked import Arguments, Asked, decided, limit_in, reason_in
from tpf_streams.runtime.refusals import (
    ElsewhereError,
    FailedError,
    MisfitError,
    NotFinishedError,
    NotFoundError,
    OperatorError,
    TooLargeError,
)
from tpf_streams.runtime.views import Answer

KEY_CHARS_MAX = 1_024
"""Of a client's key: it stands in rows and in every lifecycle event that begins an execution."""


class ExecutionQuestions:
    """Answers by command name."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.commands = {
            "status": self.status,
            "submit": self.submit,
            "execution": self.execution,
            "result": self.result,
            "redrive": self.redrive,
        }

    async def status(self, arguments: Arguments) -> Answer:
        """All of them, or one as far as it can be seen from here."""
        execution_id = arguments.get("executionId")
        if execution_id is None:
            return await self._asked.views.status(limit_in(arguments))
        found = self._asked.views.detail(str(execution_id))
        if found is None:
            self._asked.refuse_deleted(str(execution_id))
            raise NotFoundError("there is no execution of that id")
        return found

    async def execution(self, arguments: Arguments) -> Answer:
        """One, as its owner knows it."""
        return self._asked.views.summary(self._asked.execution(arguments))

    async def submit(self, arguments: Arguments) -> Answer:
        """Begin an execution of `payload`, or meet the one that has its key: `key`, or else one made of the payload.

        Answered when the execution is there. `life`: as the home of the key's first life has said (ElsewhereError).
        Raises OperatorError.
        """
        application = self._asked.running("begin an execution")
        payload, tenant = arguments.get("payload"), arguments.get("tenantId") or self._asked.default_tenant
        key = arguments.get("key") or server_key(tenant, payload)
        if len(key) > KEY_CHARS_MAX:
            raise OperatorError(f"an idempotency key has at most {KEY_CHARS_MAX} characters")
        self._check_input(application, payload)
        life = arguments.get("life") or 0
        execution_id = application.execution_id(key, tenant, life=life)
        self._asked.whereabouts.check(execution_id)
        if life == 0:
            await self._send_on(application, payload, key, tenant)
        outcome = await decided(application.submit_and_wait(payload, key=key, tenant=tenant, life=life))
        if life == 0:
            execution_id = application.execution_id(key, tenant, life=self._life(application, key, tenant))
        found = self._asked.views.execution(execution_id)
        return {
            "outcome": outcome,
            "executionId": execution_id,
            "duplicate": outcome != SubmitOutcome.SUBMITTED,
            "submittedAtEpochMs": None if found is None else found.created_at_epoch_ms,
        }

    def _life(self, application: Application, key: str, tenant: str) -> int:
        """That the key has now, or is going to begin (contract 0.18)."""
        stone = self._asked.views.tombstone(application.execution_id(key, tenant))
        return 0 if stone is None else stone.next_life

    async def _send_on(self, application: Application, payload: Json, key: str, tenant: str) -> None:
        """Where another worker has the life that the key has now, the outcome would be told there. The home of the
        first life is told first, since it remembers which life is the last; who asks then asks that worker.

        Raises ElsewhereError with the life.
        """
        life = self._life(application, key, tenant)
        try:
            self._asked.whereabouts.check(application.execution_id(key, tenant, life=life))
        except ElsewhereError as error:
            if not error.assigned:
                await application.submit(payload, key=key, tenant=tenant)
            raise ElsewhereError(str(error), error.partition, assigned=error.assigned, life=life) from None

    def _check_input(self, application: Application, payload: Json) -> None:
        """So that who sends it learns now what its execution would fail of. Raises OperatorError."""
        definition, limits = self._asked.definition, self._asked.definition.limits
        if definition.ingests_objects:
            raise OperatorError("this pipeline works on the objects of its source: put the object there")
        listed = definition.takes_list_input
        limit = limits.max_aggregate_bytes if listed else limits.max_payload_bytes
        try:
            if row_bytes(payload) > limit:
                raise TooLargeError(f"the input is over {limit} bytes")
            application.check_input(payload)
        except PayloadError as error:
            raise MisfitError(str(error)) from None

    async def result(self, arguments: Arguments) -> Answer:
        """What it gave: `outputs` from item `start` on, and `next`, where there is more. `listed`: whether a whole
        result is the list of all of them, or the one there is."""
        execution = self._asked.execution(arguments)
        if execution.status is not ExecutionStatus.SUCCEEDED:
            _refuse_without_result(execution)
        steps, streams = self._asked.definition.steps, self._asked.definition.course.streams
        start = arguments.get("start", 0)
        if type(start) is not int or start < 0:
            raise OperatorError("start: the number of an item is wanted, from 0")
        listed = any(stream.end == len(steps) for stream in streams)
        outputs, following = self._asked.views.outputs(execution.execution_id, start)
        return {"listed": listed, "outputs": outputs, "next": following}

    async def redrive(self, arguments: Arguments) -> Answer:
        """A failed execution goes on where it failed (contract 0.14)."""
        version, allowed = arguments.get("expectedVersion"), arguments.get("allowFailed", True)
        if not (version is None or type(version) is int) or type(allowed) is not bool:
            raise OperatorError("expectedVersion: a whole number; allowFailed: true or false")
        execution_id, reason = str(arguments.get("executionId") or ""), reason_in(arguments)

        async def redriven(application: Application) -> str:
            return await application.redrive(
                execution_id, expected_version=version, allow_failed=allowed, reason=reason
            )

        return {"outcome": await self._asked.wished(execution_id, arguments, redriven)}


def server_key(tenant: str, payload: Json) -> str:
    """The key of an execution whose client gave none (contract 4.4): the same input again is the same execution."""
    digest = hashlib.sha256(tenant.encode() + b":" + canonical(payload)).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _refuse_without_result(execution: ExecutionRecord) -> Any:
    if not execution.status.terminal:
        raise NotFinishedError(f"the execution is {execution.status}")
    raise FailedError(f"{execution.error_code}: {execution.error_message}")
