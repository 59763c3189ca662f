"""Lists through the command on the embedded log: SIGKILL in a stream that becomes one request, and in what its answer
becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.killing import Campaign, moments
from tests.e2e.program import Place, result_of, tpf

ITEMS = 300
AWAIT = """
  - name: {name}
    kind: await
    cardinality: {cardinality}
    input: Item
    output: Item
    timeout: PT5M
    await:
      correlation: {{strategy: signedResumeToken}}
      transport: {{type: kafka, request: {{topic: {name}.requests}}, response: {{topic: answers}}}}
"""
PIPELINE = (
    "version: 3\nappName: lists\ntypes:\n  Item: {fields: [[id, string]]}\nsteps:\n"
    "  - {name: split, cardinality: EXPANSION, input: Item, output: Item, service: 'list_steps:split'}"
    + AWAIT.format(name="each", cardinality="ONE_TO_ONE")
    + AWAIT.format(name="whole", cardinality="MANY_TO_MANY")
    + AWAIT.format(name="again", cardinality="ONE_TO_ONE")
    + "  - {name: join, cardinality: REDUCTION, input: Item, output: Item, service: 'list_steps:join'}\n"
)
STEPS = f"""
from collections.abc import Iterable, Iterator


def split(item: dict[str, str]) -> Iterator[dict[str, str]]:
    for number in range({ITEMS}):
        yield {{"id": str(number)}}


def join(items: Iterable[dict[str, str]]) -> dict[str, str]:
    return {{"id": " ".join(item["id"] for item in items)}}
"""
PROVIDER = """
from typing import Any


def answer(request: dict[str, Any], options: Any) -> Any:
    asked = request["requestPayload"]
    if isinstance(asked, list):
        return [{"id": item["id"] + "w"} for item in asked]
    return {"id": asked["id"] + "a"}
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "list_steps.py").write_text(STEPS)
    (tmp_path / "provider.py").write_text(PROVIDER)
    (tmp_path / "input.json").write_text('{"id": "i"}')
    place = Place(tmp_path)
    return ["run", tmp_path / "pipeline.yaml", "--input", tmp_path / "input.json", "--data-dir", place.data,
            "--simulate-provider", "delay-ms=50,permits-per-second=150"]  # fmt: skip


@pytest.mark.timeout(300)
def test_killed_in_the_middle_of_lists(tmp_path, words):
    campaign = Campaign(Place(tmp_path), words)
    killed = [campaign.live_and_die(after_s) for after_s in moments(6, 0.2, 1.2, seed=4)]
    assert any(killed)
    last = campaign.live_to_the_end()
    assert last.returncode == 0, last.stderr
    status = result_of(tpf("status", "--data-dir", tmp_path / "data", "--json"))
    (execution,) = status["executions"]
    assert (execution["status"], execution["items"], execution["outputs"]) == ("SUCCEEDED", ITEMS, 1)
    found = result_of(tpf("status", "--data-dir", tmp_path / "data", "--json", execution["executionId"]))
    assert found["output"] == [{"id": " ".join(f"{number}awa" for number in range(ITEMS))}]
