"""Where settings come from, which one wins, what is refused and how it is told (contract 0.19, 0.22, 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpf_streams.core.step import OnItemFailure, OnItemTimeout, OnRowError, Parallelism
from tpf_streams.dsl import LoadedPipeline, load_pipeline
from tpf_streams.dsl.setting import Kind, Setting
from tpf_streams.errors import DefinitionError

DATA = Path(__file__).parent / "data"
SECRET_NAME = "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"
SECRET = "0123456789abcdef-very-secret"
ENVIRON = {SECRET_NAME: SECRET}
SAMPLE = (DATA / "csv-payments.kafka.yaml").read_text(encoding="utf-8")
CONCURRENCY = "pipeline.max-concurrency"


def pipeline(tmp_path: Path, settings: str = "", sample: str = SAMPLE, properties: str | None = None) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(sample + settings, encoding="utf-8")
    if properties is not None:
        (tmp_path / "application.properties").write_text(properties, encoding="utf-8")
    return path


def problems(path: Path, environ: dict[str, str] | None = None, overrides: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        load_pipeline(path, environ=ENVIRON if environ is None else environ, settings_overrides=overrides or {})
    return [str(problem).removeprefix(str(path.parent) + "/") for problem in caught.value.problems]


def load(path: Path, environ: dict[str, str] | None = None, overrides: dict[str, str] | None = None) -> LoadedPipeline:
    return load_pipeline(path, environ=ENVIRON | (environ or {}), settings_overrides=overrides or {})


def test_precedence(tmp_path):
    in_pipeline = f"settings:\n  {CONCURRENCY}: 1\n"
    path = pipeline(tmp_path)
    assert load(path).definition.limits.max_concurrency == 128
    path = pipeline(tmp_path, in_pipeline)
    assert load(path).definition.limits.max_concurrency == 1
    path = pipeline(tmp_path, in_pipeline, properties=f"{CONCURRENCY}=2\n")
    assert load(path).definition.limits.max_concurrency == 2
    environ = {"PIPELINE_MAX_CONCURRENCY": "3"}
    assert load(path, environ).definition.limits.max_concurrency == 3
    loaded = load(path, environ, overrides={CONCURRENCY: "4"})
    assert loaded.definition.limits.max_concurrency == 4
    origin = {key: where for key, _, where in loaded.settings.shown()}
    assert origin[CONCURRENCY] == f"command line {CONCURRENCY}"
    assert origin["sync"] == "default"


def test_a_config_file_stands_for_the_one_beside_the_pipeline(tmp_path):
    path = pipeline(tmp_path, properties=f"{CONCURRENCY}=2\n")
    config = tmp_path / "other.yaml"
    config.write_text("pipeline:\n  max-concurrency: 7\n  orchestrator.default-tenant: acme\n", encoding="utf-8")
    loaded = load_pipeline(path, environ=ENVIRON, config=config)
    assert loaded.definition.limits.max_concurrency == 7
    assert loaded.settings.text("pipeline.orchestrator.default-tenant") == "acme"


def test_keys_in_place_give_way_to_what_is_outside_the_file(tmp_path):
    reading, correlation = "      mode: reference\n", "      correlation:\n"
    sample = SAMPLE.replace(reading, f"{reading}      encoding: latin-1\n    onRowError: FAIL_FILE\n")
    in_place = f"      onItemTimeout: REJECT_ITEM\n{correlation}        require-token: false\n"
    sample = sample.replace(correlation, in_place)
    path = pipeline(tmp_path, "onItemFailure: REJECT_ITEM\nsettings:\n  onRowError: REJECT_ROW\n", sample)
    loaded = load(path)
    step = loaded.definition.steps[1]
    assert (loaded.definition.encoding, loaded.definition.on_row_error) == ("latin-1", OnRowError.FAIL_FILE)
    assert getattr(step, "on_item_timeout", None) is OnItemTimeout.REJECT_ITEM
    assert getattr(step, "require_token", None) is False
    assert loaded.definition.on_item_failure is OnItemFailure.REJECT_ITEM
    outside = {"TPF_ON_ROW_ERROR": "REJECT_ROW", "TPF_ENCODING": "utf-8", "AWAIT_CORRELATION_REQUIRE_TOKEN": "true"}
    loaded = load(path, outside, overrides={"await.onItemTimeout": "FAIL_UNIT"})
    step = loaded.definition.steps[1]
    assert (loaded.definition.encoding, loaded.definition.on_row_error) == ("utf-8", OnRowError.REJECT_ROW)
    assert getattr(step, "on_item_timeout", None) is OnItemTimeout.FAIL_UNIT
    assert getattr(step, "require_token", None) is True


def test_publish_topic_has_a_place_of_its_own(tmp_path):
    path = pipeline(tmp_path, sample=SAMPLE.replace("publish:\n", "publish:\n  topic: payments.out\n", 1))
    assert load(path).definition.output_topic == "payments.out"
    assert load(path, {"TPF_PUBLISH_TOPIC": "env.out"}).definition.output_topic == "env.out"


def test_names_follow_the_application(tmp_path):
    loaded = load(pipeline(tmp_path), overrides={"pipeline.orchestrator.pipeline-id": "payments"})
    assert (loaded.definition.pipeline_id, loaded.definition.output_topic) == ("payments", "payments-outputs")
    loaded = load(pipeline(tmp_path), overrides={"pipeline.application-id": "app-2"})
    assert (loaded.definition.pipeline_id, loaded.definition.application_id) == ("csv-payments", "app-2")
    told = problems(pipeline(tmp_path), overrides={"pipeline.application-id": "zahlungen ü"})
    assert told == [
        "command line:0: pipeline.application-id: 'zahlungen ü': topics begin with it, so letters, digits, dots, "
        "dashes and underscores are allowed, at most 236"
    ]


def test_a_problem_names_the_place_of_the_value(tmp_path):
    path = pipeline(tmp_path, properties=f"# limits\n{CONCURRENCY} = many\n")
    assert problems(path) == [
        f"application.properties:2: {CONCURRENCY}: 'many': a whole number is wanted, 1 to 1000000"
    ]
    path = pipeline(tmp_path, properties="")
    assert problems(path, ENVIRON | {"PIPELINE_PARALLELISM": "SEQUENTAL"}) == [
        "environment:0: PIPELINE_PARALLELISM: 'SEQUENTAL': allowed are AUTO, PARALLEL, SEQUENTIAL. "
        "Did you mean 'SEQUENTIAL'?"
    ]
    assert problems(path, overrides={"pipeline.paralelism": "AUTO"}) == [
        "command line:0: pipeline.paralelism: unknown setting. Did you mean 'pipeline.parallelism'?"
    ]


def test_a_value_that_loses_is_checked_too(tmp_path):
    path = pipeline(tmp_path, f"settings:\n  {CONCURRENCY}: none\n")
    assert len(problems(path, overrides={CONCURRENCY: "4"})) == 1


def test_a_key_twice_in_one_place(tmp_path):
    path = pipeline(tmp_path, properties=f"{CONCURRENCY}=1\n\n{CONCURRENCY}=2\n")
    assert problems(path) == [f"application.properties:3: {CONCURRENCY}: written twice, first in line 1; keep one"]
    path = pipeline(tmp_path, "settings:\n  pipeline.transport: LOCAL\n", properties="")
    assert problems(path) == ["pipeline.yaml:136: pipeline.transport: written twice, first in line 4; keep one"]


def test_two_spellings_of_a_variable_must_agree(tmp_path):
    path = pipeline(tmp_path)
    same = {"TPF_AWAIT_DEADLINE_GRACE": "PT1M", "AWAIT_DEADLINE_GRACE": "PT1M"}
    assert load(path, same).settings.millis("await.deadline-grace") == 60_000
    differ = ENVIRON | same | {"AWAIT_DEADLINE_GRACE": "PT2M"}
    assert problems(path, differ) == [
        "environment:0: AWAIT_DEADLINE_GRACE: differs from TPF_AWAIT_DEADLINE_GRACE; set one of them"
    ]


def test_properties_syntax(tmp_path):
    properties = (
        "! comment\n\npipeline.orchestrator.default-tenant : acme\\:eu\n"
        "pipeline.orchestrator.resume-token-previous-secrets=acme, \\\n    other\n"
        "pipeline.telemetry.replay.file.path=a\\u00e4\\\\b\n"
    )
    settings = load(pipeline(tmp_path, properties=properties)).settings
    assert settings.text("pipeline.orchestrator.default-tenant") == "acme:eu"
    assert settings.texts("pipeline.orchestrator.resume-token-previous-secrets") == ("acme", "other")
    assert settings.text("pipeline.telemetry.replay.file.path") == "aä\\b"
    assert problems(pipeline(tmp_path, properties="just a line\n")) == [
        "application.properties:1: file: key=value is wanted, or a comment that begins with #"
    ]


def test_a_secret_by_way_of_a_variable(tmp_path):
    line = "pipeline.orchestrator.resume-token-secret=${MY_SECRET}\n"
    path = pipeline(tmp_path, properties=line)
    loaded = load_pipeline(path, environ={"MY_SECRET": SECRET})
    assert loaded.definition.resume_token_secrets == (SECRET,)
    (told,) = problems(path, {})
    assert "it is missing or blank" in told
    path = pipeline(tmp_path, properties="pipeline.parallelism=${MODE:SEQUENTIAL}\n")
    assert load(path).definition.parallelism is Parallelism.SEQUENTIAL
    path = pipeline(tmp_path, properties="pipeline.parallelism=${MODE}\n")
    assert problems(path) == [
        "application.properties:1: pipeline.parallelism: names an environment variable that is not set; "
        "${NAME:default} gives a default"
    ]


@pytest.mark.parametrize("blank", [None, "", "   "])
def test_a_missing_or_blank_secret_stops_the_start(tmp_path, blank):
    environ = {} if blank is None else {SECRET_NAME: blank}
    (told,) = problems(pipeline(tmp_path), environ)
    assert told.endswith(
        "must be configured for signed await resume tokens, which 'Await Payment Provider' needs; "
        f"it is missing or blank: set {SECRET_NAME}"
    )
    loaded = load_pipeline(pipeline(tmp_path), environ=environ, require_secret=False)
    assert any("missing or blank" in note for note in loaded.notes)


def test_previous_secrets_verify_beside_the_present_one(tmp_path):
    key = "pipeline.orchestrator.resume-token-previous-secrets"
    path = pipeline(tmp_path, f"settings:\n  {key}: [older-older-older, oldest-oldest-oldest]\n")
    assert load(path).definition.resume_token_secrets == (SECRET, "older-older-older", "oldest-oldest-oldest")
    told = problems(path, {})
    assert any(f"{key}: verifies beside pipeline.orchestrator.resume-token-secret" in line for line in told)
    assert "older" not in "".join(told)


def test_a_short_secret_is_warned_about(tmp_path):
    assert load_pipeline(pipeline(tmp_path), environ={SECRET_NAME: "short"}).warnings == [
        "pipeline.orchestrator.resume-token-secret has less than 16 bytes; a longer one is harder to guess"
    ]


def test_a_variable_that_is_nearly_a_setting_is_warned_about(tmp_path):
    loaded = load(pipeline(tmp_path), {"PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRT": "x"})
    assert loaded.warnings == [
        "environment variable PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRT looks like a setting and is none; it is not used"
    ]


def test_accepted_names_of_the_reference(tmp_path):
    properties = (
        "pipeline.orchestrator.mode=QUEUE_ASYNC\n"
        "pipeline.orchestrator.state-provider=memory\n"
        "pipeline.orchestrator.dispatcher-provider=event\n"
        "pipeline.orchestrator.dlq-provider=log\n"
        "pipeline.orchestrator.lease-ms=1800000\n"
        "pipeline.orchestrator.dynamo.region=eu-west-1\n"
        "pipeline.orchestrator.worker.max-in-flight=64\n"
        "mp.messaging.outgoing.tpf-await-kafka-requests.connector=smallrye-kafka\n"
        "%dev.quarkus.http.port=1\n"
        "csv-payments.payment-provider.permits-per-second=250\n"
        "tpf.await.kafka.reactive-messaging.enabled=true\n"
    )
    loaded = load(pipeline(tmp_path, properties=properties))
    noted = {note.split(": ")[1] for note in loaded.notes if "accepted and unused" in note}
    assert noted == {
        "pipeline.orchestrator.state-provider",
        "pipeline.orchestrator.dispatcher-provider",
        "pipeline.orchestrator.dlq-provider",
        "pipeline.orchestrator.lease-ms",
        "pipeline.orchestrator.dynamo.region",
        "pipeline.orchestrator.worker.max-in-flight",
        "mp.messaging.outgoing.tpf-await-kafka-requests.connector",
        "%dev.quarkus.http.port",
        "publish.csv-payment-output-files.grouping.maxOpenGroups",
    }
    assert loaded.settings.application == {"csv-payments.payment-provider.permits-per-second": "250"}


@pytest.mark.parametrize(
    "key", ["kafka.auto.offset.reset", "mp.messaging.incoming.tpf-await-kafka-completions.auto.offset.reset"]
)
@pytest.mark.parametrize("value", ["latest", "LATEST", "none"])
def test_o02_a_setting_that_would_lose_answers_is_refused(tmp_path, key, value):
    """In the words of the reference, too, which would have no effect here: who writes it does not know what it does."""
    found = problems(pipeline(tmp_path), overrides={key: value})
    assert len(found) == 1
    assert found[0].startswith(f"command line:0: {key}: '{value}' is refused: answers are read from the earliest")
    loaded = load(pipeline(tmp_path), overrides={key: "earliest"})
    assert any(f"{key}: accepted and unused" in note for note in loaded.notes)


def test_o02_an_await_step_has_no_place_for_it(tmp_path):
    consumer = "        consumer:\n"
    assert consumer in SAMPLE
    found = problems(
        pipeline(tmp_path, sample=SAMPLE.replace(consumer, f"{consumer}          auto.offset.reset: latest\n"))
    )
    assert len(found) == 1 and "auto.offset.reset" in found[0]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("pipeline.orchestrator.mode", "SYNC", "Await steps require pipeline.orchestrator.mode=QUEUE_ASYNC."),
        ("pipeline.await-admission.store", "dynamo", "'dynamo' is refused: in-memory counts per worker process here"),
        ("pipeline.platform", "FUNCTION", "'FUNCTION' is refused: only COMPUTE is supported for now"),
        ("tpf.await.kafka.reactive-messaging.enabled", "false", "false, while a step declares a kafka transport"),
        ("tpf.checkpoint.kafka.publisher.enabled", "true", "'true' is refused: checkpoint handoff"),
        ("pipeline.orchestrator.control-plane.enabled", "true", "'true' is refused: there is no hosted control plane"),
        ("pipeline.orchestrator.quotas.max-in-flight-transitions-per-tenant", "5", "'5': allowed are 0."),
        ("pipeline.handoff.bindings.x.targets.y.kind", "HTTP", "refused: checkpoint handoff between pipelines"),
        ("topology.partitions", "1025", "'1025': a whole number is wanted, 1 to 1024"),
        ("tpf.await.sqs.visibility-timeout", "PT13H", "'PT13H': PT0S to PT12H is allowed"),
        ("pipeline.orchestrator.retry-multiplier", "0.5", "'0.5': a number is wanted, 1 to 100"),
        ("strict-envelopes", "yes", "'yes': true or false is wanted"),
        ("pipeline.orchestrator.resume-token-previous-secrets", "a,,b", "an empty entry; values parted by commas"),
        ("pipeline.id-secret", " ", "blank; give it a value or leave it out"),
    ],
)
def test_refused_settings(tmp_path, key, value, told):
    (found,) = problems(pipeline(tmp_path), overrides={key: value})
    assert found.startswith(f"command line:0: {key}: {told}")


def test_strict_start_refuses_the_default_policy_only_when_asked_for(tmp_path):
    strict = {"pipeline.orchestrator.strict-startup": "true"}
    (told,) = problems(pipeline(tmp_path), overrides=strict)
    assert "true refuses the default policy" in told
    policy = {"pipeline.orchestrator.idempotency-policy": "CLIENT_KEY_REQUIRED"}
    assert load(pipeline(tmp_path), overrides=strict | policy).definition.steps
    assert load(pipeline(tmp_path), overrides={"pipeline.orchestrator.strict-startup": "false"}).definition.steps


def test_a_setting_is_asked_for_as_what_it_is(tmp_path):
    settings = load(pipeline(tmp_path)).settings
    with pytest.raises(TypeError, match="setting sync is one of, asked for as int"):
        settings.integer("sync")
    with pytest.raises(KeyError):
        settings.text("no.such.setting")
    with pytest.raises(KeyError, match="has no value"):
        settings.required_text("publish.topic")


def test_secret_kinds_never_repeat_their_text():
    with pytest.raises(ValueError, match=r"an empty entry; values parted by commas are wanted$"):
        Setting("x", Kind.SECRETS, "help").parse("hush,,hush")
