"""The pipelines that come with the package load, and their steps do what the contract says (12.3, 12.4)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tpf_streams.core.context import StepContext
from tpf_streams.core.step import AwaitDefinition, ItemReject, OnRowError, Parallelism, SourceObject
from tpf_streams.dsl import LoadedPipeline, load_pipeline
from tpf_streams.errors import CsvStructureError, SourceChangedError, TerminalError

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
ENVIRON = {"PIPELINE_ORCHESTRATOR_RESUME_TOKEN_SECRET": "secret of the demonstration"}
ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def load(name: str) -> LoadedPipeline:
    return load_pipeline(TOPOLOGIES / name / "pipeline.yaml", environ=ENVIRON)


@pytest.fixture(scope="module")
def csv() -> LoadedPipeline:
    return load("csv_payments")


def context(path: Path, etag: str | None = None, **changes: Any) -> StepContext:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    source = SourceObject("csv-payment-files", "file", str(path.parent), path.name, etag or found, str(path))
    return StepContext("tenant", "execution", 1_700_000_000_000, source_object=source, **changes)


def rows(csv: LoadedPipeline, path: Path, **changes: Any) -> list[Any]:
    payload = csv.types.converter("CsvPaymentsInputFile")({"filepath": path.name, "csvFolderPath": str(path.parent)})
    step = csv.bindings[0]
    return [step.finish(item) for item in step.call(payload, context(path, **changes))]


def payments(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "payments.csv"
    path.write_text("\n".join(("ID,Recipient,Amount,Currency", *lines, "")), encoding="utf-8")
    return path


def status(payment: Any, **changes: Any) -> dict[str, Any]:
    return {
        "reference": "101", "status": "Complete", "message": "Mock response", "fee": "1.01", "conversationId": ID,
        "statusCode": "1000", "paymentRecordId": payment["id"], "paymentRecord": payment,
    } | changes  # fmt: skip


def test_csv_payments_has_its_settings(csv):
    definition = csv.definition
    assert definition.parallelism is Parallelism.PARALLEL
    assert (definition.window, definition.budget) == (250, 250)
    assert csv.settings.text("pipeline.orchestrator.idempotency-policy") == "CLIENT_KEY_REQUIRED"


def test_rows_become_payments(csv, tmp_path):
    (payment,) = rows(csv, payments(tmp_path, "1,Natasha Thomas,5047.20,AUD"))
    assert csv.types.to_json(payment) == {
        "id": str(payment.id),
        "csvId": "1",
        "recipient": "Natasha Thomas",
        "amount": "5047.20",
        "currency": "AUD",
        "csvPaymentsInputFilePath": "payments.csv",
    }
    name = b"PaymentRecord|payments.csv|1|Natasha Thomas|5047.2|AUD"
    digest = bytearray(hashlib.md5(name).digest())
    digest[6], digest[8] = digest[6] & 0x0F | 0x30, digest[8] & 0x3F | 0x80
    assert payment.id.bytes == bytes(digest)
    assert payment.id.version == 3


def test_bad_rows_are_rejected_one_by_one(csv, tmp_path):
    path = payments(
        tmp_path, "1,A,10.00,EUR", ",B,10.00,EUR", "3,,10.00,EUR", '4,D,"1,00",EUR', "5,E,10.00,eur", "6,F", "7,G,5,USD"
    )
    found = rows(csv, path)
    rejects = [(it.line, it.column) for it in found if isinstance(it, ItemReject)]
    assert rejects[:4] == [(3, "ID"), (4, "Recipient"), (5, "Amount"), (6, "Currency")]
    assert [it.csv_id for it in found if not isinstance(it, ItemReject)] == ["1", "7"]
    assert found == rows(csv, path)


def test_fail_file_stops_before_the_first_payment(csv, tmp_path):
    path = payments(tmp_path, "1,A,10.00,EUR", "2,B,ten,EUR")
    with pytest.raises(TerminalError, match=r"payments.csv:3: Amount: ") as caught:
        rows(csv, path, on_row_error=OnRowError.FAIL_FILE)
    assert caught.value.code == "ROW_REJECTED"
    assert len(rows(csv, payments(tmp_path, "1,A,10.00,EUR"), on_row_error=OnRowError.FAIL_FILE)) == 1


def test_a_broken_or_changed_file_gives_nothing(csv, tmp_path):
    broken = payments(tmp_path, "1,A,10.00,EUR", '2,"B,10.00,EUR')
    step = csv.bindings[0]
    payload = csv.types.converter("CsvPaymentsInputFile")({"filepath": "payments.csv", "csvFolderPath": "."})
    with pytest.raises(CsvStructureError):
        next(step.call(payload, context(broken)))
    with pytest.raises(SourceChangedError):
        next(step.call(payload, context(payments(tmp_path, "1,A,10.00,EUR"), etag="0" * 64)))


def test_without_a_source_object_the_payload_names_the_file(csv, tmp_path):
    path = payments(tmp_path, "1,A,10.00,EUR")
    payload = csv.types.converter("CsvPaymentsInputFile")({"filepath": path.name, "csvFolderPath": str(tmp_path)})
    (payment,) = csv.bindings[0].call(payload, StepContext("tenant", "execution", 0))
    assert payment.csv_payments_input_file_path == "payments.csv"


@pytest.mark.parametrize(("arm", "index"), [("approved", 2), ("unapproved", 3)])
def test_an_answer_becomes_an_output(csv, tmp_path, arm, index):
    (payment,) = rows(csv, payments(tmp_path, "1,A,10.00,EUR"))
    step = csv.definition.steps[1]
    assert isinstance(step, AwaitDefinition)
    value: Any = step.convert({arm: status(csv.types.to_json(payment))})
    taken = []
    for binding in (csv.bindings[2], csv.bindings[3], csv.bindings[4]):
        if binding.accepts(value):
            taken.append(binding.index)
            value = binding.finish(binding.call(value, context(tmp_path / "payments.csv")))
    assert taken == [index, 4]
    assert csv.types.to_json(value, "PaymentOutput") == {
        "csvPaymentsOutputFilename": "payments.csv", "csvPaymentsInputFilePath": "payments.csv", "csvId": "1",
        "recipient": "A", "amount": "10.00", "currency": "EUR", "conversationId": ID, "status": "1000",
        "message": "Mock response", "fee": "1.01",
    }  # fmt: skip


def test_an_answer_without_a_file_cannot_be_placed(csv, tmp_path):
    (payment,) = rows(csv, payments(tmp_path, "1,A,10.00,EUR"))
    blank = csv.types.to_json(payment) | {"csvPaymentsInputFilePath": " "}
    value = csv.types.converter("PaymentStatus")({"approved": status(blank)})
    with pytest.raises(TerminalError, match="names no input file"):
        csv.bindings[2].call(value, context(tmp_path / "payments.csv"))


def test_fraud_check_releases_what_is_approved():
    loaded = load("fraud_check")
    decision = {"orderId": "o-1", "approved": True, "score": "12", "reason": "fine"}
    step = loaded.bindings[1]
    value = step.finish(step.call(loaded.types.converter("FraudCheckDecision")(decision), StepContext("t", "e", 0)))
    assert loaded.types.to_json(value) == {"orderId": "o-1", "released": True, "reason": "fine"}


REQUEST = {
    "requestId": ID, "customerName": "Ada", "restaurantName": "Trattoria", "items": "2 x pasta", "totalAmount": "27.50",
    "currency": "EUR",
}  # fmt: skip


def pending(loaded: LoadedPipeline, execution: str = "execution-1", **changes: str) -> Any:
    where = StepContext("tenant", execution, 1_767_225_600_123)
    value: Any = loaded.types.converter("PlaceRestaurantOrderRequest")(REQUEST | changes)
    for index in (0, 1):
        step = loaded.bindings[index]
        value = step.finish(step.call(value, where))
    return loaded.types.to_json(value)


def test_an_order_waits_under_an_id_that_a_repeat_gives_again():
    loaded = load("restaurant_approval")
    order = pending(loaded)
    assert order == REQUEST | {"orderId": order["orderId"], "createdAt": "2026-01-01T00:00:00.123Z"}
    assert pending(loaded) == order
    assert pending(loaded, "execution-2")["orderId"] != order["orderId"]


@pytest.mark.parametrize(("field", "blank"), [("customerName", " "), ("items", ""), ("totalAmount", "0.00")])
def test_an_order_that_asks_for_nothing_is_refused(field, blank):
    with pytest.raises(TerminalError) as caught:
        pending(load("restaurant_approval"), **{field: blank})
    assert caught.value.code == "INVALID_ORDER"


@pytest.mark.parametrize(
    ("arm", "more", "outcome", "restaurant", "summary"),
    [
        ("accepted", {}, "APPROVED", "ACCEPTED", "Restaurant approved the order."),
        ("accepted", {"note": "20 minutes"}, "APPROVED", "ACCEPTED", "20 minutes"),
        ("declined", {"declineReason": "closed"}, "DECLINED", "DECLINED", "closed"),
        ("declined", {"declineReason": "closed", "note": "sorry"}, "DECLINED", "DECLINED", "sorry (closed)"),
    ],
)
def test_the_restaurants_decision(arm, more, outcome, restaurant, summary):
    loaded = load("restaurant_approval")
    decision = {arm: {"orderId": ID, "decidedAt": "2026-01-01T00:00:00Z"} | more}
    step = loaded.bindings[3]
    value = step.finish(step.call(loaded.types.converter("RestaurantDecision")(decision), StepContext("t", "e", 0)))
    assert loaded.types.to_json(value) == {
        "orderId": ID, "outcome": outcome, "resolvedAt": "2026-01-01T00:00:00Z", "restaurantStatus": restaurant,
        "summary": summary,
    }  # fmt: skip
