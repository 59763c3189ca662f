"""`App` without a broker: what it binds, names and refuses before a worker runs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tpf_streams
from tpf_streams import App
from tpf_streams.app.committed import CommittedConsumer
from tpf_streams.errors import DefinitionError
from tpf_streams.runtime.engine_thread import EngineStoppedError

ROOT = Path(__file__).parents[3]
FRAUD_CHECK = ROOT / "topologies/fraud_check/pipeline.yaml"
SECRET = {"pipeline.orchestrator.resume-token-secret": "a-secret-for-tests-only"}
KAFKA = {"type": "kafka", "request": {"topic": "x.requests"}, "response": {"topic": "x.answers"}}


@dataclass
class Item:
    item_id: str


def fraud_check(**options: Any) -> App:
    return App("checks", pipeline=FRAUD_CHECK, settings=SECRET, **options)


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["tpf_streams", "topologies.csv_payments.steps", "topologies.csv_payments"])
def test_importing_stays_light(module):
    code = f"import {module}, sys; heavy = {{'faust', 'aiokafka', 'mode'}} & set(sys.modules); assert not heavy, heavy"
    done = fresh(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", ["topologies.csv_payments.worker", "topologies.csv_payments.steps"])
def test_the_app_is_found_in_its_package_whatever_came_first(first):
    done = fresh(f"import {first}, topologies.csv_payments as package; print(type(package.app).__name__)")
    assert done.stdout == "App\n", done.stderr


def test_a_package_has_what_it_has():
    with pytest.raises(AttributeError, match="no attribute 'Appp'"):
        _ = tpf_streams.Appp


def test_topics_have_the_names_of_the_pipeline_and_are_one_object_each():
    app = fraud_check()
    step = app.await_step("Fraud Check")
    assert step.requests.topics == ("fraud-check.requests",)
    assert step.responses.topics == ("fraud-check.decisions",)
    assert app.outputs.topics == ("checks-outputs",)
    assert app.outputs is app.outputs
    assert step.requests is app.await_step("Fraud Check").requests


def test_an_unknown_await_step_is_told_when_it_is_needed():
    app = fraud_check()
    step = app.await_step("Fraud Chek")
    for ask in (lambda: step.requests, app._plan):
        with pytest.raises(DefinitionError, match=r"no await step has this name: Fraud Check\. Did you mean"):
            ask()


def test_a_function_is_bound_to_a_step_of_the_file():
    app = fraud_check()

    @app.step("Release Order")
    def release(decision: dict[str, Any]) -> dict[str, Any]:
        return decision

    assert release({"a": 1}) == {"a": 1}, "it stays a function"
    assert app._plan().loaded.bindings[1].callable is release
    with pytest.raises(ValueError, match="has a function already"):
        app.step("Release Order")(release)


def test_what_the_file_says_is_not_said_again():
    app = fraud_check()
    with pytest.raises(ValueError, match="yaml says inline; keep it there"):
        app.step("Release Order", inline=True)(lambda value: value)
    with pytest.raises(ValueError, match="says timeout; keep it there"):
        app.await_step("Fraud Check", timeout="PT1M")


def test_a_function_for_no_step_is_refused():
    app = fraud_check()
    app.step("Releas Order")(lambda value: value)
    with pytest.raises(DefinitionError, match="Releas Order"):
        app._plan()


def test_a_pipeline_without_a_file():
    app = App("declared", settings=SECRET, pipeline={"publish": {"topic": "declared-out"}})

    @app.step("First")
    async def first(item: Item) -> Item:
        return item

    ask = app.await_step("Ask", output=Item, timeout="PT1M", transport=KAFKA)
    assert ask.requests.topics == ("x.requests",)
    assert app.outputs.topics == ("declared-out",)
    assert app.await_step("Ask").responses is ask.responses

    plan = app._plan()
    assert [step.name for step in plan.loaded.definition.steps] == ["First", "Ask"]
    assert plan.file == Path(__file__)


def test_a_mistake_names_the_line_of_the_declaration():
    app = App("declared", settings=SECRET)
    line = sys._getframe().f_lineno + 1
    app.await_step("Ask", input=Item, output=Item, timeout="PT1M", transport={"type": "kafak"})
    with pytest.raises(DefinitionError) as caught:
        app._plan()
    assert {(problem.file, problem.line) for problem in caught.value.problems} == {(__file__, line)}


def test_a_transport_without_topics_has_none():
    app = App("declared", settings=SECRET)
    step = app.await_step("Ask", input=Item, output=Item, timeout="PT1M", transport={"type": "interaction-api"})
    with pytest.raises(DefinitionError, match="interaction-api has no topics"):
        _ = step.requests


def test_a_transport_that_does_not_run_yet_stops_the_worker():
    app = App("declared", settings=SECRET)
    transport = {"type": "sqs", "request": {"queueUrl": "http://q/a"}, "response": {"queueUrl": "http://q/b"}}
    app.await_step("Ask", input=Item, output=Item, timeout="PT1M", transport=transport)
    with pytest.raises(DefinitionError, match="sqs does not run yet"):
        app._plan()


async def test_what_needs_an_engine_says_so():
    app = fraud_check()
    with pytest.raises(EngineStoppedError):
        await app.submit({}, key="k")
    with pytest.raises(EngineStoppedError):
        await app.complete(b"{}")
    assert not app.engine_service.is_ready
    assert list(app.executions) == [] and len(app.units) == 0


def test_agents_read_committed_records_only():
    assert fraud_check().transport.Consumer is CommittedConsumer


APP_WITH_AGENT = f"""
from tpf_streams import App
app = App("listed", pipeline={str(FRAUD_CHECK)!r})

@app.agent(app.outputs)
async def notify(outputs): ...
"""


@pytest.mark.parametrize(("command", "shown"), [("agents", "notify"), ("tables", "Tables")])
def test_faust_lists_what_is_there(command, shown, tmp_path):
    (tmp_path / "listed.py").write_text(APP_WITH_AGENT)
    words = [sys.executable, "-m", "faust", "-W", str(tmp_path), "-A", "listed", command]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
