"""Pipelines that must wait for the outside world. `App` is a Faust app, loaded at first use: no other part is one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpf_streams.app import App

__all__ = ["App"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("tpf_streams.app").App
