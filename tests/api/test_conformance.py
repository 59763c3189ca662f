"""What schemathesis makes of the served document: no answer that the document does not say, and never a 5xx but 503."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.serving import loaded_with, serving
from tpf_streams.api.routes import ROUTES

EXAMPLES = 40
"""Of each operation and mode; the same ones every time."""
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    (route.method, route.path, mode)
    for route in ROUTES
    if not route.endless
    # Of what takes nothing but an id there is nothing wrong to send.
    for mode in (list(GenerationMode) if route.body or route.parameters else [GenerationMode.POSITIVE])
]

load_all_checks()


class Living:
    """A server in a thread of its own, since schemathesis waits for its answers."""

    def __init__(self) -> None:
        self.url = ""
        self.ids: list[str] = []
        self._up = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(30)

    def stop(self) -> None:
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serving(loaded_with()) as served:
            self.url = str(served.client.make_url("")).rstrip("/")
            for number in range(6):
                interaction = await served.waiting(f"o-{number}")
                self.ids += [interaction["interactionId"], interaction["executionId"]]
            self._up.set()
            await self._stop.wait()


@pytest.fixture(scope="module")
def living() -> Iterator[Living]:
    found = Living()
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def document(living) -> Any:
    return schemathesis.openapi.from_url(living.url + "/openapi.json")


@pytest.mark.parametrize(("method", "path", "mode"), OPERATIONS, ids=str)
def test_nothing_that_is_sent_breaks_it(living, document, method, path, mode):
    operation = document[path][method]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=mode),
        ident=st.sampled_from([*living.ids, None, None]),
        tenant=st.sampled_from(["default", None]),
    )
    def send(case, ident, tenant):
        if ident is not None and "id" in (case.path_parameters or {}):
            case.path_parameters["id"] = ident
        if tenant is not None:
            case.headers = {**(case.headers or {}), "x-tenant-id": tenant}
        response = case.call()
        if response.status_code >= 500:
            assert response.status_code == 503 and response.headers.get("retry-after"), response.text
        case.validate_response(response, checks=CHECKS)

    send()
