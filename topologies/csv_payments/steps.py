"""The five steps of csv-payments (contract 12.3), but for the await: that one is the provider's."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

from topologies.csv_payments.domain import (
    ApprovedPaymentOutput,
    ApprovedPaymentStatus,
    CsvPaymentsInputFile,
    PaymentOutput,
    PaymentRecord,
    PaymentStatus,
    UnapprovedPaymentOutput,
    UnapprovedPaymentStatus,
)
from tpf_streams.connectors.amount import parse_amount
from tpf_streams.connectors.csv_reader import CsvRow, read_csv, scan_csv
from tpf_streams.core.context import StepContext
from tpf_streams.core.step import ItemReject, OnRowError
from tpf_streams.errors import PayloadError, SourceChangedError, TerminalError

COLUMNS = ("ID", "Recipient", "Amount", "Currency")
_CURRENCY = re.compile(r"[A-Z]{3}")


def process_csv_payments_input(
    file: CsvPaymentsInputFile, context: StepContext
) -> Iterator[PaymentRecord | ItemReject]:
    """The payments of a file, in its order, and a reject for each row that is none.

    The whole file is looked at before the first payment leaves: CsvStructureError, SourceChangedError, and with
    `onRowError: FAIL_FILE` TerminalError for the first bad row, come before anything is dispatched (contract 0.15).
    """
    source = context.source_object
    path = source.path if source else posixpath.join(file.csv_folder_path, file.filepath)
    key = source.key if source else file.filepath
    scan = scan_csv(path, COLUMNS, context.encoding, key)
    if source and scan.sha256 != source.etag:
        raise SourceChangedError(f"{key}: the content is not the one that was submitted")
    if context.on_row_error is OnRowError.FAIL_FILE:
        for found in _payments(path, context.encoding, scan.sha256, key):
            if isinstance(found, ItemReject):
                raise TerminalError(f"{key}:{found.line}: {found.column or 'row'}: {found.reason}", "ROW_REJECTED")
    yield from _payments(path, context.encoding, scan.sha256, key)


def _payments(path: str, encoding: str, sha256: str, key: str) -> Iterator[PaymentRecord | ItemReject]:
    for row in read_csv(path, COLUMNS, encoding, sha256, key):
        yield row if isinstance(row, ItemReject) else _payment(row, key)


def _payment(row: CsvRow, key: str) -> PaymentRecord | ItemReject:
    csv_id, recipient, currency = row.cells["ID"], row.cells["Recipient"], row.cells["Currency"]
    if not csv_id:
        return row.reject("ID", "is empty")
    if not recipient:
        return row.reject("Recipient", "is empty")
    try:
        amount = Decimal(parse_amount(row.cells["Amount"]))
    except PayloadError as error:
        return row.reject("Amount", str(error))
    if _CURRENCY.fullmatch(currency) is None:
        return row.reject("Currency", "is not three capital letters")
    return PaymentRecord(
        id=_payment_id(key, csv_id, recipient, amount, currency),
        csv_id=csv_id,
        recipient=recipient,
        amount=amount,
        currency=currency,
        csv_payments_input_file_path=key,
    )


def _payment_id(path: str, csv_id: str, recipient: str, amount: Decimal, currency: str) -> UUID:
    """Made from the payment alone, so that reading the file again gives the same ids."""
    plain = format(amount.normalize(), "f")
    return _name_uuid(f"PaymentRecord|{path}|{csv_id}|{recipient}|{plain}|{currency}")


def _name_uuid(name: str) -> UUID:
    """Java's UUID.nameUUIDFromBytes: version 3 of the text alone, without a namespace."""
    return UUID(bytes=hashlib.md5(name.encode(), usedforsecurity=False).digest(), version=3)


def process_approved_payment_status(status: ApprovedPaymentStatus) -> ApprovedPaymentOutput:
    return ApprovedPaymentOutput(**_outcome(status))


def process_unapproved_payment_status(status: UnapprovedPaymentStatus) -> UnapprovedPaymentOutput:
    return UnapprovedPaymentOutput(**_outcome(status))


def _outcome(status: PaymentStatus) -> dict[str, Any]:
    """Raises TerminalError for an answer that does not say which file its payment came from."""
    payment = status.payment_record
    if not payment.csv_payments_input_file_path.strip():
        raise TerminalError("the payment status names no input file", "INVALID_PAYMENT_STATUS")
    return {
        "csv_payments_output_filename": posixpath.basename(payment.csv_payments_input_file_path),
        "csv_payments_input_file_path": payment.csv_payments_input_file_path,
        "csv_id": payment.csv_id,
        "recipient": payment.recipient,
        "amount": payment.amount,
        "currency": payment.currency,
        "conversation_id": status.conversation_id,
        "status": status.status_code,
        "message": status.message,
        "fee": status.fee,
    }


def finalize_payment_output(outcome: ApprovedPaymentOutput | UnapprovedPaymentOutput) -> PaymentOutput:
    """Both arms meet again."""
    return PaymentOutput(**vars(outcome))
