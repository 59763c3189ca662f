"""A partner with types of its own: what protoc would have generated for it, and the steps and projectors beside it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, ConfigDict, Field

PIPELINE = """
version: 3
appName: Order Check
types:
  Order:
    fields: [[orderId, string], [amount, decimal], [currency, currency], [priority, int64]]
  Approved:
    fields: [[orderId, string], [score, int64], [limit, decimal]]
  Declined:
    fields: [[orderId, string], [reason, string]]
  Decision:
    variants: {approved: Approved, declined: Declined}
  Released:
    fields: [[orderId, string], [released, boolean], [note, string]]
steps:
  - name: Check Order
    kind: await
    input: Order
    output: Decision
    timeout: PT10M
    idempotencyKeyFields: [orderId]
    await:
      correlation: {strategy: signedResumeToken}
      #completion
      transport:
        type: kafka
        #types
        request: {topic: checks.requests}
        response: {topic: checks.decisions}
  - name: Release
    service: tests.topology.partner:release
    input: Decision
    output: Released
"""
ORDER = {"orderId": "o-1", "amount": "100000000000000001.10", "currency": "EUR", "priority": "9007199254740993"}
PROTOBUF = "inputType: tests.topology.partner:OrderMessage\n        outputType: tests.topology.partner:DecisionMessage"
PROJECTED = "completion: {type: tests.topology.partner:Verdict, projector: tests.topology.partner:decided}"


def written(*, types: str = "", completion: str = "", pipeline: str = PIPELINE) -> str:
    return pipeline.replace("#types", types).replace("#completion", completion)


# What protoc generates of the partner's file

_TYPES = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "int32": FieldDescriptorProto.TYPE_SINT32,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


def messages(package: str, **declared: dict[str, str]) -> Any:
    """Message classes by name: `field: type`; `[type]` is repeated, `oneof type` an arm, `enum A|B` an enum."""
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in declared.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            _add(message, field, kind, number, f".{package}.")
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in declared}


def _add(message: Any, name: str, kind: str, number: int, prefix: str) -> None:
    bare = kind.strip("[]").removeprefix("oneof ")
    field = message.field.add(name=name, number=number, label=3 if kind[0] == "[" else 1)
    if kind.startswith("oneof "):
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0
    if bare.startswith("enum "):
        enum = message.enum_type.add(name=f"{name.title()}Kind")
        for value, text in enumerate(bare.removeprefix("enum ").split("|")):
            enum.value.add(name=text, number=value)
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, f"{prefix}{message.name}.{enum.name}"
    elif bare in _TYPES:
        field.type = _TYPES[bare]
    else:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, prefix + bare


_MESSAGES = messages(
    "partner.v1",
    OrderMessage={"order_id": "string", "amount": "string", "currency": "string", "priority": "int64"},
    ApprovedMessage={"order_id": "string", "score": "int64", "limit": "string", "tags": "[string]"},
    DeclinedMessage={"order_id": "string", "reason": "string"},
    DecisionMessage={"approved": "oneof ApprovedMessage", "declined": "oneof DeclinedMessage"},
)
OrderMessage, DecisionMessage = _MESSAGES["OrderMessage"], _MESSAGES["DecisionMessage"]

_STATUS = {
    "reference": "string", "status": "string", "message": "string", "fee": "string", "conversation_id": "string",
    "status_code": "int64", "payment_record_id": "string", "payment_record": "PaymentRecord",
}  # fmt: skip
_PAYMENTS = messages(
    "payments.v1",
    PaymentRecord={
        "id": "string", "csv_id": "string", "recipient": "string", "amount": "string", "currency": "string",
        "csv_payments_input_file_path": "string",
    },
    Approved=_STATUS,
    Unapproved=_STATUS,
    PaymentStatus={"approved": "oneof Approved", "unapproved": "oneof Unapproved"},
)  # fmt: skip
PaymentRecordMessage, PaymentStatusMessage = _PAYMENTS["PaymentRecord"], _PAYMENTS["PaymentStatus"]
"""Of csv-payments."""


# What the pipeline speaks


@dataclass(frozen=True)
class Order:
    orderId: str  # noqa: N815
    amount: Decimal
    currency: str
    priority: int


@dataclass(frozen=True)
class Approved:
    orderId: str  # noqa: N815
    score: int
    limit: Decimal


@dataclass(frozen=True)
class Declined:
    orderId: str  # noqa: N815
    reason: str


def release(decision: Approved | Declined) -> dict[str, Any]:
    match decision:
        case Approved(order_id, score, limit):
            return {"orderId": order_id, "released": True, "note": f"{score + 1} of {limit}"}
        case Declined(order_id, reason):
            return {"orderId": order_id, "released": False, "note": reason}


# What a person answers, and what becomes of it


class SmallOrder(BaseModel):
    """A partner that takes no large ones."""

    orderId: str  # noqa: N815
    amount: Decimal = Field(lt=1000)
    currency: str
    priority: int


class Verdict(BaseModel):
    """`reasons` is no field that a declared type could have."""

    model_config = ConfigDict(extra="forbid")

    ok: bool
    reasons: list[str] = []
    share: Decimal = Field(default=Decimal(1), ge=0, le=1)


def decided(order: Order, verdict: Verdict) -> Approved | Declined:
    if not verdict.ok:
        return Declined(order.orderId, ", ".join(verdict.reasons))
    if "impossible" in verdict.reasons:
        raise ValueError(f"secret {order.orderId}")
    return Approved(order.orderId, order.priority, order.amount * verdict.share)


def decided_otherwise(order: Order, verdict: Verdict) -> Approved | Declined:
    return Declined(order.orderId, "otherwise")


def decided_by_message(order: dict[str, Any], message: Any) -> dict[str, Any]:
    """`message`: a DecisionMessage; plain JSON of the request, and of the output."""
    arm = message.WhichOneof("value")
    return {"declined": {"orderId": order["orderId"], "reason": f"{arm} after all"}}


def decided_by_word(order: Order, ok: bool) -> dict[str, Any]:
    return {"declined": {"orderId": order.orderId, "reason": f"a plain {ok}"}}
