"""Lists over await boundaries: limits, nothing at all, crashes and failures in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import pytest

from tests.field.sequences import completion
from tests.topology.shapes import (
    INBOX,
    KAFKA,
    Item,
    Steps,
    answer_everything,
    answer_of,
    expected,
    given_to,
    joined,
    open_shape,
    results,
)
from tpf_streams.errors import TerminalError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.testing import ManualClock, TopologyTestDriver
from tpf_streams.testing.faults import FaultPlan

MINUTE_MS = 60_000
INPUT_ITEMS = "pipeline.orchestrator.await-aggregate-max-input-items"
OUTPUT_ITEMS = "pipeline.orchestrator.await-aggregate-max-output-items"
LIST = [{"id": "a"}, {"id": "b"}, {"id": "c"}]
LONG = ["Sksj", "Skesms", "jSkMk", "ekjmk", "SkSkj", "mkmkJ", "SSkJks", "kekJMe", "SemJ"]
TRANSPORTS = pytest.mark.parametrize("transport", [KAFKA, INBOX], ids=["live", "durable"])


class Counted(Steps):
    """Its source says how many items it gave."""

    def __init__(self, letters: str, count: int) -> None:
        super().__init__(letters)
        self.count = count
        self.given = 0

    def split(self, item: Item) -> Iterator[Item]:
        for number in range(self.count):
            self.given += 1
            yield {"id": f"{item['id']}{number}"}


# What is asked, and what comes of it


@TRANSPORTS
@pytest.mark.parametrize("crash", [False, True])
def test_many_to_one(tmp_path, transport, crash):
    """R12, R13, T60: one interaction for the whole, whatever happens to the process before its answer."""
    with open_shape(tmp_path, "Sjs", transport=transport) as driver:
        execution_id = driver.submit({"id": "i"})
        (waiting,) = driver.pending()
        unit, execution = driver.unit(execution_id, 1), driver.execution(execution_id)
        assert unit is not None
        assert (unit.itemized, unit.cardinality, unit.expected_item_count) == (False, "MANY_TO_ONE", 1)
        assert (execution.status, execution.await_unit_id) == ("WAITING_EXTERNAL", unit.unit_id)
        assert waiting.request_payload == [{"id": "ix"}, {"id": "iy"}]
        answer_everything(driver, "Sjs", between=driver.crash if crash else lambda: None)
        assert results(driver, execution_id) == [{"id": "(ix+iy)s"}]
        assert driver.metric("interaction.created.total") == driver.metric("resume.released.total") == 1
        assert len(driver.requests()) == (transport is KAFKA)


@TRANSPORTS
def test_many_to_many_is_one_interaction(tmp_path, transport):
    """T60."""
    with open_shape(tmp_path, "ms", transport=transport) as driver:
        execution_id = driver.submit(LIST)
        answer_everything(driver, "ms")
        assert [it["id"] for it in results(driver, execution_id)] == ["ams", "bms", "cms"]
        assert driver.metric("completion.admitted.total") == 1
        assert [it["itemIndex"] for it in driver.outputs()] == [0, 1, 2]


@TRANSPORTS
@pytest.mark.parametrize("crash", [False, True])
def test_one_to_many(tmp_path, transport, crash):
    """R10, R11, R26: the answer is replayed as a stream, and a request that is made again is the same."""
    with open_shape(tmp_path, "sek", transport=transport) as driver:
        execution_id = driver.submit({"id": "i"})
        before = driver.requests()
        if crash:
            driver.crash()
        assert driver.requests() == before
        answer_everything(driver, "sek", between=driver.crash if crash else lambda: None)
        assert [it["id"] for it in results(driver, execution_id)] == ["ispk", "isqk"]
        first, second = driver.unit(execution_id, 1), driver.unit(execution_id, 2)
        assert first is not None and second is not None
        assert (first.itemized, second.itemized, second.completed_item_count) == (False, True, 2)


def test_items_are_joined_in_item_order(tmp_path):
    """R17: the step that takes all waits until every item has been through; items in any order of answers."""
    with open_shape(tmp_path, "SSkj") as driver:
        execution_id = driver.submit({"id": "i"})
        requests = driver.requests()
        assert len(requests) == 4
        for request in [requests[place] for place in (3, 0, 2)]:
            driver.answer(request, answer_of("k", request["requestPayload"]))
            driver.crash()
            assert len(driver.requests()) == 4
            assert driver.execution(execution_id).status == "RUNNING"
        driver.answer(requests[1], answer_of("k", requests[1]["requestPayload"]))
        assert driver.requests("requests-3")[0]["requestPayload"] == [
            {"id": f"i{it}k"} for it in ("xx", "xy", "yx", "yy")
        ]


@pytest.mark.parametrize("parallelism", ["AUTO", "PARALLEL", "SEQUENTIAL"])
def test_parallelism(tmp_path, parallelism):
    """One in flight, or as many as there may be; the list is the same."""
    steps = Counted("Skj", 5)
    settings = {"pipeline.parallelism": parallelism, "pipeline.max-concurrency": "3"}
    with open_shape(tmp_path, "Skj", settings=settings, functions=steps.functions()) as driver:
        execution_id = driver.submit({"id": "i"})
        most = 0

        def look() -> None:
            nonlocal most
            most = max(most, len(driver.pending()))

        answer_everything(driver, "Skj", between=look)
        assert most == (1 if parallelism == "SEQUENTIAL" else 3)
        assert results(driver, execution_id) == [{"id": joined({"id": f"i{it}k"} for it in range(5))}]


# Limits


@pytest.mark.parametrize("letters", ["Sj", "Sm", "Ssj"])
def test_the_first_item_over_the_limit_ends_it(tmp_path, letters):
    """T59: the source is not read on, and nothing of the boundary exists."""
    steps = Counted(letters, 10_000)
    with open_shape(tmp_path, letters, settings={INPUT_ITEMS: "3"}, functions=steps.functions()) as driver:
        execution_id = driver.submit({"id": "i"})
        execution = driver.execution(execution_id)
        assert (execution.status, execution.error_code) == ("FAILED", "AGGREGATE_LIMIT")
        assert "materialized 4 input items for MANY_TO_" in (execution.error_message or "")
        assert f"exceeding {INPUT_ITEMS}=3." in (execution.error_message or "")
        assert steps.given < 1_000
        assert driver.requests() == [] and driver.pending() == [] and driver.views.owed_count() == 0
        assert driver.unit(execution_id, len(letters) - 1) is None
        assert driver.metric("interaction.created.total") == 0


@pytest.mark.parametrize(("limit", "ends"), [("3", "WAITING_EXTERNAL"), ("2", "FAILED"), ("0", "WAITING_EXTERNAL")])
def test_as_many_as_the_limit_says(tmp_path, limit, ends):
    with open_shape(tmp_path, "j", settings={INPUT_ITEMS: limit}) as driver:
        assert driver.execution(driver.submit(LIST)).status == ends


@pytest.mark.parametrize("limit", ["10000", "0"])
def test_ten_thousand_items_and_one(tmp_path, limit):
    given = [{"id": str(number)} for number in range(10_001)]
    with open_shape(tmp_path, "j", settings={INPUT_ITEMS: limit}) as driver:
        execution_id = driver.submit(given)
        if limit == "10000":
            assert driver.execution(execution_id).error_code == "AGGREGATE_LIMIT"
            execution_id = driver.submit(given[1:])
        assert driver.execution(execution_id).status == "WAITING_EXTERNAL"
        assert driver.requests()[0]["requestPayload"] == given[limit == "10000" :]


@TRANSPORTS
def test_an_answer_over_the_limit_is_refused_and_a_smaller_one_is_taken(tmp_path, transport):
    """T25."""
    with open_shape(tmp_path, "ms", transport=transport, settings={OUTPUT_ITEMS: "2"}) as driver:
        execution_id = driver.submit(LIST)
        (waiting,) = driver.pending()
        token = driver.definition.signer.sign(waiting.claims())
        assert driver.answer(waiting, LIST, resumeToken=token) == "payload_too_large"
        (letter,) = driver.dead_letters()
        assert f"exceeding {OUTPUT_ITEMS}=2.".encode() in dict(letter.headers)["tpf-message"]
        assert driver.interaction(waiting.interaction_id) == waiting
        assert driver.answer(waiting, LIST[:2], resumeToken=token) == "admitted"
        assert driver.execution(execution_id).status == "SUCCEEDED"


def test_a_list_that_cannot_fit_fails_before_it_is_asked(tmp_path):
    with open_shape(tmp_path, "Sj", settings={"pipeline.max-aggregate-bytes": "1024"}) as driver:
        execution = driver.execution(driver.submit({"id": "i" * 600}))
        assert (execution.status, execution.error_code) == ("FAILED", "PAYLOAD_TOO_LARGE")
        assert driver.requests() == []


# Nothing


@TRANSPORTS
@pytest.mark.parametrize("given", ["input", "stream"])
def test_nothing_to_take(tmp_path, transport, given):
    """MANY_TO_MANY asks nobody; MANY_TO_ONE asks with an empty list."""
    for letters, asked in (("ms", 0), ("mks", 0), ("mj", 1), ("js", 1), ("mJ", 0)):
        whole = letters if given == "input" else "S" + letters
        steps = Counted(whole, 0)
        with open_shape(tmp_path, whole, transport=transport, functions=steps.functions()) as driver:
            execution_id = driver.submit([] if given == "input" else {"id": "i"})
            assert len(driver.pending()) == asked
            answer_everything(driver, whole)
            assert driver.execution(execution_id).status == "SUCCEEDED"
            assert results(driver, execution_id) == expected(letters, [])
            unit = driver.unit(execution_id, whole.find("m")) if "m" in whole else None
            assert unit is None


@TRANSPORTS
def test_an_answer_of_nothing(tmp_path, transport):
    with open_shape(tmp_path, "ek", transport=transport) as driver:
        execution_id = driver.submit({"id": "i"})
        (waiting,) = driver.pending()
        assert driver.answer(waiting, [], resumeToken=driver.definition.signer.sign(waiting.claims())) == "admitted"
        assert (driver.execution(execution_id).status, driver.outputs()) == ("SUCCEEDED", [])


# Crashes and failures in the middle


@TRANSPORTS
@pytest.mark.parametrize("letters", LONG)
def test_a_crash_before_every_answer(tmp_path, letters, transport):
    """R16, R18, R28: each time the whole goes on from its rows."""
    given = given_to(letters)
    with open_shape(tmp_path, letters, transport=transport) as driver:
        execution_id = driver.submit(given)
        answer_everything(driver, letters, seed=3, between=driver.crash)
        driver.crash()
        assert results(driver, execution_id) == expected(letters, given)
        assert len(driver.outputs()) == len(expected(letters, given))
        assert driver.metric("execution.terminal.total") == 1


@pytest.mark.parametrize("letters", LONG)
@pytest.mark.parametrize("seed", range(3))
def test_commits_of_unknown_outcome(tmp_path, letters, seed):
    clock, plan, given = ManualClock(), FaultPlan(seed, not_held=0.15, held=0.15), given_to(letters)
    log = MemoryLog(application_id="shapes", partitions=1, clock=clock, faults=plan)
    with open_shape(tmp_path, letters, log=log, clock=clock) as driver:
        execution_id = driver.submit(given)
        answer_until_it_ends(driver, letters, execution_id, Random(seed))
        assert plan.struck
        assert results(driver, execution_id) == expected(letters, given)
        assert len(driver.outputs()) == len(expected(letters, given))


def answer_until_it_ends(driver: TopologyTestDriver, letters: str, execution_id: str, random: Random) -> None:
    """A provider that reads the request topics; an answer may find its row answered already."""
    answered: set[str] = set()
    while not driver.execution(execution_id).status.terminal:
        open_ones = [it for it in driver.requests() if it["interactionId"] not in answered]
        request = random.choice(open_ones)
        letter = letters[driver.interaction(request["interactionId"]).step_index]
        driver.send("responses", completion(request, answer_of(letter, request["requestPayload"])))
        answered.add(request["interactionId"])


class Fragile(Steps):
    """Its marking step raises in the middle of a list, a few times or for ever."""

    def __init__(self, letters: str, at: str, times: float) -> None:
        super().__init__(letters)
        self._at = at
        self._times = times

    def mark(self, item: Item) -> Item:
        if item["id"] == self._at and self._times > 0:
            self._times -= 1
            self.called.append("raised")
            raise TerminalError("for good") if self._times == float("inf") else RuntimeError("for now")
        return super().mark(item)


def test_an_answer_goes_on_where_it_failed(tmp_path):
    """Each item of the answer is settled as it comes: those before the one that fails are not run again."""
    steps = Fragile("ms", "bm", 2)
    settings = {"pipeline.defaults.retry-limit": "3", "pipeline.defaults.retry-wait-ms": "10"}
    with open_shape(tmp_path, "ms", settings=settings, functions=steps.functions()) as driver:
        execution_id = driver.submit(LIST)
        answer_everything(driver, "ms")
        driver.advance(10 * MINUTE_MS)
        assert results(driver, execution_id) == expected("ms", LIST)
        assert steps.called == ["am", "raised", "raised", "bm", "cm"]


def test_an_answer_is_replayed_as_a_whole_into_a_step_that_takes_all(tmp_path):
    """A step that has taken half of the items when it fails gets them all again."""
    seen: list[list[str]] = []
    settings = {"pipeline.defaults.retry-limit": "3", "pipeline.defaults.retry-wait-ms": "10"}

    def join(items: Iterable[Item]) -> Item:
        seen.append([])
        found = []
        for item in items:
            if item["id"] == "bm" and len(seen) == 1:
                raise RuntimeError("half-way")
            seen[-1].append(item["id"])
            found.append(item)
        return {"id": joined(found)}

    with open_shape(tmp_path, "mJ", settings=settings, functions={"Step J1": join}) as driver:
        execution_id = driver.submit(LIST)
        answer_everything(driver, "mJ")
        driver.advance(10 * MINUTE_MS)
        assert results(driver, execution_id) == [{"id": "(am+bm+cm)"}]
        assert seen == [["am"], ["am", "bm", "cm"]]


@pytest.mark.parametrize("policy", ["FAIL_EXECUTION", "REJECT_ITEM"])
def test_an_item_of_an_answer_that_fails_for_good(tmp_path, policy):
    """Its segment is a source there, so a failure ends the stream; of itemized answers it ends the item."""
    settings = {"onItemFailure": policy}
    steps = Fragile("mks", "bmk", float("inf"))
    with open_shape(tmp_path, "mks", settings=settings, functions=steps.functions()) as driver:
        execution_id = driver.submit(LIST)
        answer_everything(driver, "mks")
        execution = driver.execution(execution_id)
        assert execution.summary is not None
        if policy == "REJECT_ITEM":
            assert (execution.status, execution.summary.outputs, execution.summary.rejected_items) == (
                "SUCCEEDED",
                2,
                1,
            )
        else:
            assert (execution.status, execution.error_message) == ("FAILED", "for good")
