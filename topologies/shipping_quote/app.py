"""The pipeline: what may be asked, who is asked, and what becomes of either answer. There is no YAML.

Each declaration is the next step, and the types are those of the annotations. The same code checks them as checks a
pipeline.yaml, and a mistake is told with the line of its declaration.
"""

from __future__ import annotations

from faust.web import Request, Response, View

from topologies.shipping_quote.domain import Parcel, Quote, QuoteRequest, Refusal, Shipment
from tpf_streams import App
from tpf_streams.core.json_policy import parse_json
from tpf_streams.dsl import load_pipeline
from tpf_streams.errors import JsonPolicyError, TerminalError

EXPRESS_GRAMS_MAX = 2_000
BODY_BYTES_MAX = 64 * 1024

app = App("shipping-quote")


@app.step("Check Parcel")
def check_parcel(parcel: Parcel) -> QuoteRequest:
    if parcel.grams <= 0:
        raise TerminalError("a parcel weighs something", "INVALID_PARCEL")
    return QuoteRequest(parcel.parcel_id, parcel.grams, parcel.country, parcel.grams <= EXPRESS_GRAMS_MAX)


carrier = app.await_step(
    "Ask Carrier",
    output=Quote | Refusal,
    timeout="PT1H",
    idempotency={"fields": ["parcel_id"]},
    transport={
        "type": "kafka",
        "request": {"topic": "shipping-quote.requests", "key": "correlationId"},
        "response": {"topic": "shipping-quote.quotes"},
    },
)


@app.step("Book Shipment")
def book_shipment(answer: Quote | Refusal) -> Shipment:
    if isinstance(answer, Refusal):
        return Shipment(answer.parcel_id, False, answer.reason)
    return Shipment(answer.parcel_id, True, f"{answer.price} in {answer.days} days")


@app.page("/parcels/")
class Parcels(View):
    """POST a parcel, GET where each one stands on this worker."""

    async def post(self, request: Request) -> Response:
        try:
            parcel = parse_json(await request.read(), BODY_BYTES_MAX)
        except JsonPolicyError as error:
            return self.json({"problem": str(error)}, status=400)
        if not isinstance(parcel, dict) or not isinstance(parcel.get("parcel_id"), str):
            return self.json({"problem": "an object with a parcel_id is wanted"}, status=400)
        return self.json({"executionId": await app.submit(parcel, key=parcel["parcel_id"])})

    async def get(self, request: Request) -> Response:
        rows = app.executions.values()
        return self.json([[row.execution_key, row.status.value, row.error_message] for row in rows])


@app.command()
async def steps() -> None:
    """List the steps and the types that flow between them."""
    loaded = load_pipeline(app.document, functions=app.functions, require_secret=False)
    for step in loaded.definition.steps:
        print(f"{step.name}: {step.input_type} -> {step.output_type}")  # noqa: T201 - a command's answer
