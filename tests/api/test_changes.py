"""Live changes of pending work: told as they happen, to as many as may listen, to nobody else's tenant."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from tests.api.serving import TENANT, accepted, loaded_with, serving
from tpf_streams.core.effects import Fact
from tpf_streams.runtime.pending_feed import CHANGES_MAX, PendingFeed
from tpf_streams.runtime.views import LogViews

CHANGES = "/pipeline/interactions/changes"


@asynccontextmanager
async def listening(served, headers=TENANT, **query):
    async with served.client.get(CHANGES, headers=headers, params=query) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        assert (await response.content.readuntil(b"\n\n")).startswith(b"retry:")
        yield response.content


async def event(stream):
    async with asyncio.timeout(10):
        name, data = (await stream.readuntil(b"\n\n")).decode().strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def test_who_listens_hears_of_every_change(in_memory):
    async with listening(in_memory) as stream:
        interaction = await in_memory.waiting()
        name, began = await event(stream)
        assert (name, began["interactionId"], began["group"]) == (
            "interaction",
            interaction["interactionId"],
            "Trattoria Uno",
        )
        await in_memory.complete(interaction, accepted(interaction))
        _, ended = await event(stream)
        assert (ended["interactionId"], ended["status"]) == (interaction["interactionId"], "COMPLETED")


async def test_only_what_is_asked_for(in_memory):
    async with (
        listening(in_memory, headers={"x-tenant-id": "other"}) as others,
        listening(in_memory, group="Roma") as roma,
    ):
        await in_memory.waiting("o-1", restaurantName="Uno")
        wanted = await in_memory.waiting("o-2", restaurantName="Roma")
        assert (await event(roma))[1]["interactionId"] == wanted["interactionId"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await others.readuntil(b"\n\n")


async def test_an_idle_line_is_kept_open(in_memory, monkeypatch):
    monkeypatch.setattr("tpf_streams.api.changes.IDLE_S", 0.05)
    async with listening(in_memory) as stream:
        assert (await stream.readuntil(b"\n\n")).startswith(b":")


async def test_as_many_listen_as_may():
    async with serving(loaded_with(http__max_streams="1")) as served:
        async with listening(served), served.client.get(CHANGES, headers=TENANT) as second:
            assert (second.status, second.headers["Retry-After"]) == (503, "1")
        async with asyncio.timeout(5):
            while len(served.api.feed):
                await served.get("/health")
        async with listening(served):
            pass


async def test_the_end_of_the_server_ends_the_line(in_memory):
    async with listening(in_memory) as stream:
        in_memory.api.feed.close()
        assert await stream.read() == b""


async def test_who_is_too_slow_is_told_to_list_anew(in_memory):
    interaction = await in_memory.waiting()
    record = LogViews(in_memory.log, in_memory.loaded.definition).interaction(interaction["interactionId"])
    feed = PendingFeed()
    with feed.listening("default") as listener:
        feed.observe([Fact("interaction.created.total", {}, {}, 1, record)] * (CHANGES_MAX + 1))
        await asyncio.sleep(0)
        async for found, lost in listener.lots(5):
            assert (len(found), lost) == (CHANGES_MAX, True)
            break
