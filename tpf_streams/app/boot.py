"""What a worker starts, and in which order: the engine first, then Faust's own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, cast

from faust.app import BootStrategy
from faust.types import ServiceT

from tpf_streams.app.api_pages import add_api

if TYPE_CHECKING:
    from tpf_streams.app.application import App


class EngineBootStrategy(BootStrategy):
    """First, because it makes the topics that agents read; last to stop, because async steps run on this loop."""

    def web_server(self) -> Iterable[ServiceT]:
        found = list(super().web_server())
        if found:
            add_api(cast("App", self.app))
        return found

    def server(self) -> Iterable[ServiceT]:
        return chain([cast("App", self.app).engine_service], super().server())
