"""Payments from CSV files: each row waits for a payment provider, and each file comes back as a file of outcomes.

`faust -A topologies.csv_payments worker` finds `app` here. It is made when it is asked for: the steps need no Faust,
and the app needs the steps.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("topologies.csv_payments.worker").app
