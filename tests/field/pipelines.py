"""The pipelines that the field cases speak of: a decision, a stream over a provider, two awaits, an inbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tpf_streams.testing import TopologyTestDriver

DATA = Path(__file__).parent / "data"
REQUESTS, RESPONSES = "field.requests", "field.responses"
MINUTE_MS = 60_000

_HEAD = """
version: 3
appName: field-cases
types:
  Batch: {fields: [[count, int64]]}
  Order: {fields: [[orderId, string]]}
  Decision: {fields: [[status, string]]}
  Outcome: {fields: [[status, string]]}
steps:
"""
_STEP = """
  - {{name: {name}, cardinality: {cardinality}, input: {input}, output: {output}}}
"""
_AWAIT = """
  - name: {name}
    kind: await
    cardinality: ONE_TO_ONE
    input: {input}
    output: Decision
    timeout: PT1M
    idempotencyKeyFields: [orderId]
    await:
      {options}
      correlation: {{strategy: signedResumeToken}}
      transport: {transport}
"""
_KAFKA = f"{{type: kafka, request: {{topic: {REQUESTS}}}, response: {{topic: {RESPONSES}}}}}"
_INBOX = "{type: interaction-api}"
_QUEUES = ("https://queues.example/requests", "https://queues.example/responses")
_SQS = f"{{type: sqs, request: {{queueUrl: '{_QUEUES[0]}'}}, response: {{queueUrl: '{_QUEUES[1]}'}}}}"
POLLED = {"tpf.await.sqs.poller.enabled": "true", "tpf.await.sqs.response-queue-url": _QUEUES[1]}
"""Settings with which an SQS stream has a live session."""


def _step(name: str, input: str, output: str, cardinality: str = "ONE_TO_ONE") -> str:
    return _STEP.format(name=name, input=input, output=output, cardinality=cardinality)


def _await(name: str, transport: str = _KAFKA, input: str = "Order", options: str = "") -> str:
    return _AWAIT.format(name=name, transport=transport, input=input, options=options)


FINISH = _step("Finish", "Decision", "Outcome")
DECISION = _HEAD + _await("Await Decision") + FINISH
INBOX = (
    _HEAD
    + _await("Await Manager Approval", _INBOX, options="group: duty-managers").replace(
        "signedResumeToken", "interactionId"
    )
    + FINISH
)
TWO_AWAITS = (
    _HEAD
    + _step("Prepare", "Order", "Order")
    + _await("Await First")
    + _step("Transform", "Decision", "Order")
    + _await("Await Second")
    + FINISH
)
TWO_AWAITS_STREAM = (
    _HEAD
    + _step("Split", "Batch", "Order", "EXPANSION")
    + _await("Await First")
    + _step("Transform", "Decision", "Order")
    + _await("Await Second")
    + FINISH
)
STREAM = _HEAD + _step("Split", "Batch", "Order", "EXPANSION") + _await("Await Provider") + FINISH
PUSHED = DECISION.replace(_KAFKA, _SQS)
PUSHED_STREAM = STREAM.replace(_KAFKA, _SQS)

REJECT = {"await.onItemTimeout": "REJECT_ITEM", "onItemFailure": "REJECT_ITEM"}
"""Settings with which a stream goes on past items that fail or time out."""


class Steps:
    """The service steps of all these pipelines, and what they have seen."""

    def __init__(self) -> None:
        self.finished: list[dict[str, Any]] = []
        self.read = 0
        """Elements taken from the source, over all lives."""

    def functions(self, text: str) -> dict[str, Callable[..., Any]]:
        known = {"Split": self.split, "Prepare": self.prepare, "Transform": self.transform, "Finish": self.finish}
        return {name: function for name, function in known.items() if f"name: {name}," in text}

    def split(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for index in range(int(batch["count"])):
            self.read += 1
            yield {"orderId": f"o-{index}"}

    def prepare(self, order: dict[str, Any]) -> dict[str, Any]:
        return order

    def transform(self, decision: dict[str, Any]) -> dict[str, Any]:
        return {"orderId": f"after {decision['status']}"}

    def finish(self, decision: dict[str, Any]) -> dict[str, Any]:
        self.finished.append(decision)
        return decision


def open_driver(folder: Path, text: str, steps: Steps | None = None, **options: Any) -> TopologyTestDriver:
    """A driver of one of the pipelines above; `options` are the driver's."""
    file = folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    functions = (steps or Steps()).functions(text)
    return TopologyTestDriver(file, functions={**functions, **options.pop("functions", {})}, **options)
