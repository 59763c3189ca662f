"""Pipelines by letters, what each gives, and a provider that answers by its step. Every value is an Item with an id.

Service steps: S splits in two, s marks, J joins to one, M takes all and gives each. Await steps: k answers each item,
e gives two for one, j one for all, m all for all; small letters of the inbox: i for k, and so on, by `transport`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tpf_streams.testing import TopologyTestDriver

Item = dict[str, str]
CARDINALITY = {
    "S": "EXPANSION",
    "s": "ONE_TO_ONE",
    "J": "REDUCTION",
    "M": "MANY_TO_MANY",
    "k": "ONE_TO_ONE",
    "e": "EXPANSION",
    "j": "REDUCTION",
    "m": "MANY_TO_MANY",
}
SERVICES = "SsJM"
JOINS = "JMjm"
HEAD = """
version: 3
appName: shapes
types:
  Item: {fields: [[id, string]]}
steps:
"""
SERVICE = "  - {{name: {name}, cardinality: {cardinality}, input: Item, output: Item}}\n"
AWAIT = """  - name: {name}
    kind: await
    cardinality: {cardinality}
    input: Item
    output: Item
    timeout: PT1M
    await:
      correlation: {{strategy: signedResumeToken}}
      transport: {transport}
"""
KAFKA = "{{type: kafka, request: {{topic: requests-{index}}}, response: {{topic: responses}}}}"
INBOX = "{{type: interaction-api}}"


def pipeline(letters: str, transport: str = KAFKA) -> str:
    """The file of a pipeline; steps are named by letter and place."""
    text = HEAD
    for index, letter in enumerate(letters):
        form = SERVICE if letter in SERVICES else AWAIT
        text += form.format(
            name=f"Step {letter}{index}", cardinality=CARDINALITY[letter], transport=transport.format(index=index)
        )
    return text


class Steps:
    """The service steps, and how often each was called."""

    def __init__(self, letters: str) -> None:
        self.called: list[str] = []
        self._letters = letters

    def functions(self) -> dict[str, Callable[..., Any]]:
        kinds: dict[str, Callable[..., Any]] = {"S": self.split, "s": self.mark, "J": self.join, "M": self.each}
        return {f"Step {it}{at}": kinds[it] for at, it in enumerate(self._letters) if it in kinds}

    def split(self, item: Item) -> Iterator[Item]:
        yield from ({"id": f"{item['id']}{part}"} for part in "xy")

    def mark(self, item: Item) -> Item:
        self.called.append(item["id"])
        return {"id": f"{item['id']}s"}

    def join(self, items: list[Item]) -> Item:
        return {"id": joined(items)}

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            yield {"id": f"{item['id']}M"}


def joined(items: Iterable[Item]) -> str:
    return "(" + "+".join(item["id"] for item in items) + ")"


def answer_of(letter: str, payload: Any) -> Any:
    """What the provider says to a request of a step."""
    match letter:
        case "k":
            return {"id": f"{payload['id']}k"}
        case "e":
            return [{"id": f"{payload['id']}{part}"} for part in "pq"]
        case "j":
            return {"id": joined(payload)}
        case _:
            return [{"id": f"{item['id']}m"} for item in payload]


def expected(letters: str, given: Any) -> list[Item]:
    """What comes out, in order: a list all the way, each step on each item or on all."""
    steps = Steps(letters)
    flowing: list[Item] = given if isinstance(given, list) else [given]
    for letter in letters:
        match letter:
            case "M":
                flowing = list(steps.each(flowing))
            case "J":
                flowing = [steps.join(flowing)]
            case "S":
                flowing = [part for item in flowing for part in steps.split(item)]
            case "s":
                flowing = [steps.mark(item) for item in flowing]
            case "k" | "e":
                flowing = [part for item in flowing for part in many(answer_of(letter, item))]
            case _:
                flowing = many(answer_of(letter, flowing)) if flowing or letter == "j" else []
    return flowing


def many(result: Any) -> list[Item]:
    return [result] if isinstance(result, dict) else list(result)


def open_shape(
    folder: Path, letters: str, *, transport: str = KAFKA, settings: Mapping[str, str] | None = None, **options: Any
) -> TopologyTestDriver:
    file = folder / "pipeline.yaml"
    file.write_text(pipeline(letters, transport), encoding="utf-8")
    functions = {**Steps(letters).functions(), **options.pop("functions", {})}
    return TopologyTestDriver(file, functions=functions, settings=settings, **options)


def given_to(letters: str, count: int = 3) -> Any:
    """An input: a list where the first step takes one."""
    return [{"id": f"i{number}"} for number in range(count)] if letters[0] in JOINS else {"id": "i"}


def answer_everything(
    driver: TopologyTestDriver, letters: str, seed: int = 0, between: Callable[[], None] = lambda: None
) -> None:
    """Answer in any order until nothing is open; `between` comes before each answer."""
    random = Random(seed)
    while pending := driver.pending():
        interaction = random.choice(pending)
        between()
        letter = letters[interaction.step_index]
        payload = interaction.request_payload
        request = next(
            (it for it in driver.requests() if it["interactionId"] == interaction.interaction_id), interaction
        )
        if isinstance(request, dict):
            assert request["requestPayload"] == payload
            assert driver.answer(request, answer_of(letter, payload)) == "admitted"
        else:
            token = driver.definition.signer.sign(interaction.claims())
            assert driver.answer(interaction, answer_of(letter, payload), resumeToken=token) == "admitted"


def results(driver: TopologyTestDriver, execution_id: str) -> list[Item]:
    return [payload for record in driver.results(execution_id) for payload in record.payloads]
