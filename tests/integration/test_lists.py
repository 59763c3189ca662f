"""Lists on Kafka: every shape in one pipeline, over a kill in the middle, and what topics tell of it."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.program import result_of, started, tpf, wait_until
from tests.integration.applications import Application
from tests.lifecycle import agree
from tpf_streams.engine.lifecycle import lifecycle_topic
from tpf_streams.logs.kafka.reader import input_record

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

ITEMS = 120
AWAIT = """
  - name: {name}
    kind: await
    cardinality: {cardinality}
    input: Item
    output: Item
    timeout: PT5M
    await:
      correlation: {{strategy: signedResumeToken}}
      transport: {{type: kafka, request: {{topic: lists.{name}}}, response: {{topic: lists.results}}}}
"""
PIPELINE = (
    "version: 3\nappName: lists\ntypes:\n  Item: {fields: [[id, string]]}\nsteps:\n"
    "  - {name: split, cardinality: EXPANSION, input: Item, output: Item, service: 'steps:split'}"
    + AWAIT.format(name="each", cardinality="ONE_TO_ONE")
    + AWAIT.format(name="whole", cardinality="MANY_TO_MANY")
    + AWAIT.format(name="halves", cardinality="ONE_TO_MANY")
    + AWAIT.format(name="sum", cardinality="MANY_TO_ONE")
)
STEPS = f"""
def split(item: dict[str, str]):
    for number in range({ITEMS}):
        yield {{"id": str(number)}}
"""
HALF = ITEMS // 2
PROVIDER = """
import time
from pathlib import Path

KILLED = Path(__file__).with_name("killed")


def answer(request, options):
    asked = request["requestPayload"]
    if isinstance(asked, dict) and asked["id"].endswith("w"):
        while asked["id"] == "HALFaw" and not KILLED.exists():
            time.sleep(0.05)
        return [{"id": asked["id"] + "l"}, {"id": asked["id"] + "r"}]
    if isinstance(asked, dict):
        return {"id": asked["id"] + "a"}
    if asked[0]["id"].endswith("a"):
        return [{"id": item["id"] + "w"} for item in asked]
    return {"id": " ".join(item["id"] for item in asked)}
""".replace("HALF", str(HALF))


def test_every_shape_over_a_kill(tmp_path, bootstrap_servers):
    settings = {"kafka.session-timeout": "PT6S", "topology.partitions": "2", "pipeline.max-concurrency": "20"}
    lists = Application(tmp_path, bootstrap_servers, "lists", PIPELINE, "lists", **settings)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "provider.py").write_text(PROVIDER)
    (tmp_path / "input.json").write_text('{"id": "i"}')

    def asked(name: str) -> int:
        return len(asyncio.run(lists._records(f"{lists.name}.{name}")))

    def words(*inputs: Path) -> list[str | Path]:
        return lists.run_words(*inputs, out=tmp_path / "out", data=tmp_path / "data")

    with lists.provider(log=tmp_path / "provider.log"):
        with started(*words(tmp_path / "input.json")) as run:
            wait_until(lambda: asked("halves") > HALF, 90, 0.2)
            run.send_signal(signal.SIGKILL)
            run.wait(10)
        assert asked("sum") == 0, "killed in the middle of what the list became"
        (tmp_path / "killed").touch()
        result = result_of(tpf(*words(), timeout=120))
    assert (result["executions"], result["continued"]) == ({"SUCCEEDED": 1}, 1)
    (output,) = lists.output_values()
    assert output["payload"]["id"] == " ".join(f"{number}aw{half}" for number in range(ITEMS) for half in "lr")
    requests = Counter({name: asked(name) for name in ("each", "whole", "halves", "sum")})
    assert requests == {"each": ITEMS, "whole": 1, "halves": ITEMS, "sum": 1}
    topics = lifecycle_topic(lists.name), lists.outputs
    told = (map(input_record, asyncio.run(lists._records(topic))) for topic in topics)
    verdict = agree(*told, last_stream=1)
    (story,) = verdict.stories.values()
    assert (story.end, len(story.dispatched), len(story.closed)) == ("success", 2 * ITEMS + 2, 2 * ITEMS + 2)
