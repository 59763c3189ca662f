"""Every setting there is, in one table (contract 0.19, 0.22, 11). The documentation is printed from it."""

from __future__ import annotations

from dataclasses import replace

from tpf_streams.core.joining import INPUT_ITEMS, OUTPUT_ITEMS
from tpf_streams.dsl.setting import Family, Kind, Setting, Status

_LOG = "the log keeps the state: run with the local log, or with Kafka for several workers"
_LOG_DISPATCH = "work is dispatched by the log itself"
_DEAD_LETTERS = "dead letters go to the topic `<application-id>-dead-letters`"
_NO_WORKERS = "there are no portable transition workers; workers share the partitions of the log"
_NO_HANDOFF = "checkpoint handoff between pipelines is not supported yet"
_EARLIEST = "answers are read from the earliest one that is not done, or those given before a start were lost"
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_O = "pipeline.orchestrator."


def _text(key: str, help: str, default: str | None = None, place: str = "") -> Setting:
    return Setting(key, Kind.TEXT, help, default, place=place)


def _flag(key: str, help: str, default: str, refused: dict[str, str] | None = None) -> Setting:
    return Setting(key, Kind.FLAG, help, default, refused=refused or {})


def _count(key: str, help: str, default: int, minimum: int, maximum: int = 2**53) -> Setting:
    return Setting(key, Kind.INTEGER, help, str(default), minimum, maximum)


def _span(key: str, help: str, default: str | None, minimum: int = 0, maximum: int = 3650 * _DAY) -> Setting:
    return Setting(key, Kind.DURATION, help, default, minimum, maximum)


def _choice(
    key: str, help: str, default: str | None, choices: tuple[str, ...], place: str = "", **refused: str
) -> Setting:
    return Setting(key, Kind.CHOICE, help, default, choices=choices, refused=refused, place=place)


def _noted(key: str, why: str, kind: Kind = Kind.TEXT) -> Setting:
    return Setting(key, kind, "Accepted, without effect here.", status=Status.NOTED, why=why)


def _replaced(name: str, accepted: str, refused: str, why: str) -> Setting:
    """A provider of the reference, whose work is done otherwise here (contract 0.19)."""
    return Setting(
        _O + name, Kind.CHOICE, f"Only {accepted}, or nothing.", choices=(accepted,), refused={refused: why},
        status=Status.NOTED, why=why,
    )  # fmt: skip


_ORCHESTRATOR = (
    _choice(
        _O + "mode",
        "QUEUE_ASYNC is the default, and needed, where a step awaits; SYNC elsewhere.",
        None,
        ("QUEUE_ASYNC", "SYNC"),
    ),
    _text(_O + "pipeline-id", "Names the pipeline in ids and scopes; default: appName in kebab-case."),
    _text(_O + "default-tenant", "The tenant of a call that names none.", "default"),
    Setting(_O + "tenancy.allowed-tenants", Kind.TEXTS, "Tenants that may call; unset: all."),
    _flag(_O + "tenancy.require-explicit-tenant", "Refuse calls that name no tenant.", "false"),
    Setting(_O + "resume-token-secret", Kind.SECRET, "Signs resume tokens; keep it while interactions are open."),
    Setting(_O + "resume-token-previous-secrets", Kind.SECRETS, "Retired secrets, which still verify."),
    _choice(
        _O + "idempotency-policy",
        "Who gives an execution its key.",
        "OPTIONAL_CLIENT_KEY",
        ("OPTIONAL_CLIENT_KEY", "CLIENT_KEY_REQUIRED", "SERVER_KEY_ONLY"),
    ),
    Setting(_O + "strict-startup", Kind.FLAG, "Set to true: refuse the default idempotency policy."),
    _count(_O + "execution-ttl-days", "Days an ended execution is kept.", 7, 1, 3650),
    _count(_O + "max-retries", "Retries of a scalar execution.", 3, 0, 1000),
    _span(_O + "retry-delay", "Wait before the first retry of an execution.", "PT10S", 0, 30 * _MINUTE),
    Setting(_O + "retry-multiplier", Kind.NUMBER, "Growth of that wait.", "2.0", 1, 100),
    _span(_O + "sweep-interval", "How often deadlines and retention are looked at.", "PT30S", 1000, _HOUR),
    _count(_O + "sweep-limit", "Deadlines handled by one turn.", 100, 1, 10_000),
    _count(INPUT_ITEMS, "Items of one aggregate request; 0: no limit.", 10_000, 0),
    _count(OUTPUT_ITEMS, "Items of one aggregate answer; 0: no limit.", 10_000, 0),
    _replaced("state-provider", "memory", "dynamo", _LOG),
    _replaced("dispatcher-provider", "event", "sqs", _LOG_DISPATCH),
    _replaced("dlq-provider", "log", "sqs", _DEAD_LETTERS),
    _text(_O + "sqs.region", "Region of the SQS client."),
    _text(_O + "sqs.endpoint-override", "URL of the SQS service, for a stand-in."),
    _choice(_O + "quotas.max-in-flight-transitions-per-tenant", "Only 0, off.", None, ("0",)),
    _flag(_O + "control-plane.enabled", "Only false.", "false", {"true": "there is no hosted control plane here"}),
    _flag(_O + "admin.enabled", "Only false.", "false", {"true": "operators use the HTTP routes and tpf-streams"}),
    _noted(_O + "release-version", "releases are not told apart"),
    _noted(_O + "lease-ms", "an execution belongs to its partition's owner; there is no lease to outlive"),
    _noted(_O + "max-circuit-deferral", "there is no circuit breaker"),
    _noted(_O + "queue-url", _LOG_DISPATCH),
    _noted(_O + "dlq-url", _DEAD_LETTERS),
    _noted(_O + "sqs.poll-start-delay", _LOG_DISPATCH),
    _noted(_O + "sqs.local-loopback", _LOG_DISPATCH),
)

_PIPELINE = (
    _choice(
        "pipeline.parallelism",
        "SEQUENTIAL: one item at a time, in source order.",
        "AUTO",
        ("AUTO", "PARALLEL", "SEQUENTIAL"),
    ),
    _count(
        "pipeline.max-concurrency", "Items in flight: the window (at most 1,024) and the budget.", 128, 1, 1_000_000
    ),
    _flag("pipeline.await-admission.enabled", "The admission budget of each request endpoint.", "true"),
    _choice(
        "pipeline.await-admission.store",
        "Where the budget is counted.",
        "in-memory",
        ("in-memory",),
        dynamo="in-memory counts per worker process here",
    ),
    _noted("pipeline.await-admission.retry-wait-ms", "slots are granted by demand, nobody polls for them"),
    _noted("pipeline.max-recursive-depth", "pipelines do not nest here"),
    _choice(
        "pipeline.transport",
        "GRPC, REST and LOCAL all run LOCAL for now.",
        None,
        ("GRPC", "REST", "LOCAL"),
        place="`transport`",
    ),
    _choice(
        "pipeline.platform",
        "Only COMPUTE for now.",
        None,
        ("COMPUTE",),
        place="`platform`",
        FUNCTION="only COMPUTE is supported for now",
    ),
    _count("pipeline.defaults.retry-limit", "Retries of one call of a step.", 3, 0, 1000),
    _count("pipeline.defaults.retry-wait-ms", "Wait before the first of them.", 500, 0, _HOUR),
    _count("pipeline.defaults.max-backoff", "Longest wait between them, in ms.", 30_000, 0, _DAY),
    _flag("pipeline.defaults.jitter", "Spread those waits.", "false"),
    _flag("pipeline.defaults.recover-on-failure", "Only false.", "false", {"true": "use onItemFailure: REJECT_ITEM"}),
    _flag("pipeline.telemetry.enabled", "All of the telemetry.", "true"),
    _flag("pipeline.telemetry.metrics.enabled", "Count facts for `/metrics`.", "true"),
    _flag("pipeline.telemetry.replay.enabled", "Lifecycle events of every execution, for `replay`.", "true"),
    _choice("pipeline.telemetry.replay.exporter", "Only file.", "file", ("file",)),
    _noted("pipeline.telemetry.replay.file.path", "`tpf-streams replay EXECUTION --json` writes the document"),
    _noted("pipeline.telemetry.tracing.enabled", "spans are not exported yet", Kind.FLAG),
    _noted("pipeline.telemetry.tracing.per-item", "spans are not exported yet", Kind.FLAG),
)

_TRANSPORTS = (
    Setting("tpf.await.kafka.reactive-messaging.enabled", Kind.FLAG, "A declared kafka transport is always enabled."),
    Setting("tpf.await.sqs.poller.enabled", Kind.FLAG, "true: SQS streams are live (with the queue below)."),
    _text("tpf.await.sqs.response-queue-url", "The response queue that the poller owns."),
    _span("tpf.await.sqs.poll-start-delay", "Wait before the first poll.", "PT0S", 0, _HOUR),
    _span("tpf.await.sqs.visibility-timeout", "How long a received message is hidden.", "PT30S", 0, 43_200_000),
    _span("tpf.await.sqs.completion-timeout", "Longest admission of one message.", "PT5M", 1000, 43_200_000),
    _count("tpf.await.sqs.wait-time-seconds", "Long poll.", 1, 1, 20),
    _count("tpf.await.sqs.max-messages", "Messages a receive.", 1, 1, 10),
    _flag("tpf.checkpoint.kafka.publisher.enabled", "Only false.", "false", {"true": _NO_HANDOFF}),
    _flag("tpf.checkpoint.kafka.consumer.enabled", "Only false.", "false", {"true": _NO_HANDOFF}),
)

_OURS = (
    _text("pipeline.application-id", "Names topics, groups and folders; default: the pipeline id."),
    Setting("pipeline.id-secret", Kind.SECRET, "Key of the digest in ids, never rotated; default: the application id."),
    _count("pipeline.max-payload-bytes", "One item.", 262_144, 1024, 1_048_576),
    _count("pipeline.max-aggregate-bytes", "One aggregate request or answer.", 3_145_728, 1024, 3_145_728),
    _choice(
        "sync",
        "When a turn of the local log is on disk: before its commit returns, or soon after.",
        "commit",
        ("commit", "interval"),
    ),
    _flag("strict-envelopes", "Refuse unknown fields of a completion.", "false"),
    _choice(
        "onRowError",
        "A bad CSV row: reject it, or fail the file before the first dispatch.",
        "REJECT_ROW",
        ("REJECT_ROW", "FAIL_FILE"),
        place="`sources.<name>.onRowError`",
    ),
    _choice(
        "onItemFailure",
        "A step that fails for good: fail the execution, or reject the item.",
        "FAIL_EXECUTION",
        ("FAIL_EXECUTION", "REJECT_ITEM"),
        place="`onItemFailure`",
    ),
    _choice(
        "onExisting",
        "An output name that another execution has: a version of the name, or fail.",
        "version",
        ("version", "fail"),
        place="`publish.<name>.onExisting`",
    ),
    _choice("quirks", "Dialect of the output file.", "none", ("none", "reference"), place="`publish.<name>.quirks`"),
    _text("encoding", "Of source files.", "utf-8", place="`sources.<name>.payload.encoding`"),
    _choice(
        "await.onItemTimeout",
        "A late item: fail the unit, or reject the item.",
        "FAIL_UNIT",
        ("FAIL_UNIT", "REJECT_ITEM"),
        place="`await.onItemTimeout` of a step",
    ),
    Setting(
        "await.correlation.require-token",
        Kind.FLAG,
        "Whether completions need the resume token; default: for signedResumeToken.",
        place="`await.correlation.require-token` of a step",
    ),
    _span("await.deadline-grace", "How long deadlines wait for answers that came in time.", "PT5M", 0, _DAY),
    _choice(
        "await.arrival-time",
        "What a completion's arrival is: broker append time, or the router's read time.",
        "append",
        ("append", "read"),
    ),
    _count("await.early-rows-max", "Completions held before their row exists, a partition.", 10_000, 0, 1_000_000),
    _span("ingest.identity-ttl", "How long a deleted execution's key is remembered.", "P90D", _DAY),
    _text("publish.topic", "Output topic; default: `<application-id>-outputs`.", place="`publish.topic`"),
    _span("lifecycle.retention", "How long lifecycle events are kept, at most.", "P7D", _MINUTE),
    _count(
        "lifecycle.retention-bytes",
        "Lifecycle events kept of one partition; the oldest go first.",
        268_435_456,
        8_388_608,
        2**40,
    ),
    _count("rocksdb.memory-bytes", "RocksDB's memory, a worker.", 67_108_864, 8_388_608, 2**40),
    _count("topology.partitions", "Partitions of the internal topics, fixed at the first start.", 8, 1, 1024),
)

_HTTP = (
    _count("http.max-body-bytes", "Largest body of a request.", 4_194_304, 1024, 8_388_608),
    _count("http.max-depth", "Deepest nesting of JSON in one.", 64, 1, 64),
    _span("http.read-timeout", "How long a body may take to come.", "PT10S", 100, 5 * _MINUTE),
    _span("http.answer-timeout", "How long an outcome is waited for, before 503.", "PT5S", 100, _MINUTE),
    Setting(
        "http.bearer-tokens",
        Kind.SECRETS,
        "TENANT:PRINCIPAL:TOKEN of everyone who may call; unset: nobody is asked who he is.",
    ),
    _count("http.max-streams", "Clients that listen for changes at once.", 64, 0, 1024),
)

_KAFKA = (
    _text("kafka.bootstrap.servers", "Brokers of the kafka log, `host:port`, comma-separated.", "localhost:9092"),
    _choice(
        "kafka.security.protocol",
        "How the brokers are reached.",
        "PLAINTEXT",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    _choice(
        "kafka.sasl.mechanism",
        "With a SASL protocol.",
        "PLAIN",
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ),
    _text("kafka.sasl.username", "With a SASL protocol."),
    Setting("kafka.sasl.password", Kind.SECRET, "With a SASL protocol."),
    _text("kafka.ssl.cafile", "Authorities that sign the brokers; default: the system's."),
    _text("kafka.ssl.certfile", "This client's own certificate, where brokers ask for one."),
    _text("kafka.ssl.keyfile", "The key of that certificate."),
    Setting("kafka.ssl.password", Kind.SECRET, "The password of that key."),
    _flag("create-topics", "Create the request, response and output topics that are missing.", "true"),
    _count("topology.replication", "Replicas of topics created here; -1: the broker's default.", -1, -1, 100),
    _count("topology.topic-partitions", "Partitions of request, response and output topics created here.", 8, 1, 1024),
    Setting(
        "kafka.auto.offset.reset",
        Kind.CHOICE,
        "Only earliest, or nothing.",
        choices=("earliest",),
        refused={"latest": _EARLIEST, "none": _EARLIEST},
        status=Status.NOTED,
        why=_EARLIEST,
    ),
    _text(
        "http.advertised-url",
        "Where the other workers reach this one's HTTP API; default: host and port of its web server.",
    ),
    _span("kafka.transaction-timeout", "How long a frozen worker holds its readers up.", "PT10S", 1000, 15 * _MINUTE),
    _span("kafka.session-timeout", "How long a dead worker's partitions wait.", "PT10S", 6000, 30 * _MINUTE),
)

_NOT_YET = frozenset(
    {
        "pipeline.orchestrator.sweep-interval",
        "pipeline.orchestrator.sqs.region",
        "pipeline.orchestrator.sqs.endpoint-override",
        "tpf.await.sqs.poll-start-delay",
        "tpf.await.sqs.visibility-timeout",
        "tpf.await.sqs.completion-timeout",
        "tpf.await.sqs.wait-time-seconds",
        "tpf.await.sqs.max-messages",
    }
)
"""Keys whose readers are still to come: a start that is given one says so. Take a key out with its first reader."""


def _truthful(setting: Setting) -> Setting:
    if setting.key not in _NOT_YET:
        return setting
    return replace(setting, status=Status.NOTED, why="not in effect yet")


SETTINGS = {
    setting.key: _truthful(setting) for setting in (*_ORCHESTRATOR, *_PIPELINE, *_TRANSPORTS, *_OURS, *_HTTP, *_KAFKA)
}

FAMILIES = (
    Family(_O + "dynamo.", Status.NOTED, _LOG),
    Family(_O + "worker.", Status.NOTED, _NO_WORKERS),
    Family(_O + "control-plane.", Status.NOTED, "there is no hosted control plane here"),
    Family(_O + "admin.", Status.NOTED, "operators use the HTTP routes and tpf-streams"),
    Family("pipeline.handoff.", Status.REFUSED, _NO_HANDOFF),
    Family(
        "mp.messaging.",
        Status.NOTED,
        "topics and groups come from the await steps",
        judged={".auto.offset.reset": "kafka.auto.offset.reset"},
    ),
    Family("quarkus.", Status.NOTED, "there is no Quarkus here"),
    Family("%", Status.NOTED, "profiles are not used; give another file with --config"),
)
