"""The one exception tree.

Whether a failure may be tried again is part of its type: `RetryableError` says yes, `TerminalError` says no.
Anything else that user code raises is treated as retryable, because most outside failures pass.
Every error carries a `code`, the stable name that rows, dead letters and HTTP answers show.
"""

from __future__ import annotations

from dataclasses import dataclass


class TpfError(Exception):
    """Base of every error raised on purpose by this package."""

    code = "ERROR"


class RetryableError(TpfError):
    """The same call may succeed later."""

    code = "RETRYABLE"


class TerminalError(TpfError):
    """Trying again cannot help; an execution that meets it is FAILED with `code`."""

    code = "TERMINAL"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class CsvStructureError(TerminalError):
    """A file whose structure is broken (contract 0.15): nothing of it is dispatched."""

    code = "CSV_STRUCTURE"


class SourceChangedError(TerminalError):
    """A source gave other items, or other bytes, than the ones already recorded (architecture, Restore)."""

    code = "SOURCE_CHANGED"


class SourceUnreadableError(RetryableError):
    """The object behind an execution cannot be read now; FAILED with this code when retries end."""

    code = "SOURCE_UNREADABLE"


class PublishError(RetryableError):
    """The output object could not be written now."""

    code = "PUBLISH_FAILED"


class OutputExistsError(TerminalError):
    """`onExisting: fail` and the output name belongs to another execution (contract 0.16)."""

    code = "OUTPUT_EXISTS"


class PayloadError(TerminalError):
    """A value does not convert to the declared type. Admission answers `invalid_payload`."""

    code = "INVALID_PAYLOAD"


class JsonPolicyError(TpfError):
    """Bytes that break the one JSON policy (contract 0.6). Names the reason, never the content."""

    code = "INVALID_JSON"


class EnvelopeError(TpfError):
    """A completion envelope that is not one (contract 1.2)."""

    code = "invalid_envelope"


class TokenError(TpfError):
    """A resume token that is refused (contract section 2). The message never holds the token."""

    code = "resume_token_rejected"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a pipeline or its settings: where, and what is allowed."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.message}"


class DefinitionError(TpfError):
    """A pipeline or setting that does not validate. `problems` lists every one found."""

    code = "INVALID_DEFINITION"

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class LogError(TpfError):
    """Base of what a `Log` adapter raises."""

    code = "LOG"


class LogOwnedError(LogError):
    """Another process owns this data directory."""

    code = "LOG_OWNED"


class LogCorruptError(LogError):
    """The journal cannot be read; nothing is guessed."""

    code = "LOG_CORRUPT"


class LogMismatchError(LogError):
    """The log was made by another application, with other partitions, or by another version."""

    code = "LOG_MISMATCH"


class LogFailedError(LogError):
    """A write to the journal failed; nothing more is accepted until it is opened again."""

    code = "LOG_FAILED"


class TaskLostError(LogError):
    """A commit failed, was fenced, or its outcome is unknown: close the task and open it anew (architecture D3)."""

    code = "TASK_LOST"


class BackPressureError(RetryableError):
    """A bounded buffer is full; try again later."""

    code = "BACK_PRESSURE"
