"""The simulated provider: real envelopes, the reference's rule, delay and repeats under control."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import asdict

import pytest

from topologies.csv_payments import provider as payments
from tpf_streams.core.envelope import dispatch_envelope, parse_completion
from tpf_streams.errors import LogError
from tpf_streams.logs.memory import MemoryLog
from tpf_streams.ports import Record
from tpf_streams.testing import provider as machinery
from tpf_streams.testing.clock import ManualClock
from tpf_streams.testing.provider import SimulatedProvider
from tpf_streams.testing.provider_options import (
    ProviderOptions,
    falls,
    java_hash,
    parse_provider_spec,
)


def request(number, payload=None):
    payment = {"id": f"id-{number}", "csvId": str(number), "recipient": "Zoë", "amount": "12.50", "currency": "EUR"}
    return dispatch_envelope(
        tenant_id="t",
        execution_id="e-1",
        interaction_id=f"i-{number}",
        correlation_id=f"c-{number}",
        step_id="ProcessAwaitPaymentProviderService",
        deadline_epoch_ms=1,
        input_type="PaymentRecord",
        output_type="PaymentStatus",
        resume_token=f"token-{number}",
        request_payload=payload or payment,
        transport_metadata=None,
    )


class Bench:
    def __init__(self, log_class=MemoryLog, **options):
        self.clock = ManualClock()
        self.log = log_class(application_id="app", partitions=1, clock=self.clock)
        self.options = {"builder": payments.answer, "actor": payments.ACTOR, **options}
        self.provider = self.another()

    def another(self):
        return SimulatedProvider(self.log, "requests", "answers", clock=self.clock, **self.options)

    async def ask(self, *numbers):
        await self.log.append([Record("requests", None, request(number)) for number in numbers])

    async def drain(self):
        while await self.provider.step():
            pass

    def answers(self):
        return [parse_completion(record.value, max_bytes=100_000) for record in self.log.read("answers")]

    def answered(self):
        return [envelope.interaction_id for envelope in self.answers()]


async def opened(**options):
    bench = Bench(**options)
    await bench.provider.open()
    return bench


# --- the rule and the payments answer (contract 12.3) ----------------------------------------------------------------


@pytest.mark.parametrize(("count", "rejected"), [(12, 8), (1_000, 93), (10_000, 830), (100_000, 7_986)])
def test_the_share_that_is_rejected_is_the_documented_one(count, rejected):
    assert sum(falls(str(number), "provider-reject", 0.08) for number in range(1, count + 1)) == rejected


def test_the_first_eight_of_twelve_are_rejected():
    assert [number for number in range(1, 13) if not falls(str(number), "provider-reject", 0.08)] == [9, 10, 11, 12]


def test_never_and_always():
    assert not any(falls(str(number), "s", 0.0) for number in range(100))
    assert all(falls(str(number), "s", 1.0) for number in range(100))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("1", 49), ("hello", 99162322), ("polygenelubricants", 2**31), ("ä", 228), ("😀", 1772899)],
)
def test_java_hash(text, expected):
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("hello", "5d41402a-bc4b-3a76-b971-9d911017c592"), ("", "d41d8cd9-8f00-3204-a980-0998ecf8427e")],
)
def test_name_uuids_are_those_of_java(name, expected):
    assert payments.name_uuid(name) == expected


async def test_an_answer_is_a_completion_of_its_request():
    bench = await opened(reject=0.08)
    await bench.ask(1, 9)
    await bench.drain()
    refused, approved = bench.answers()
    assert (refused.tenant_id, refused.interaction_id, refused.correlation_id) == ("t", "i-1", "c-1")
    assert (refused.resume_token, refused.idempotency_key) == ("token-1", "i-1")
    assert refused.actor == "csv-payments-mock-provider"
    assert refused.response_payload == {
        "unapproved": {
            "reference": "101",
            "status": "Rejected",
            "message": "Mock payment provider rejected the payment.",
            "fee": "1.01",
            "conversationId": payments.name_uuid("conversation|id-1"),
            "statusCode": "1000",
            "paymentRecordId": "id-1",
            "paymentRecord": json.loads(request(1))["requestPayload"],
        }
    }
    status = approved.response_payload["approved"]
    assert (status["status"], status["message"]) == ("Complete", "Mock response")


async def test_a_timeout_is_never_answered():
    bench = await opened(timeout=1.0)
    await bench.ask(1, 2, 3)
    await bench.drain()
    assert (bench.answers(), bench.provider.unanswered, bench.provider.open_count) == ([], 3, 0)
    await bench.provider.open()
    assert not await bench.provider.step()


@pytest.mark.parametrize(("key", "found"), [("correlation", b"c-1"), ("none", None), ("constant", b"constant")])
async def test_keys(key, found):
    bench = await opened(key=key)
    await bench.ask(1)
    await bench.drain()
    assert [record.key for record in bench.log.read("answers")] == [found]


async def test_what_is_no_request_is_skipped(caplog):
    bench = await opened()
    values = [None, b"", b"nope", b"[]", b"{}", request(1, {"hello": "world"}), request(2)]
    await bench.log.append([Record("requests", None, value) for value in values])
    with caplog.at_level(logging.ERROR):
        await bench.drain()
    assert (bench.answered(), bench.provider.skipped) == (["i-2"], 6)


async def test_without_a_builder_it_echoes():
    clock = ManualClock()
    log = MemoryLog(partitions=1, clock=clock)
    provider = SimulatedProvider(log, "requests", "answers", clock=clock)
    await log.append([Record("requests", None, request(1, {"n": 1}))])
    await provider.open()
    assert await provider.step()
    [record] = log.read("answers")
    assert json.loads(record.value or b"")["responsePayload"] == {"n": 1}


# --- delay, permits, repeats ------------------------------------------------------------------------------------------


async def test_an_answer_leaves_the_delay_after_its_request_was_read():
    bench = await opened(delay_ms=50)
    await bench.ask(1)
    assert await bench.provider.step()
    bench.clock.advance(20)
    await bench.ask(2)
    assert await bench.provider.step()
    assert (bench.answered(), bench.provider.open_count) == ([], 2)
    assert bench.provider.next_answer_ms == 30
    bench.clock.advance(30)
    await bench.drain()
    assert (bench.answered(), bench.provider.open_count) == (["i-1"], 1)
    bench.clock.advance(20)
    await bench.drain()
    assert (bench.answered(), bench.provider.open_count, bench.provider.open_max) == (["i-1", "i-2"], 0, 2)
    assert (bench.provider.next_answer_ms, bench.provider.answered) == (None, 2)


async def test_ten_thousand_may_be_open():
    bench = await opened(delay_ms=60_000)
    await bench.ask(*range(12_000))
    await bench.drain()
    assert bench.provider.open_count == bench.provider.open_max == 12_000


async def test_permits_bound_the_answers_a_second():
    bench = await opened(permits_per_second=10)
    await bench.ask(*range(5))
    await bench.drain()
    seen = [len(bench.answers())]
    for _ in range(4):
        bench.clock.advance(100)
        await bench.drain()
        seen.append(len(bench.answers()))
    assert seen == [1, 2, 3, 4, 5]


async def test_permits_do_not_pile_up():
    bench = await opened(permits_per_second=10)
    bench.clock.advance(60_000)
    await bench.ask(*range(3))
    await bench.drain()
    assert len(bench.answers()) == 1


async def test_a_crash_loses_no_request():
    bench = await opened(delay_ms=50)
    await bench.ask(1)
    await bench.drain()
    bench.clock.advance(30)
    await bench.ask(2)
    await bench.drain()
    bench.clock.advance(20)
    await bench.drain()
    assert bench.answered() == ["i-1"]
    await bench.provider.close()
    bench.provider = bench.another()
    await bench.provider.open()
    await bench.drain()
    bench.clock.advance(50)
    await bench.drain()
    assert bench.answered() == ["i-1", "i-2"]
    await bench.provider.open()
    assert not await bench.provider.step()


async def test_what_is_open_is_bounded(monkeypatch):
    monkeypatch.setattr(machinery, "OPEN_MAX", 3)
    bench = await opened(delay_ms=50)
    await bench.ask(1, 2, 3, 4)
    await bench.drain()
    await bench.ask(5)
    bench.clock.advance(10)
    await bench.drain()
    assert bench.provider.open_count == 4
    bench.clock.advance(40)
    await bench.drain()
    assert (len(bench.answers()), bench.provider.open_count) == (4, 1)


async def test_a_burst_leaves_when_it_is_full():
    bench = await opened(burst=3)
    await bench.ask(1, 2)
    await bench.drain()
    assert (bench.answered(), bench.provider.open_count) == ([], 2)
    await bench.ask(3, 4)
    await bench.drain()
    assert (bench.answered(), bench.provider.open_count) == (["i-1", "i-2", "i-3"], 1)


async def test_a_burst_that_is_not_full_leaves_after_a_second():
    bench = await opened(burst=3, delay_ms=50)
    await bench.ask(1)
    await bench.drain()
    bench.clock.advance(1_049)
    await bench.drain()
    assert (bench.answered(), bench.provider.next_answer_ms) == ([], 1)
    bench.clock.advance(1)
    await bench.drain()
    assert bench.answered() == ["i-1"]


async def test_permits_fill_a_burst():
    bench = await opened(burst=3, permits_per_second=10)
    await bench.ask(*range(5))
    await bench.drain()
    seen = []
    for _ in range(14):
        bench.clock.advance(100)
        await bench.drain()
        seen.append(len(bench.answers()))
    assert seen == [0, 3, *[3] * 10, 5, 5]


async def test_what_gets_no_answer_breaks_no_burst_up_and_is_done_with_it():
    bench = await opened(burst=2)
    await bench.ask(1)
    await bench.drain()
    await bench.log.append([Record("requests", None, b"nope")])
    await bench.drain()
    await bench.ask(2)
    await bench.drain()
    assert bench.answered() == ["i-1", "i-2"]
    await bench.provider.open()
    assert not await bench.provider.step()


async def test_figures_of_what_was_done():
    bench = await opened(delay_ms=50, duplicates=1.0)
    bench.clock.advance(1_000)
    await bench.ask(1, 2)
    await bench.drain()
    bench.clock.advance(50)
    await bench.drain()
    found = bench.provider
    assert (found.answered, found.repeated, found.busy_s) == (2, 2, pytest.approx(0.05))


@pytest.mark.parametrize("permits", [None, 1_000_000.0])
async def test_the_same_share_is_sent_twice_each_time(permits):
    def run(seed):
        return opened(duplicates=0.2, seed=seed, permits_per_second=permits)

    found = []
    for seed in (1, 1, 2):
        bench = await run(seed)
        await bench.ask(*range(1_000))
        while await bench.provider.step() or bench.provider.open_count:
            bench.clock.advance(1)
        names = bench.answered()
        assert set(names) == {f"i-{number}" for number in range(1_000)}
        found.append({name for name in names if names.count(name) == 2})
    assert found[0] == found[1] != found[2]
    assert all(150 < len(twice) < 250 for twice in found)


# --- running --------------------------------------------------------------------------------------------------------


async def settle():
    for _ in range(50):
        await asyncio.sleep(0)


async def test_running_answers_until_told_to_stop():
    bench = Bench(delay_ms=5)
    stop = asyncio.Event()
    running = asyncio.create_task(bench.provider.run(stop))
    await settle()
    await bench.ask(1)
    await settle()
    assert bench.answered() == []
    bench.clock.advance(5)
    await settle()
    assert bench.answered() == ["i-1"]
    stop.set()
    await running


class AwayLog(MemoryLog):
    """Cannot be opened the first time."""

    opened = False

    async def open_reader(self, group, topics):
        if not self.opened:
            self.opened = True
            raise LogError("the broker is away")
        return await super().open_reader(group, topics)


async def test_running_outlives_a_failing_log(caplog):
    bench = Bench(log_class=AwayLog)
    stop = asyncio.Event()
    with caplog.at_level(logging.CRITICAL):
        running = asyncio.create_task(bench.provider.run(stop))
        await settle()
        await bench.ask(1)
        bench.clock.advance(500)
        await settle()
    assert bench.answered() == ["i-1"]
    stop.set()
    await running


async def test_a_full_provider_sleeps_until_its_next_answer(monkeypatch):
    monkeypatch.setattr(machinery, "OPEN_MAX", 1)
    bench = Bench(delay_ms=70)
    stop = asyncio.Event()
    running = asyncio.create_task(bench.provider.run(stop))
    await bench.ask(1)
    await settle()
    assert bench.clock.next_wake_ms == 70
    stop.set()
    await running


def test_options_are_the_keywords_of_the_provider():
    bench = Bench(**asdict(parse_provider_spec("reject=0.08,seed=3")))
    assert bench.provider.options == ProviderOptions(reject=0.08, seed=3)
