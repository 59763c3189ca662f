"""What the steps of csv-payments speak about (contract 12.3). JSON names are camel case, as in pipeline.yaml."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from tpf_streams.connectors.csv_writer import PAYMENT_OUTPUT, CsvLayout


class Model(BaseModel):
    """Immutable: an item that may be looked at again after a crash must still be what it was."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class CsvPaymentsInputFile(Model):
    filepath: str
    csv_folder_path: str


class PaymentRecord(Model):
    id: UUID
    csv_id: str
    recipient: str
    amount: Decimal
    currency: str
    csv_payments_input_file_path: str


class PaymentStatus(Model):
    """What the provider says of a payment; which of its two arms it is, the class says."""

    reference: str
    status: str
    message: str
    fee: Decimal
    conversation_id: UUID
    status_code: int
    payment_record_id: UUID
    payment_record: PaymentRecord


class ApprovedPaymentStatus(PaymentStatus):
    pass


class UnapprovedPaymentStatus(PaymentStatus):
    pass


class PaymentOutcome(Model):
    """One line of the output file."""

    csv_payments_output_filename: str
    csv_payments_input_file_path: str
    csv_id: str
    recipient: str
    amount: Decimal
    currency: str
    conversation_id: UUID
    status: int
    message: str
    fee: Decimal


class ApprovedPaymentOutput(PaymentOutcome):
    pass


class UnapprovedPaymentOutput(PaymentOutcome):
    pass


class PaymentOutput(PaymentOutcome):
    csv_layout: ClassVar[CsvLayout] = PAYMENT_OUTPUT
