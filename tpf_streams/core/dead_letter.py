"""What operators are told of an execution that failed for good (contract section 14)."""

from __future__ import annotations

from enum import StrEnum

from tpf_streams.core.execution import ExecutionRecord
from tpf_streams.core.step import Json

RESOURCE_TYPE = "tpf.orchestrator.execution"
RESOURCE_NAME = "OrchestratorService/Run"


class TerminalReason(StrEnum):
    """Why it is over. There is no circuit breaker here, so its reason of the contract never comes."""

    RETRY_EXHAUSTED = "retry_exhausted"
    NON_RETRYABLE = "non_retryable"
    UNREPORTED = ""
    """No dead letter: a time-out of an await, a continuation of an item that failed, and what an operator cancels."""


def reason_of(*, retryable: bool) -> TerminalReason:
    return TerminalReason.RETRY_EXHAUSTED if retryable else TerminalReason.NON_RETRYABLE


def dead_letter(execution: ExecutionRecord, reason: TerminalReason) -> dict[str, Json]:
    """The DeadLetterEnvelope of a failed execution, in the contract's order, with the traceback at its end.

    Everything runs LOCAL and COMPUTE for now, whatever a pipeline file says (contract 0.19).
    """
    return {
        "tenantId": execution.tenant_id,
        "executionId": execution.execution_id,
        "executionKey": execution.execution_key,
        "correlationId": execution.execution_key,
        "transitionKey": f"{execution.execution_id}:{execution.current_step_index}:{execution.attempt}",
        "resourceType": RESOURCE_TYPE,
        "resourceName": RESOURCE_NAME,
        "transport": "LOCAL",
        "platform": "COMPUTE",
        "terminalStatus": "FAILED",
        "terminalReason": reason.value,
        "errorCode": execution.error_code,
        "errorMessage": execution.error_message,
        "retryable": reason is TerminalReason.RETRY_EXHAUSTED,
        "retriesObserved": execution.retries,
        "createdAtEpochMs": execution.updated_at_epoch_ms,
        "errorDetail": execution.error_detail,
    }
