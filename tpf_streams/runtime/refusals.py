"""Why a question about an application has no answer. By type, so that each way in can say it in its own words."""

from __future__ import annotations

from tpf_streams.errors import TpfError


class OperatorError(TpfError):
    """A question that has no answer: unknown command, bad argument, nothing that could do it."""

    code = "OPERATOR"


class NotFoundError(OperatorError):
    """There is no row of that id, or it is another tenant's, which is not told apart."""

    code = "not_found"


class DeletedError(OperatorError):
    """The execution has ended and been deleted (contract 0.18)."""

    code = "deleted"


class ElsewhereError(OperatorError):
    """The rows of `partition` are not here. `assigned`: they are about to be, this process opens the partition now;
    else another worker has them, or nobody yet. `life`: of a submission whose key is used again, the life that it is
    for; 0 for any other."""

    code = "elsewhere"

    def __init__(self, message: str, partition: int, *, assigned: bool = False, life: int = 0) -> None:
        super().__init__(message)
        self.partition = partition
        self.assigned = assigned
        self.life = life


class UndecidedError(OperatorError):
    """No outcome in time; it may still come true."""

    code = "undecided"


class NotFinishedError(OperatorError):
    """The execution has no result yet."""

    code = "not_finished"


class FailedError(OperatorError):
    """The execution has failed, and never has a result."""

    code = "failed"


class TooLargeError(OperatorError):
    """An input, or an answer, over its limit."""

    code = "payload_too_large"


class MisfitError(OperatorError):
    """An input that does not convert to the pipeline's input type."""

    code = "invalid_payload"
