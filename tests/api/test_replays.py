"""The replay document over HTTP: all that became true, in pages, for whom it concerns."""

from __future__ import annotations

import asyncio

from tests.api.serving import accepted, declined

REPLAY = "/pipeline/executions/{}/replay"


async def replayed(served, path, last, **query):
    """Events may be readable a moment later than the row that they changed."""
    async with asyncio.timeout(10):
        while True:
            found = await served.get(path, **query)
            if found["events"] and found["events"][-1]["event"] == last:
                return found
            await asyncio.sleep(0.01)


async def test_it_tells_what_became_true(served):
    interaction = await served.waiting()
    path = REPLAY.format(interaction["executionId"])
    waiting = await replayed(served, path, "await_execution_waiting")
    assert (waiting["pipeline"], waiting["status"], waiting["more"]) == ("restaurant-approval", "running", False)
    assert [it["step"] for it in waiting["topology"]["steps"]][2] == "Await Restaurant Decision"
    assert [it["event"] for it in waiting["events"]][:2] == ["start", "await_interaction_dispatched"]
    assert waiting["events"][0]["startTime"] == 0

    await served.complete(interaction, accepted(interaction))
    await served.ended(interaction["executionId"])
    rest = await replayed(served, path, "success", start=waiting["next"])
    names = [it["event"] for it in rest["events"]]
    assert (names[0], names[-1], rest["status"]) == ("await_completion_admitted", "success", "completed")
    whole = await served.get(path)
    assert whole["events"] == waiting["events"] + rest["events"] and whole["durationMs"] >= 0


async def test_it_goes_on_page_by_page(served, monkeypatch):
    interaction = await served.waiting()
    await served.complete(interaction, declined(interaction))
    await served.ended(interaction["executionId"])
    path = REPLAY.format(interaction["executionId"])
    whole = await replayed(served, path, "success")
    monkeypatch.setattr("tpf_streams.api.replays.PAGE_BYTES", 1)
    found, page = [], {"more": True, "next": 0}
    while page["more"]:
        page = await served.get(path, start=page["next"])
        found += page["events"]
    assert found == whole["events"]
    assert (await served.get(path, start=page["next"]))["events"] == []


async def test_it_is_of_ones_own_tenant_alone(in_memory):
    path = REPLAY.format((await in_memory.waiting())["executionId"])
    assert (await in_memory.get(path, 404, headers={"x-tenant-id": "other"}))["outcome"] == "not_found"
    assert (await in_memory.get(REPLAY.format("no-id"), 404))["outcome"] == "not_found"
    for start in ("-1", "x", "9007199254740992", "1" * 40):
        assert (await in_memory.get(path, 400, start=start))["outcome"] == "invalid_argument"
