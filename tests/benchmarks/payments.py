"""The application that is measured: csv-payments, its topics, and files of payments of any length."""

from __future__ import annotations

from pathlib import Path

from tpf_streams.engine.wire import events_topic

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = ROOT / "topologies" / "csv_payments" / "pipeline.yaml"

REQUESTS = "csv-payments.payment.requests"
RESPONSES = "csv-payments.payment.results"
EVENTS = events_topic("csv-payments")
OUTPUTS = "csv-payments-outputs"

WINDOW = 250
"""`pipeline.max-concurrency` of the pipeline file."""

_NAMES = ("Ama Osei", "Björn Lindqvist", "Chen Wei", "Dolores Iglesias", "Emeka Moreau", "Fatima Haddad", "Gus O'Hara")
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY")


def write_payments(path: Path, rows: int, first: int = 1) -> Path:
    """A file of `rows` payments with ids from `first` on; the same call writes the same bytes."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("ID,Recipient,Amount,Currency\n")
        for number in range(first, first + rows):
            cents = number * 7919 % 1_000_000 + 1
            name, currency = _NAMES[number % len(_NAMES)], _CURRENCIES[number % len(_CURRENCIES)]
            file.write(f"{number},{name},{cents // 100}.{cents % 100:02d},{currency}\n")
    return path
