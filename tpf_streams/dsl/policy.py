"""Rules between settings and the pipeline that they start (contract 0.19, 0.2, 0.13, 0.17)."""

from __future__ import annotations

from collections.abc import Sequence

from tpf_streams.core.step import Parallelism
from tpf_streams.dsl.report import Report
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.steps import AwaitKeys, ParsedStep
from tpf_streams.dsl.tenancy import check_tenancy
from tpf_streams.dsl.transports import NEEDS_SECRET

MODE = "pipeline.orchestrator.mode"
STRICT = "pipeline.orchestrator.strict-startup"
POLICY = "pipeline.orchestrator.idempotency-policy"
SECRET = "pipeline.orchestrator.resume-token-secret"
PREVIOUS = "pipeline.orchestrator.resume-token-previous-secrets"
_SECRET_VARIABLE = "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"
_SECRET_BYTES = 16


def check(settings: Settings, steps: Sequence[ParsedStep], report: Report, file: str, require_secret: bool) -> None:
    awaits = [step.awaits for step in steps if step.awaits is not None]
    _check_mode(settings, bool(awaits), report)
    _check_idempotency(settings, bool(awaits), report)
    _check_enabled(settings, awaits, report)
    _check_secret(settings, steps, report, file, require_secret)
    check_tenancy(settings, report)
    _tell(settings, awaits, report, file)


def _problem(settings: Settings, key: str, report: Report, message: str) -> None:
    given = settings.given(key)
    if given is not None:
        given.problem(report, message)


def _check_mode(settings: Settings, awaits: bool, report: Report) -> None:
    if awaits and settings.text(MODE) == "SYNC":
        _problem(settings, MODE, report, "Await steps require pipeline.orchestrator.mode=QUEUE_ASYNC.")


def _check_idempotency(settings: Settings, awaits: bool, report: Report) -> None:
    """The reference refuses its own default under its own strict start; we do so only where strictness is asked for."""
    strict = settings.is_given(STRICT) and settings.flag(STRICT)
    queue = awaits or settings.text(MODE) == "QUEUE_ASYNC"
    if strict and queue and settings.text(POLICY) == "OPTIONAL_CLIENT_KEY":
        message = f"true refuses the default policy: set {POLICY}=CLIENT_KEY_REQUIRED or SERVER_KEY_ONLY"
        _problem(settings, STRICT, report, message)


def _check_enabled(settings: Settings, awaits: Sequence[AwaitKeys], report: Report) -> None:
    for key, transport in (
        ("tpf.await.kafka.reactive-messaging.enabled", "kafka"),
        ("tpf.await.sqs.poller.enabled", "sqs"),
    ):
        declared = any(it.transport is not None and it.transport.type == transport for it in awaits)
        if declared and settings.is_given(key) and not settings.flag(key):
            message = f"false, while a step declares a {transport} transport, which enables it; leave the key out"
            _problem(settings, key, report, message)


def needs_secret(step: ParsedStep) -> bool:
    """Whether requests of the step carry a token, or its completions need one."""
    keys = step.awaits
    if keys is None:
        return False
    return keys.require_token or (keys.transport is not None and keys.transport.type in NEEDS_SECRET)


def _check_secret(
    settings: Settings, steps: Sequence[ParsedStep], report: Report, file: str, require_secret: bool
) -> None:
    step = next((step for step in steps if needs_secret(step)), None)
    secret = settings.text(SECRET)
    if secret is None and step is not None:
        given = settings.given(SECRET)
        message = (
            f"must be configured for signed await resume tokens, which {step.name!r} needs; it is missing or blank: "
            f"set {_SECRET_VARIABLE}"
        )
        if not require_secret:
            report.notes.append(f"{SECRET}: {message}")
        elif given is not None:
            given.problem(report, message)
        else:
            report.problem(file, step.section.line, SECRET, message)
    if secret is not None and len(secret.encode()) < _SECRET_BYTES:
        report.warnings.append(f"{SECRET} has less than {_SECRET_BYTES} bytes; a longer one is harder to guess")
    if secret is None and settings.texts(PREVIOUS):
        _problem(settings, PREVIOUS, report, f"verifies beside {SECRET}, which is missing")
    if settings.is_given("pipeline.id-secret") and settings.text("pipeline.id-secret") is None:
        _problem(settings, "pipeline.id-secret", report, "blank; give it a value or leave it out")


def _tell(settings: Settings, awaits: Sequence[AwaitKeys], report: Report, file: str) -> None:
    transport = settings.given("pipeline.transport")
    if transport is not None and settings.text("pipeline.transport") != "LOCAL":
        report.notes.append(f"{transport.where}: pipeline.transport: accepted; the pipeline runs LOCAL for now")
    if any(not it.require_token for it in awaits) and settings.text("pipeline.id-secret") is None:
        report.notes.append(
            f"{file}: pipeline.id-secret: not set, and completions need no token: who knows tenant, pipeline and key "
            "of an execution can compute its ids and answer in another's place"
        )
    endpoints = [it.transport.endpoint for it in awaits if it.transport is not None and it.transport.endpoint]
    if endpoints and settings.flag("pipeline.await-admission.enabled"):
        report.notes.append(f"{file}: pipeline.await-admission: the budget is counted per worker process")
    for keys in awaits:
        spec = keys.transport
        if spec is not None and spec.type == "webhook" and "callback" not in spec.options:
            report.notes.append(f"{file}: await.transport.callback: none; the partner must know where to answer")
    if settings.text("pipeline.parallelism") == Parallelism.SEQUENTIAL and settings.is_given(
        "pipeline.max-concurrency"
    ):
        report.notes.append(
            f"{file}: pipeline.parallelism: SEQUENTIAL keeps one item in flight, whatever max-concurrency"
        )
