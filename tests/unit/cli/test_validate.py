"""`tpf-streams validate`: what it says of good pipelines, and of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tpf_streams.cli.main import app
from tpf_streams.dsl.setting import Status
from tpf_streams.dsl.settings_table import SETTINGS

ROOT = Path(__file__).parents[3]
CSV_PAYMENTS = ROOT / "topologies/csv_payments/pipeline.yaml"
SECRET_NAME = "PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET"

BROKEN = """\
version: 3
appName: broken
transport: LOCAL
types:
  Order:
    fields:
      - [orderId, strin]
steps:
  - name: Same
    service: nowhere.steps:same
    cardinality: ONE_TO_ONE
    input: Order
    output: Ordr
    terminal: true
settings:
  pipeline:
    max-concurrency: lots
"""

WEBHOOK = """\
version: 3
appName: hook
transport: LOCAL
types:
  Order:
    fields:
      - [orderId, string]
steps:
  - name: Ask
    kind: await
    input: Order
    output: Order
    timeout: PT1M
    idempotencyKeyFields: [orderId]
    await:
      correlation: {strategy: signedResumeToken}
      transport:
        type: webhook
        request: {url: "http://127.0.0.1:1/"}
        callback: {baseUrl: "http://127.0.0.1:2"}
"""


@pytest.fixture
def call(monkeypatch):
    monkeypatch.delenv(SECRET_NAME, raising=False)
    runner = CliRunner()
    return lambda *words: runner.invoke(app, ["validate", *map(str, words)])


@pytest.mark.parametrize("name", ["csv_payments", "restaurant_approval", "fraud_check"])
def test_the_pipelines_of_this_repository_are_valid_without_a_secret(call, name):
    found = call(ROOT / "topologies" / name / "pipeline.yaml")
    assert found.exit_code == 0, found.stderr
    assert f"{name}/pipeline.yaml: valid" in found.stdout
    assert found.stderr == ""


def test_a_summary_tells_steps_types_topics_and_ends(call):
    shown = call(CSV_PAYMENTS).stdout
    for text in (
        "Await Payment Provider",
        "await kafka (live), waits PT5M, signedResumeToken, needs the token, idempotency key of csvId, recipient",
        "at most 250 open at kafka://csv-payments.payment.requests, request.topic csv-payments.payment.requests",
        "│ ONE_TO_MANY │ CsvPaymentsInputFile → PaymentRecord ",
        "types: CsvPaymentsInputFile, PaymentRecord",
        "│ csv-payments.payment.results  │ responses │ 8 ",
        "stores: executions, live sessions, await units, interactions,",
        "source: csv-payment-files, files of ./csv",
        "publish: csv-payment-output-files, {groupKey}.out in ./out",
        "setting: pipeline.max-concurrency = 250",
        "note: pipeline.orchestrator.resume-token-secret: must be configured",
    ):
        assert text in shown


def test_it_tells_every_default_and_where_it_would_be_set(call):
    shown = json.loads(call(CSV_PAYMENTS, "--json").stdout)
    found = {it["name"]: (it["value"], it["where"]) for it in shown["defaults"]}
    assert found["await.deadline-grace"] == (
        "PT5M",
        f"settings: in {CSV_PAYMENTS}, TPF_AWAIT_DEADLINE_GRACE, or --set",
    )
    assert found["onRowError"][1].startswith(f"sources.<name>.onRowError in {CSV_PAYMENTS}, ")
    assert found["publish.topic"][0] == "csv-payments-outputs"
    value, where = found["sources.csv-payment-files.poll.enabled"]
    line = int(where.removeprefix(f"{CSV_PAYMENTS}:"))
    assert (value, CSV_PAYMENTS.read_text().splitlines()[line - 1].strip()) == ("true", "poll:")
    assert "pipeline.max-concurrency" not in found, "it is given, and so no default"
    given = {it["name"]: it["value"] for it in shown["settings"]}
    assert not given.keys() & found.keys()
    for setting in SETTINGS.values():
        if setting.default is not None and setting.status is Status.HONOURED and setting.leaves_choice:
            assert setting.key in given.keys() | found.keys()


def test_as_json_it_tells_the_whole_topology(call):
    shown = json.loads(call(CSV_PAYMENTS, "--json").stdout)
    assert (shown["valid"], shown["pipeline"], shown["window"]) == (True, str(CSV_PAYMENTS), 250)
    assert [step["cardinality"] for step in shown["steps"]] == ["ONE_TO_MANY", *["ONE_TO_ONE"] * 4]
    assert shown["segments"] == [
        {"steps": ["Process Csv Payments Input"], "stream": True, "until": "Await Payment Provider"},
        {
            "steps": [
                "Process Approved Payment Status",
                "Process Unapproved Payment Status",
                "Finalize Payment Output",
            ],
            "stream": False,
            "until": None,
        },
    ]
    await_step = shown["steps"][1]
    assert (await_step["transport"], await_step["live"], await_step["timeoutMs"]) == ("kafka", True, 300_000)
    assert await_step["options"]["response"] == {"topic": "csv-payments.payment.results"}
    assert {"name": "csv-payments-changelog", "use": "internal", "partitions": 8} in shown["topics"]
    assert shown["types"]["PaymentStatus"] == {
        "arms": {"approved": "ApprovedPaymentStatus", "unapproved": "UnapprovedPaymentStatus"}
    }
    assert shown["publish"]["key_template"] == "{groupKey}.out"


def test_as_json_a_refusal_is_one_object_too(call, tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(BROKEN)
    found = call(file, "--json")
    assert found.exit_code == 2
    error = json.loads(found.stdout)["error"]
    assert (error["code"], error["exitCode"]) == ("INVALID_DEFINITION", 2)
    assert {problem["line"] for problem in error["problems"]} >= {7, 13, 17}
    assert error["message"].splitlines() == found.stderr.splitlines()


def test_what_is_given_on_the_command_line_wins_and_shows(call):
    shown = call(CSV_PAYMENTS, "--set", "pipeline.max-concurrency=7").stdout
    assert "setting: pipeline.max-concurrency = 7 (command line" in shown


def test_a_secret_is_never_shown(call, monkeypatch):
    monkeypatch.setenv(SECRET_NAME, "a-secret-for-tests-only")
    found = call(CSV_PAYMENTS)
    assert "resume-token-secret = ***" in found.stdout
    assert "a-secret-for-tests-only" not in found.output


def test_what_does_not_run_yet_is_noted_and_not_run(call, tmp_path, monkeypatch):
    file = tmp_path / "pipeline.yaml"
    file.write_text(WEBHOOK)
    assert "transport webhook does not run yet" in call(file).stdout
    monkeypatch.setenv(SECRET_NAME, "a-secret-for-tests-only")
    found = CliRunner().invoke(app, ["run", str(file), "--log", "memory"])
    assert found.exit_code == 2
    assert f"{file}:0: steps: step 'Ask': transport webhook does not run yet; kafka, interaction-api do" in found.stderr


def test_every_problem_is_told_with_file_and_line(call, tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(BROKEN)
    found = call(file)
    assert found.exit_code == 2
    assert found.stdout == ""
    lines = found.stderr.splitlines()
    assert all(line.startswith(f"{file}:") for line in lines)
    places = {line.removeprefix(f"{file}:").split(":")[0] for line in lines}
    assert {"7", "13", "17"} <= places
    assert any("max-concurrency" in line and "'lots'" in line for line in lines)


def test_a_setting_without_a_value_is_a_wrong_call(call):
    found = call(CSV_PAYMENTS, "--set", "pipeline.max-concurrency")
    assert (found.exit_code, "KEY=VALUE is wanted" in found.stderr) == (2, True)


def test_no_such_file_is_a_wrong_call(call, tmp_path):
    assert call(tmp_path / "nothing.yaml").exit_code == 2
