"""Field cases O02, O08, O13, R6 on Apache Kafka: answers that are early, SIGKILL at the worst moments, repeats."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.program import finish, result_of, start, tpf, wait_until
from tests.field.pipelines import DATA, STREAM
from tests.integration.applications import Decisions
from tests.integration.console import Console, completion

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

FIVE = tuple(f"int-{number}" for number in range(1, 6))
SOON = "PT6S"
"""The least kafka.session-timeout: how long the next life waits for the partitions of a killed one."""


def decisions(folder: Path, bootstrap: str, **options: str) -> Decisions:
    found = Decisions(folder, bootstrap, **options)
    found.settings["kafka.session-timeout"] = SOON
    return found


@pytest.fixture
def console(tmp_path, bootstrap_servers):
    return Console(decisions(tmp_path, bootstrap_servers), tmp_path)


def next_life(console: Console, folder: Path, data: str = "data") -> list[str | Path]:
    """The same run once more, without inputs: those of the life before are in the log."""
    return console.application.run_words(out=folder / "out", data=folder / data)


# --- O02 --------------------------------------------------------------------------------------------------------------


def test_o02_answers_at_once(console, tmp_path):
    """Right: 5 of 5. The topics are there, the groups are new, the provider answers each request as soon as it is."""
    application = console.application
    (tmp_path / "provider.py").write_text("def answer(request, options):\n    return {'status': 'APPROVED'}\n")
    words = application.run_words(application.orders(*FIVE), out=tmp_path / "out", data=tmp_path / "data")
    with application.provider(log=tmp_path / "provider.log"):
        result = result_of(tpf(*words))
    assert (result["executions"], result["dropped"], result["waiting"]) == ({"SUCCEEDED": 5}, 0, 0)


def test_o02_answers_before_anybody_reads(console, tmp_path):
    """Right: 5 of 5. They are on the topic before its group has any position: from the end on none would be found."""
    with console.waiting(*FIVE) as process:
        process.send_signal(signal.SIGKILL)
    console.forget_position()
    assert console.position() is None
    console.type(console.application.responses, console.names.fill((DATA / "O02.responses.jsonl").read_text("utf-8")))
    result = result_of(tpf(*next_life(console, tmp_path)))
    assert (result["executions"], result["dropped"], result["waiting"]) == ({"SUCCEEDED": 5}, 0, 0)
    assert console.position() == 5


# --- O08 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_o08_killed_around_the_dispatch(console, tmp_path, point):
    """Right: one request for who reads what is committed, one resume, and the second answer is a duplicate.

    A request joins its turn's transaction: before the commit it has not left, and after it its row is there, too. Who
    reads uncommitted ones sees the lost one, and the next is the same but for its deadline, which runs from its row.
    The next life is another worker: it has nothing of the first one's folder."""
    expect = json.loads((DATA / "O08.expect.json").read_text("utf-8"))
    application = console.application
    words = application.run_words(application.orders("one", "other"), out=tmp_path / "out", data=tmp_path / "first")
    killed = finish(start(*words, program=("tests.integration.dying", point)))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    lost = application.request_values("read_uncommitted")[0]
    committed = application.request_values()
    assert committed == [] if point == "before-commit" else lost in committed

    with console.waiting("one", "other") as process:
        name = lost["requestPayload"]["orderId"]
        other = ({"one", "other"} - {name}).pop()
        again = console.names.requests[name]
        equal = [it for it in expect["equal_fields"] if point == "after-commit" or it != "deadlineEpochMs"]
        assert [again[it] for it in equal] == [lost[it] for it in equal]
        answers = [completion(again, "APPROVED"), completion(again, "APPROVED")]
        console.type(
            application.responses, "\n".join([*answers, completion(console.names.requests[other], "DECLINED")])
        )
        result = result_of(finish(process))
    assert len(application.request_values()) == 2
    assert (result["executions"], result["duplicates"], result["dropped"]) == ({"SUCCEEDED": 2}, 1, 0)
    assert console.outcomes() == {name: "APPROVED", other: "DECLINED"}


# --- O13 --------------------------------------------------------------------------------------------------------------

SLOW_STEPS = """
import asyncio
from pathlib import Path

HERE = Path(__file__).parent


def split(batch: dict):
    for index in range(int(batch["count"])):
        yield {"orderId": f"o-{index}"}


async def finish(decision: dict):
    with (HERE / "begun").open("a") as begun:
        begun.write(decision["status"] + "\\n")
    while decision["status"] == "101" and not (HERE / "gate").exists():
        await asyncio.sleep(0.02)
    return decision
"""


def test_o13_the_slow_one_comes_again_and_its_finished_neighbours_do_not(tmp_path, bootstrap_servers):
    """Right: nothing lost, and no effect twice: what is begun again is what was in work at the SIGKILL."""
    messages = json.loads((DATA / "O13.sequence.json").read_text("utf-8"))["given"]["messages"]
    text = STREAM.replace("input: Batch, output: Order", "service: steps:split, input: Batch, output: Order")
    console = Console(decisions(tmp_path, bootstrap_servers, text=text), tmp_path)
    application = console.application
    (tmp_path / "steps.py").write_text(SLOW_STEPS)
    batch = tmp_path / "batch.json"
    batch.write_text(json.dumps({"count": str(len(messages))}))

    def finished() -> Counter[int]:
        return Counter(int(it["payload"]["status"]) for it in application.output_values())

    with console.running(batch, count=len(messages)) as process:
        answers = zip(console.names.requests.values(), messages, strict=True)
        console.type(application.responses, "".join(f"{completion(it, str(n))}\n" for it, n in answers))
        wait_until(lambda: len(finished()) == len(messages) - 1, timeout=30, pause=0.3)
        process.send_signal(signal.SIGKILL)
    assert 101 not in finished()
    (tmp_path / "gate").touch()
    result = result_of(tpf(*next_life(console, tmp_path)))
    assert (result["executions"], result["duplicates"], result["waiting"]) == ({"SUCCEEDED": 1}, 0, 0)
    assert finished() == Counter(messages)
    begun = Counter(map(int, (tmp_path / "begun").read_text().split()))
    assert begun == Counter([*messages, 101])


# --- R6 ---------------------------------------------------------------------------------------------------------------


def test_r6_every_delivery_is_acknowledged(console):
    """O04's three deliveries on a broker: admitted, a duplicate, a conflict that changes nothing, and the group's
    position passes them all."""
    application = console.application
    with console.waiting("int-4", "last") as process:
        console.type(application.responses, console.names.fill((DATA / "O04.envelopes.jsonl").read_text("utf-8")))
        console.type(application.responses, completion(console.names.requests["last"], "DECLINED") + "\n")
        result = result_of(finish(process))
    assert (result["executions"], result["duplicates"]) == ({"SUCCEEDED": 2}, 1)
    assert result["dropped_by_reason"] == {"conflict": 1}
    assert console.outcomes() == {"int-4": "APPROVED", "last": "DECLINED"}
    assert console.position() == 4
