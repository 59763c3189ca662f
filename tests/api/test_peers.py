"""Any worker answers for any execution: what it does not have it asks the owner of, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from aiohttp import ClientError, web
from aiohttp.test_utils import TestServer

from tests.api.fleet import Fleet, WorkerServed, fleet
from tests.api.serving import ORDER, TENANT, accepted, declined
from tpf_streams.api import peers, routes, service
from tpf_streams.api.hops import HOP_HEADER
from tpf_streams.core.execution import TombstoneRecord
from tpf_streams.core.identity import partition_of, route_of
from tpf_streams.core.rows import Keys, decode, encode
from tpf_streams.engine.owners import Advertised, Owner
from tpf_streams.errors import TaskLostError

OPEN = ("WAITING", "DISPATCHED")
PENDING = "/pipeline/interactions/pending"


@pytest.fixture
async def two():
    async with fleet((0, 1), (2, 3)) as found:
        yield found


async def unavailable(worker: WorkerServed, method: str, path: str, **more) -> str:
    """What is said in a 503 with Retry-After."""
    async with worker.client.request(method, path, headers={**TENANT, **more.pop("headers", {})}, **more) as found:
        assert (found.status, found.headers.get("Retry-After")) == (503, "1"), await found.text()
        assert found.content_type == "application/problem+json"
        return str((await found.json(content_type=None))["detail"])


@pytest.mark.parametrize("decide", [accepted, declined])
async def test_an_approval_by_way_of_the_worker_that_does_not_have_it(two: Fleet, decide):
    """Everything that a person asks: begun, listed, looked at, decided, its result; step index 2 before and 3 after."""
    stranger = two.workers[0]
    key = two.key_in(2)
    begun = await stranger.post("/pipeline/run-async", ORDER, 202, Idempotency_Key=key)
    assert begun["duplicate"] is False
    again = await stranger.post("/pipeline/run-async", ORDER, 202, Idempotency_Key=key)
    assert again == {**begun, "duplicate": True}
    interaction = await stranger.waiting(key)
    assert interaction["executionId"] == begun["executionId"]
    assert (await stranger.get(f"/pipeline/interactions/{interaction['interactionId']}"))["status"] in OPEN
    path = f"/pipeline/executions/{begun['executionId']}"
    waiting = await stranger.get(path)
    assert (waiting["status"], waiting["stepIndex"]) == ("WAITING_EXTERNAL", 2)
    assert (await stranger.get(path + "/result", 409))["outcome"] == "not_finished"
    assert (await stranger.complete(interaction, decide(interaction)))["duplicate"] is False
    assert (await stranger.complete(interaction, decide(interaction)))["duplicate"] is True
    assert (await stranger.ended(begun["executionId"]))["stepIndex"] == 3
    result = await stranger.get(path + "/result")
    assert result == await two.workers[1].get(path + "/result")
    assert result["outcome"] == ("APPROVED" if decide is accepted else "DECLINED")


async def test_what_the_owner_refuses_is_refused(two: Fleet):
    stranger = two.workers[0]
    interaction = await stranger.waiting(two.key_in(3))
    refused = await stranger.complete(interaction, {"accepted": {"orderId": 1}}, 422)
    assert refused["outcome"] == "invalid_payload"
    await stranger.complete(interaction, accepted(interaction))
    assert (await stranger.complete(interaction, declined(interaction), 409))["outcome"] == "conflict"
    cancelled = await stranger.post(f"/pipeline/executions/{interaction['executionId']}/cancel", None, 409)
    assert cancelled["outcome"] == "terminal"
    other = {"x-tenant-id": "another"}
    await stranger.get(f"/pipeline/executions/{interaction['executionId']}", 404, other)


async def test_an_interaction_and_an_execution_are_cancelled_from_anywhere(two: Fleet):
    stranger = two.workers[1]
    one, other = [await stranger.waiting(two.key_in(0, number)) for number in range(2)]
    told = await stranger.post(f"/pipeline/interactions/{one['interactionId']}/cancel", {"reason": "no"})
    assert told == {"outcome": "cancelled"}
    told = await stranger.post(f"/pipeline/executions/{other['executionId']}/cancel")
    assert told == {"outcome": "cancelled"}
    redriven = await stranger.post(f"/pipeline/executions/{one['executionId']}/redrive", {"allowFailed": True})
    assert redriven == {"outcome": "redriven"}


async def test_an_id_of_nobody_is_not_found_wherever_it_is_asked_for(two: Fleet):
    stranger = two.workers[0]
    unknown = two._ids.execution_id("default", two._pipeline_id, two.key_in(2), 0)
    await stranger.get(f"/pipeline/executions/{unknown}", 404)
    await stranger.get("/pipeline/executions/none-of-ours", 404)


@pytest.mark.parametrize("asked", [0, 1, 2])
@pytest.mark.parametrize("next_home", [0, 1, 2])
async def test_a_key_is_used_again_whoever_has_its_lives(asked, next_home):
    """The first life's home is the second worker, the next one's any; who is asked has either, both or none."""
    async with fleet((0, 1), (2,), (3,)) as found:
        homes = {0: (0, 1), 1: (2,), 2: (3,)}
        ids, pipeline_id = found._ids, found._pipeline_id

        def life(key: str, number: int) -> str:
            return ids.execution_id("default", pipeline_id, key, number)

        def home(ident: str) -> int:
            return partition_of(route_of(ident) or 0, 4)

        key = next(
            key
            for number in range(10_000)
            if home(life(key := f"again-{number}", 0)) == 2 and home(life(key, 1)) in homes[next_home]
        )
        stone = TombstoneRecord("default", key, life(key, 0), 0, expires_at_epoch_ms=2**50)
        whole = found.workers[1].own_log.whole
        whole._state.stores[2].write({Keys(2).tombstone(life(key, 0)): encode(stone)})
        worker = found.workers[asked]
        begun = await worker.post("/pipeline/run-async", ORDER, 202, Idempotency_Key=key)
        assert begun["executionId"] == life(key, 1)
        again = await worker.post("/pipeline/run-async", ORDER, 202, Idempotency_Key=key)
        assert again == {**begun, "duplicate": True}
        other = {**ORDER, "customerName": "Bob"}
        assert (await worker.post("/pipeline/run-async", other, 409, Idempotency_Key=key))["outcome"] == "conflict"
        interaction = await worker.waiting(key)
        await worker.complete(interaction, accepted(interaction))
        assert (await worker.ended(life(key, 1)))["status"] == "SUCCEEDED"
        value = whole._state.stores[2].get(Keys(2).tombstone(life(key, 0)))
        assert value is not None
        remembered = decode(TombstoneRecord, value)
        assert (remembered.life, remembered.expires_at_epoch_ms) == (1, None)


# --- what is not known just now ---------------------------------------------------------------------------------------


async def test_while_nobody_has_the_partition_nothing_is_said_of_its_rows(two: Fleet):
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    execution = f"/pipeline/executions/{interaction['executionId']}"
    body = {"interactionId": interaction["interactionId"], "responsePayload": accepted(interaction)}
    await two.take_away(other, 2)
    for worker in two.workers:
        await unavailable(worker, "GET", execution)
        await unavailable(worker, "GET", execution + "/result")
        await unavailable(worker, "GET", f"/pipeline/interactions/{interaction['interactionId']}")
        await unavailable(worker, "GET", PENDING)
        await unavailable(worker, "POST", "/pipeline/interactions/complete", json=body)
        await unavailable(worker, "POST", execution + "/cancel")
    await two.give(one, 2)
    for worker in two.workers:
        assert (await worker.get(execution))["status"] == "WAITING_EXTERNAL"
        assert [it["interactionId"] for it in await worker.get(PENDING)] == [interaction["interactionId"]]
    assert (await other.complete(interaction, accepted(interaction)))["duplicate"] is False


async def test_who_knows_an_earlier_owner_is_told_to_ask_again(two: Fleet):
    """Not passed on a second time, and not answered by the same worker under another incarnation."""
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    execution = f"/pipeline/executions/{interaction['executionId']}"
    one.following.listens = False
    await other.application.worker._drop(2)
    await other.application.worker.advance(2)
    assert "not here any more as it was" in await unavailable(one, "GET", execution)
    await unavailable(one, "GET", PENDING)
    one.following.listens = True
    await two.settled()
    assert (await one.get(execution))["status"] == "WAITING_EXTERNAL"


async def test_a_worker_that_may_have_been_replaced_shows_no_rows(two: Fleet):
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    other.own_log.counted_on = False
    for worker in two.workers:
        await unavailable(worker, "GET", f"/pipeline/executions/{interaction['executionId']}")
        await unavailable(worker, "GET", PENDING)
    other.own_log.counted_on = True
    assert (await other.get(f"/pipeline/executions/{interaction['executionId']}"))["stepIndex"] == 2


async def test_who_is_asked_by_a_worker_asks_no_third(two: Fleet):
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    path, hop = f"/pipeline/executions/{interaction['executionId']}", {HOP_HEADER: "2@1"}
    await unavailable(one, "GET", path, headers=hop)
    incarnation = other.application.worker.tasks[2].log.incarnation
    found = await other.get(path, 200, {**TENANT, HOP_HEADER: f"2@{incarnation}"})
    assert found["status"] == "WAITING_EXTERNAL"
    for text in ("", "2", "2@", "a@1", "2@1@1", "2@-1", "2@1,", "²@1"):
        async with other.client.get(path, headers={**TENANT, HOP_HEADER: text}) as refused:
            assert refused.status == 400, text


async def test_an_owner_that_serves_nothing_is_not_asked():
    async with fleet((0, 1), (2, 3)) as found:
        one, other = found.workers
        interaction = await one.waiting(found.key_in(2))
        other.application.environment.advertised = Advertised(other.peers.worker_id, None)
        await other.application.worker._drop(2)
        await other.application.worker.advance(2)
        await found.settled()
        told = await unavailable(one, "GET", f"/pipeline/executions/{interaction['executionId']}")
        assert told == "the worker that has partition 2 serves no HTTP"


async def test_where_something_else_answers_it_is_not_believed(two: Fleet):
    """An address is used again: its 404 is no answer of ours."""
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    other.peers.worker_id = "another"
    told = await unavailable(one, "GET", f"/pipeline/executions/{interaction['executionId']}")
    assert told == "another program answers where the worker that has partition 2 is said to be"
    await unavailable(one, "GET", PENDING)


async def test_an_owner_that_has_gone_or_is_silent_is_a_503_in_time(monkeypatch):
    async with fleet((0, 1), (2, 3)) as found:
        one, other = found.workers
        interaction = await one.waiting(found.key_in(2))
        one.peers._answer_s = 0.2
        body = {"interactionId": interaction["interactionId"], "responsePayload": accepted(interaction)}

        async def hang(*_):
            await asyncio.sleep(60)

        monkeypatch.setattr(other.application, "complete", hang)
        told = await unavailable(one, "POST", "/pipeline/interactions/complete", json=body)
        assert told.startswith("the worker that has partition 2 has not answered")
        await other.client.server.close()
        await unavailable(one, "POST", "/pipeline/interactions/complete", json=body)
        await unavailable(one, "GET", PENDING)


async def test_a_write_whose_task_is_lost_is_answered_at_once(two: Fleet, monkeypatch):
    """Long before the time for an answer is over; what was asked holds, and is told as a duplicate."""
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    body = {"interactionId": interaction["interactionId"], "responsePayload": accepted(interaction)}
    worker, task = other.application.worker, other.application.worker.tasks[2]

    take = task._take_records

    async def lost(found):
        if found:
            raise TaskLostError("this turn is none")
        return await take(found)

    monkeypatch.setattr(task, "_take_records", lost)
    async with asyncio.timeout(4):
        await unavailable(one, "POST", "/pipeline/interactions/complete", json=body)
    async with asyncio.timeout(10):
        while worker.tasks.get(2) in (None, task):
            await asyncio.sleep(0.01)
    await two.settled()
    await one.ended(interaction["executionId"])
    assert (await one.complete(interaction, accepted(interaction)))["duplicate"] is True


# --- lists ------------------------------------------------------------------------------------------------------------


async def pages(worker: WorkerServed, between, **query) -> list[list[dict[str, object]]]:
    """Every page of a list, by the cursor of each; `between` is awaited with what has been shown so far."""
    found: list[list[dict[str, object]]] = []
    while True:
        async with worker.client.get(PENDING, headers=TENANT, params=query) as page:
            assert page.status == 200, await page.text()
            found.append(await page.json())
            cursor = page.headers.get("x-next-cursor")
            following = page.headers.get("Link")
        if cursor is None:
            assert following is None
            return found
        assert f"cursor={cursor}" in (following or "")
        query["cursor"] = cursor
        await between(found)


async def waiting_everywhere(fleet: Fleet, count: int, **order: str) -> dict[str, dict[str, object]]:
    """So many interactions of every partition, by their ids."""
    one = fleet.workers[0]
    keys = [fleet.key_in(partition, number) for partition in range(4) for number in range(count)]
    ids = await asyncio.gather(*(one.submitted(key, **order) for key in keys))
    async with asyncio.timeout(20):
        while len(found := await one.get(PENDING, limit=500)) < len(keys):
            await asyncio.sleep(0.02)
    assert {it["executionId"] for it in found} == set(ids)
    return {str(it["interactionId"]): it for it in found}


async def test_a_list_over_all_workers_misses_nothing_while_it_is_worked_on(two: Fleet):
    """Page by page, with as many answers between the pages as a page has entries: of those that have been shown, and of
    those that have not."""
    one, other = two.workers
    before = await waiting_everywhere(two, 8)
    done: set[str] = set()

    async def answer_some(found) -> None:
        shown = [str(it["interactionId"]) for page in found for it in page]
        late = [ident for ident in before if ident not in shown and ident not in done]
        for ident in [*shown[-2:], *late[-1:]]:
            if ident not in done:
                done.add(ident)
                await other.complete(before[ident], accepted(before[ident]))

    found = await pages(one, answer_some, limit=5)
    shown = [it for page in found for it in page]
    places = [(it["deadlineEpochMs"], it["interactionId"]) for it in shown]
    assert places == sorted(set(places)), "in the order of the deadlines over all workers, none twice"
    idents = {str(it["interactionId"]) for it in shown}
    assert before.keys() - done <= idents, "none missed"
    assert len(found) >= 5


async def test_filters_hold_over_all_workers_and_every_worker_lists_the_same(two: Fleet):
    before = await waiting_everywhere(two, 2)
    await waiting_everywhere_of(two, "Trattoria Due")

    async def nothing(_) -> None: ...

    lists = [
        [it["interactionId"] for page in await pages(worker, nothing, limit=3, group="Trattoria Uno") for it in page]
        for worker in two.workers
    ]
    assert lists[0] == lists[1]
    assert set(lists[0]) == before.keys()
    for worker in two.workers:
        async with worker.client.get(PENDING, headers=TENANT, params={"cursor": "none"}) as refused:
            assert refused.status == 400
        assert await worker.get(PENDING, 200, {"x-tenant-id": "another"}) == []


async def waiting_everywhere_of(fleet: Fleet, restaurant: str) -> None:
    for partition in range(4):
        await fleet.workers[0].waiting(fleet.key_in(partition, 10), restaurantName=restaurant)


async def test_a_list_is_whole_or_it_is_none(two: Fleet):
    """While one partition is with nobody a list without its rows would look like a whole one."""
    one, other = two.workers
    await waiting_everywhere(two, 1)
    await two.take_away(other, 3)
    for worker in two.workers:
        await unavailable(worker, "GET", PENDING)
    await two.give(one, 3)
    for worker in two.workers:
        assert len(await worker.get(PENDING)) == 4


async def test_a_list_of_more_partitions_than_a_header_holds_is_asked_for_in_parts(two: Fleet, monkeypatch):
    monkeypatch.setattr(peers, "PARTITIONS_A_HOP", 1)
    before = await waiting_everywhere(two, 1)
    assert len(two.workers[0].peers.shares()) == 4
    assert {it["interactionId"] for it in await two.workers[0].get(PENDING)} == before.keys()


async def test_a_long_answer_of_the_owner_is_passed_along_and_breaks_where_it_breaks(two: Fleet, monkeypatch):
    """In pieces, without being held as a whole; and one that ends early is no answer."""
    monkeypatch.setattr(peers, "WHOLE_BYTES", 10)
    one, other = two.workers
    interaction = await one.waiting(two.key_in(2))
    path = f"/pipeline/interactions/{interaction['interactionId']}"
    assert (await one.get(path))["requestPayload"] == interaction["requestPayload"]

    async def half(call):
        response = web.StreamResponse(headers={"Content-Type": "application/json", **call.marks})
        await response.prepare(call.request)
        await response.write(b'{"interactionId": "')
        call.request.transport.abort()
        return response

    broken = TestServer(web.Application())
    route = next(route for route in routes.ROUTES if route.path.endswith("interactions/{id}"))
    broken.app.add_routes([web.get(route.path, service.guarded(lambda: other.api, replace(route, handler=half)))])
    await broken.start_server()
    owner = one.following.owners.of(2)
    assert owner is not None
    one.following.listens = False
    url = str(broken.make_url("")).rstrip("/")
    one.following.owners._found[2] = Owner(2, owner.worker_id, url, owner.incarnation)
    with pytest.raises(ClientError):
        await one.get(path)
    await broken.close()
