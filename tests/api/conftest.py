"""Restaurant approval behind HTTP, on both logs of one process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.serving import Served, loaded_with, serving


@pytest.fixture(params=["memory", "local"])
async def served(request, tmp_path) -> AsyncIterator[Served]:
    async with serving(loaded_with(), tmp_path / "data" if request.param == "local" else None) as found:
        yield found


@pytest.fixture
async def in_memory() -> AsyncIterator[Served]:
    async with serving(loaded_with()) as found:
        yield found
