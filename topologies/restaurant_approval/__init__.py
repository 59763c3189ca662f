"""A person approves: an order waits in an inbox until the restaurant decides.

`faust -A topologies.restaurant_approval worker` finds `app` here. It is made when it is asked for: the steps need no
Faust.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("topologies.restaurant_approval.worker").app
