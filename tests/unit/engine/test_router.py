"""The completion router: home by arithmetic, poison aside."""

from __future__ import annotations

import pytest

from tests.unit.engine.router_bench import (
    FIELD_DATA,
    await_step,
    completion,
    home_of,
    ids,
    opened,
    pipeline,
)
from tpf_streams.core.step import (
    Cardinality,
    Limits,
)
from tpf_streams.testing.clock import START_MS


async def test_a_completion_goes_home_with_its_bytes_arrival_and_source():
    bench = await opened()
    await bench.put(b"\x00")
    bench.clock.advance(40)
    value = completion(7)
    await bench.put(value, key=b"whatever")
    bench.clock.advance(5_000)
    await bench.drain()
    [record] = bench.events()
    interaction_id, _ = ids(7)
    assert record.partition == home_of(interaction_id)
    assert (record.key, record.value) == (interaction_id.encode(), value)
    assert record.headers == (
        ("tpf-event", b"completion"),
        ("tpf-version", b"1"),
        ("tpf-arrived-at", b"%d" % (START_MS + 40)),
        ("tpf-source", b"answers/0/1"),
    )


@pytest.mark.parametrize("key", [None, b"constant", b"correlation"])
async def test_every_partition_finds_its_own_whatever_the_key(key):
    """O12: keys are not needed for correctness."""
    bench = await opened()
    for number in range(40):
        await bench.put(completion(number), key=key, partition=number % 2)
    await bench.drain()
    homes = {record.value: record.partition for record in bench.events()}
    assert homes == {completion(number): home_of(ids(number)[0]) for number in range(40)}
    assert set(homes.values()) == {0, 1, 2, 3}


async def test_a_correlation_id_alone_leads_home():
    bench = await opened()
    await bench.put(completion(3, interactionId=" "))
    await bench.drain()
    [record] = bench.events()
    assert record.partition == home_of(ids(3)[1])


async def test_an_id_that_is_none_of_ours_is_not_found():
    bench = await opened()
    await bench.put(completion(1, interactionId="int-1"), completion(2, interactionId=None, correlationId="cor-2"))
    await bench.drain()
    assert (bench.events(), bench.dead_letters()) == ([], [])
    assert [fact.name for fact in bench.facts] == ["completion.dropped.total"] * 2
    assert bench.facts[0].labels == {"transport": "kafka", "reason": "not_found"}
    assert bench.facts[0].ids == {"source": "answers/0/0", "detail": "the id is none of ours"}


POISON = {
    None: "null value",
    b"": "zero-length value",
    b" \n": "blank value",
    b"this line is not JSON": "not JSON",
    b'{"tenantId":"t","interactionId":"': "not JSON",
    b"[]": "not an object",
    b'"just a string"': "not an object",
    b"42": "not an object",
    b"null": "not an object",
    b'{"hello": "world"}': "wrong shape",
    b'{"tenantId":"t","tenantId":"u","interactionId":"i","responsePayload":1}': "repeated key",
    b"\xff\xfe": "not UTF-8",
    b"[" * 100_000: "too deep",
}


async def test_poison_goes_aside_with_its_reason_and_reading_goes_on():
    """O10, O11."""
    bench = await opened()
    await bench.put(completion(1), *POISON, completion(2))
    await bench.drain()
    assert bench.dead_letters() == list(POISON.items())
    assert {record.value for record in bench.events()} == {completion(1), completion(2)}
    assert bench.drops() == ["invalid_envelope"] * len(POISON)
    assert bench.markers()[-1]["answers/0"] == len(POISON) + 2
    first = next(bench.log.read("app-dead-letters"))
    headers = dict(first.headers)
    assert (headers["tpf-source-topic"], headers["tpf-source-partition"]) == (b"answers", b"0")
    assert (headers["tpf-source-offset"], headers["tpf-message"]) == (b"1", b"invalid_envelope: null value")


async def test_the_console_lines_of_the_field_case():
    """O10: the poison of a console producer; ids there are none of ours, so what is good is `not_found` here."""
    bench = await opened()
    lines = (FIELD_DATA / "O10.console.txt").read_bytes().splitlines()
    await bench.put(*lines)
    await bench.drain()
    assert [value for value, _ in bench.dead_letters()] == lines[1:10]
    assert bench.drops().count("not_found") == 3


async def test_too_large_is_told_apart():
    bench = await opened(pipeline(limits=Limits(max_payload_bytes=100)))
    await bench.put(completion(1, responsePayload="x" * 99))
    await bench.drain()
    assert bench.drops() == ["payload_too_large"]
    assert bench.dead_letters() == [(completion(1, responsePayload="x" * 99), "payload too large")]


async def test_an_aggregate_may_be_larger():
    limits = Limits(max_payload_bytes=100, max_aggregate_bytes=1_000)
    bench = await opened(pipeline(await_step(cardinality=Cardinality.MANY_TO_MANY), limits=limits))
    await bench.put(completion(1, responsePayload="x" * 900))
    await bench.drain()
    assert len(bench.events()) == 1


async def test_strict_envelopes():
    bench = await opened(pipeline(strict_envelopes=True))
    await bench.put(completion(1, extra=1))
    await bench.drain()
    assert [reason for _, reason in bench.dead_letters()] == ["unknown field"]


async def test_arrival_may_be_the_time_of_reading():
    bench = await opened(read_time=True)
    await bench.put(completion(1))
    bench.clock.advance(5_000)
    await bench.drain()
    assert dict(bench.events()[0].headers)["tpf-arrived-at"] == b"%d" % (START_MS + 5_000)


async def test_lag_is_what_it_has_not_forwarded():
    bench = await opened()
    await bench.put(completion(1), completion(2))
    assert await bench.router.lag() == 2
    await bench.drain()
    assert await bench.router.lag() == 0
    await bench.router.close()
