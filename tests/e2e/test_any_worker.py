"""Two or three workers on Apache Kafka: any of them answers for any execution, through kills and rebalances."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from itertools import islice
from statistics import median, quantiles
from typing import Any

import orjson
import pytest

from tests.e2e.faust_worker import committed
from tests.e2e.http_workers import ORDER, PAUSE_S, PENDING, Answer, Fleet, HttpWorker, accepted, declined, fleet

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


@pytest.fixture
async def workers(bootstrap_servers, tmp_path):
    async with fleet(bootstrap_servers, tmp_path) as found:
        yield found


async def two(workers: Fleet) -> tuple[HttpWorker, HttpWorker, list[int]]:
    """Two workers, and what the second has."""
    one, other = workers.add(), workers.add()
    await workers.shares(2)
    return one, other, await workers.partitions_of(other)


async def test_an_approval_by_the_worker_that_does_not_have_it(workers):
    """Contract 12.4: step index 2 while it waits, 3 afterwards; both arms."""
    stranger, _, theirs = await two(workers)
    keys = workers.keys_of(theirs)
    for decide, outcome, state in ((accepted, "APPROVED", "ACCEPTED"), (declined, "DECLINED", "DECLINED")):
        execution_id = await workers.begun(stranger, next(keys))
        path = f"/pipeline/executions/{execution_id}"
        (interaction,) = await workers.pending(stranger, 1)
        waiting = (await workers.until(stranger, "GET", path)).body
        assert (waiting["status"], waiting["stepIndex"]) == ("WAITING_EXTERNAL", 2)
        told = await workers.complete(stranger, interaction, decide(interaction))
        assert (told.status, told.body["duplicate"]) == (200, False)
        told = await workers.complete(stranger, interaction, decide(interaction))
        assert (told.status, told.body["duplicate"]) == (200, True)
        assert (await workers.ended(stranger, execution_id))["stepIndex"] == 3
        result = (await workers.until(stranger, "GET", path + "/result")).body
        assert (result["outcome"], result["restaurantStatus"]) == (outcome, state)


class Watcher:
    """Asks all workers for all executions all the time: an answer or a 503, never that one is not there."""

    def __init__(self, workers: Fleet, execution_ids: list[str]) -> None:
        self.seen: Counter[int] = Counter()
        self._workers, self._ids = workers, execution_ids
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watcher:
        self._work = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._work is not None
        self._work.cancel()
        for failure in await asyncio.gather(self._work, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure

    async def _watch(self) -> None:
        while True:
            for execution_id in self._ids:
                for worker in self._workers.workers:
                    if worker.process.poll() is None:
                        await self._look(worker, f"/pipeline/executions/{execution_id}")
                await asyncio.sleep(0.01)

    async def _look(self, worker: HttpWorker, path: str) -> None:
        try:
            found = await self._workers.ask(worker, "GET", path)
        except OSError:
            return  # the worker itself has gone meanwhile
        self.seen[found.status] += 1
        assert found.status in (200, 503), found.body


async def test_while_partitions_move_nothing_is_told_to_be_missing(workers):
    """One worker, two, three, one stopped, one killed: every execution is there, or it is not known just now."""
    first = workers.add()
    await workers.shares(1)
    ids = [await workers.begun(first, f"order-{number}") for number in range(24)]
    async with Watcher(workers, ids) as watcher:
        second = workers.add()
        await workers.shares(2)
        workers.add()
        await workers.shares(3)
        await asyncio.to_thread(first.stop)
        await workers.shares(2)
        second.kill()
        await workers.shares(1)
        before = watcher.seen[200]
        while watcher.seen[200] < before + len(ids):
            await asyncio.sleep(PAUSE_S)
    assert watcher.seen[503] > 0, "the partitions moved"
    print(f"asked while partitions moved: {dict(watcher.seen)}")


async def test_the_owner_dies_in_the_middle_of_what_is_passed_on_to_it(workers):
    """A hundred decisions by way of the other worker, and the owner killed among them. Each is answered, or told to ask
    again; whoever asks again is told admitted or duplicate, and every execution goes on once."""
    stranger, owner, theirs = await two(workers)
    keys = list(islice(workers.keys_of(theirs), 100))
    ids = await asyncio.gather(*(workers.begun(stranger, key) for key in keys))
    waiting = await workers.pending(stranger, len(ids))
    told: dict[str, list[str]] = {it["interactionId"]: [] for it in waiting}
    answered, at_once = 0, asyncio.Semaphore(20)

    async def decide(interaction: dict[str, Any]) -> None:
        nonlocal answered
        async with at_once, asyncio.timeout(90):
            while True:
                found = await workers.complete(stranger, interaction, accepted(interaction))
                word = "again" if found.status == 503 else "duplicate" if found.body["duplicate"] else "admitted"
                assert found.status in (200, 503), found.body
                told[interaction["interactionId"]].append(word)
                answered += found.status == 200
                if found.status == 200:
                    return
                await asyncio.sleep(0.2)

    async def kill() -> None:
        while answered < 15:
            await asyncio.sleep(0)
        owner.kill()

    await asyncio.gather(kill(), *map(decide, waiting))
    ends = Counter(words[-1] for words in told.values())
    again = [words for words in told.values() if "again" in words]
    assert len(again) >= 10, "it was killed among them"
    assert all(words[0] == "admitted" for words in told.values() if "again" not in words)
    for execution_id in ids:
        assert (await workers.ended(stranger, execution_id))["status"] == "SUCCEEDED"
    outputs = await committed(workers.bootstrap, f"{workers.application_id}-outputs", len(ids))
    assert Counter(it["executionId"] for it in outputs) == Counter(ids), "one continuation each"
    print(f"killed among 100 decisions: told to ask again {len(again)}, in the end {dict(ends)}")


async def test_a_frozen_owner_is_waited_for_five_seconds_and_not_longer(workers):
    """What it was asked it may do when it wakes up: whoever asks again is told so."""
    stranger, owner, theirs = await two(workers)
    execution_id = await workers.begun(stranger, next(workers.keys_of(theirs)))
    (interaction,) = await workers.pending(stranger, 1)
    owner.process.send_signal(19)  # SIGSTOP
    began = asyncio.get_running_loop().time()
    found = await workers.complete(stranger, interaction, accepted(interaction))
    took = asyncio.get_running_loop().time() - began
    assert (found.status, 4 < took < 8) == (503, True), f"{found.body} after {took:.1f} s"
    owner.process.send_signal(18)  # SIGCONT
    async with asyncio.timeout(60):
        while (found := await workers.complete(stranger, interaction, accepted(interaction))).status == 503:
            await asyncio.sleep(PAUSE_S)
    assert found.status == 200
    assert (await workers.ended(stranger, execution_id))["status"] == "SUCCEEDED"
    assert len(await committed(workers.bootstrap, f"{workers.application_id}-outputs", 1)) == 1


MANY, A_PAGE = 10_000, 100


@pytest.mark.slow
@pytest.mark.timeout(580)
async def test_ten_thousand_that_wait_are_listed_while_they_are_decided(workers, tmp_path):
    """None missed, none twice. And a page over both workers costs at most five times what one partition's own costs,
    asked in turn with it, while another client decides what has been shown and what has not."""
    file = tmp_path / "orders.jsonl"
    file.write_bytes(b"".join(orjson.dumps({**ORDER, "customerName": f"c-{n}"}) + b"\n" for n in range(MANY)))
    stranger, other = workers.add(file), workers.add()
    await workers.shares(2)
    before = await all_waiting(workers, other)
    sample, partition = Sample(), (await workers.partitions_of(other))[0]
    shown: list[dict[str, Any]] = []
    done: set[str] = set()
    listed = asyncio.Event()
    deciding = asyncio.ensure_future(decide_some(workers, other, before, done, listed))
    first = f"{PENDING}?limit={A_PAGE}"
    path: str | None = first
    own = first
    while path is not None:
        page = await sample.timed("all", workers.ask(stranger, "GET", path))
        assert page.status == 200, page.body
        shown += page.body
        path = following(page)
        hop = await workers.hop(other, partition)
        part = await sample.timed("own", workers.ask(other, "GET", own, **hop))
        assert part.status == 200, part.body
        assert len(part.body) > 0
        own = following(part) or first
    listed.set()
    await deciding
    idents = [it["interactionId"] for it in shown]
    places = [(it["deadlineEpochMs"], it["interactionId"]) for it in shown]
    assert places == sorted(places), "in the order of the deadlines over all workers"
    assert len(idents) == len(set(idents)), "none twice"
    assert before.keys() - done <= set(idents) <= before.keys(), "none missed"
    assert len(done) > 200
    print(f"\n{len(shown)} of {MANY} shown in pages of {A_PAGE}, {len(done)} decided meanwhile; {sample.told()}")
    assert sample.p99("all") <= 5 * sample.p99("own")


class Sample:
    """Seconds of calls, by kind."""

    def __init__(self) -> None:
        self._found: dict[str, list[float]] = {}

    async def timed(self, kind: str, call: Awaitable[Answer]) -> Answer:
        began = time.perf_counter()
        found = await call
        self._found.setdefault(kind, []).append(time.perf_counter() - began)
        return found

    def p99(self, kind: str) -> float:
        return quantiles(self._found[kind], n=100)[98]

    def told(self) -> str:
        parts = []
        for kind, found in self._found.items():
            parts.append(
                f"{kind}: median {median(found) * 1e3:.0f} ms, p99 {self.p99(kind) * 1e3:.0f} ms, {len(found)} calls"
            )
        return "; ".join(parts)


def following(page: Answer) -> str | None:
    cursor = page.headers.get("x-next-cursor")
    return None if cursor is None else f"{PENDING}?limit={A_PAGE}&cursor={cursor}"


async def all_waiting(workers: Fleet, worker: HttpWorker) -> dict[str, dict[str, Any]]:
    """By their ids, once all of them wait."""
    async with asyncio.timeout(240):
        while True:
            found: dict[str, dict[str, Any]] = {}
            path: str | None = PENDING + "?limit=500"
            while path is not None:
                page = await workers.until(worker, "GET", path)
                found |= {it["interactionId"]: it for it in page.body}
                cursor = page.headers.get("x-next-cursor")
                path = None if cursor is None else f"{PENDING}?limit=500&cursor={cursor}"
            if len(found) == MANY:
                return found
            await asyncio.sleep(1)


async def decide_some(
    workers: Fleet,
    worker: HttpWorker,
    before: dict[str, dict[str, Any]],
    done: set[str],
    listed: asyncio.Event,
) -> None:
    """Every third of those that have been shown, and every third of those that are far from it."""
    order = sorted(before.values(), key=lambda it: (it["deadlineEpochMs"], it["interactionId"]))
    early, late = iter(order[::3]), iter(order[::-3])

    async def client() -> None:
        while not listed.is_set():
            for interaction in (next(early, None), next(late, None)):
                if interaction is None or interaction["interactionId"] in done:
                    continue
                done.add(interaction["interactionId"])
                told = await workers.complete(worker, interaction, accepted(interaction))
                assert told.status == 200, told.body

    await asyncio.gather(*(client() for _ in range(8)))
