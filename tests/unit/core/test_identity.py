"""Ids that carry their route (contract 0.1): vectors of Kafka's hash, and the byte layout, pinned for ever.

The golden values below are what stored rows and messages in flight hold: a change that breaks one of them breaks every
running pipeline. They were computed once by `reference_id`, which follows the layout with the standard library alone.
"""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpf_streams.core.identity import (
    IdFactory,
    KeyedDigest,
    id_bytes,
    length_prefixed,
    murmur2,
    partition_of,
    route_hash,
    route_of,
)

SECRET = "id-secret-for-tests"
TENANT, PIPELINE, KEY = "tenant-1", "csv-payments", "payments.csv"
STEP = "ProcessAwaitPaymentProviderService"

ROUTE = 0xCF1D27FB
EXECUTION = "cf1d27fb-94b5-8804-ae80-4eebe64ec8ac"
UNIT = "cf1d27fb-5ebb-8c57-8c3d-79ddc8aa6f33"
GOLDEN_ITEMS: dict[int | None, tuple[str, str]] = {
    None: (
        "cf1d27fb-7fcb-8f28-b94c-24bcaeb7e50a",
        "cf1d27fb-bcf1-8dcb-8d48-9ef7b4228bd9",
    ),
    0: (
        "cf1d27fb-8475-8589-8e45-50f8b1ba5e26",
        "cf1d27fb-359e-8af9-aec6-53d0a4915e3f",
    ),
    9999: (
        "cf1d27fb-f785-8afb-9fce-f7ad19166f36",
        "cf1d27fb-cd69-883a-bd4c-bfd05780ed33",
    ),
}


def reference_id(secret: str, domain: str, route: int, *inputs: str) -> str:
    """The layout of `identity`'s docstring, written a second time and slowly."""
    message = "".join(f"{len(part)}:{part}" for part in (domain, *inputs)).encode()
    digest = hmac.new(secret.encode(), message, hashlib.sha256).digest()
    raw = bytearray(route.to_bytes(4, "big") + digest[:12])
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("size", range(9))
def test_murmur2_takes_every_tail(size: int) -> None:
    hashes = {murmur2(bytes([255] * size)), murmur2(bytes(size)), murmur2(bytes([128] * size))}
    assert all(0 <= found < 2**32 for found in hashes)
    assert len(hashes) == (3 if size else 1)


def test_the_partition_drops_the_sign_first() -> None:
    assert partition_of(0xFFFFFFFF, 8) == 0x7FFFFFFF % 8
    assert partition_of(5, 8) == 5
    assert partition_of(0x80000005, 8) == 5


def test_length_prefixes_are_unambiguous() -> None:
    assert length_prefixed("ab", "", "c") == "2:ab0:1:c"
    assert length_prefixed("a", "b") != length_prefixed("ab", "")
    assert route_hash("a", "b", "c", 1) != route_hash("ab", "", "c", 1)


def test_golden_execution_id() -> None:
    factory = IdFactory(SECRET)
    assert route_hash(TENANT, PIPELINE, KEY, 0) == ROUTE
    assert factory.execution_id(TENANT, PIPELINE, KEY, 0) == EXECUTION
    assert reference_id(SECRET, "tpf.execution", ROUTE, TENANT, PIPELINE, KEY, "0") == EXECUTION


def test_golden_unit_id() -> None:
    factory = IdFactory(SECRET)
    assert factory.unit_id(TENANT, EXECUTION, STEP, 2, 0) == UNIT
    assert factory.unit(TENANT, EXECUTION, STEP, 2, 0).unit_id == UNIT
    assert reference_id(SECRET, "tpf.unit", ROUTE, TENANT, EXECUTION, STEP, "2", "0") == UNIT


@pytest.mark.parametrize("item", GOLDEN_ITEMS)
def test_golden_item_ids(item: int | None) -> None:
    unit = IdFactory(SECRET).unit(TENANT, EXECUTION, STEP, 2, 0)
    inputs = (TENANT, EXECUTION, STEP, "2", "0", "single" if item is None else str(item))
    interaction, correlation = GOLDEN_ITEMS[item]
    assert unit.interaction_id(item) == interaction == reference_id(SECRET, "tpf.interaction", ROUTE, *inputs)
    assert unit.correlation_id(item) == correlation == reference_id(SECRET, "tpf.correlation", ROUTE, *inputs)


def test_all_ids_differ_and_have_one_route() -> None:
    factory = IdFactory(SECRET)
    execution = factory.execution_id(TENANT, PIPELINE, KEY, 0)
    ids = [execution]
    for index in range(3):
        for generation in range(3):
            unit = factory.unit(TENANT, execution, STEP, index, generation)
            ids.append(unit.unit_id)
            for item in (None, 0, 1, 2, 10):
                ids += [unit.interaction_id(item), unit.correlation_id(item)]
    assert len(set(ids)) == len(ids)
    assert {route_of(text) for text in ids} == {ROUTE}


@pytest.mark.parametrize(
    "inputs",
    [("tenant-2", PIPELINE, KEY, 0), (TENANT, "x", KEY, 0), (TENANT, PIPELINE, "k", 0), (TENANT, PIPELINE, KEY, 1)],
)
def test_every_input_counts(inputs: tuple[str, str, str, int]) -> None:
    assert IdFactory(SECRET).execution_id(*inputs)[9:] != EXECUTION[9:]
    assert route_hash(*inputs) != ROUTE


def test_the_secret_changes_all_but_the_route() -> None:
    other = IdFactory("another").execution_id(TENANT, PIPELINE, KEY, 0)
    assert other[:8] == EXECUTION[:8]
    assert other[9:] != EXECUTION[9:]


def test_an_upper_case_execution_id_gives_a_lower_case_unit() -> None:
    unit = IdFactory(SECRET).unit(TENANT, EXECUTION.upper(), STEP, 2, 0)
    assert unit.unit_id[:8] == EXECUTION[:8]


def test_a_foreign_execution_id_has_no_units() -> None:
    for make in (IdFactory(SECRET).unit, IdFactory(SECRET).unit_id):
        with pytest.raises(ValueError, match="not one of ours"):
            make(TENANT, "exec-1", STEP, 2, 0)


def test_id_bytes_of_ours() -> None:
    raw = id_bytes(EXECUTION)
    assert raw == bytes.fromhex(EXECUTION.replace("-", ""))
    assert raw is not None
    assert int.from_bytes(raw[:4], "big") == ROUTE == route_of(EXECUTION) == route_of(EXECUTION.upper())
    assert id_bytes(EXECUTION.upper()) == raw


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int-9",
        "37a24770-0985-3ca7-b0dc-27520cb52d1f",
        "37a24770-0985-8ca7-c0dc-27520cb52d1f",
        "37a24770-0985-8ca7-b0dc-27520cb52d1f\n",
        " 37a24770-0985-8ca7-b0dc-27520cb52d1f",
        "37a2477009858ca7b0dc27520cb52d1f",
        "{37a24770-0985-8ca7-b0dc-27520cb52d1f}",
        "37a24770-0985-8ca7-b0dc-27520cb52d1\u0661",
        "37a24770-0985-8ca7-b0dc-27520cb52d1\uff11",
        "37a24770-0985-8ca7-b0dc-27520cb52d1",
    ],
)
def test_foreign_ids_route_nowhere(text: str) -> None:
    assert id_bytes(text) is None
    assert route_of(text) is None


def test_a_file_name_that_is_not_utf8_has_an_id() -> None:
    assert route_of(IdFactory(SECRET).execution_id(TENANT, PIPELINE, "\udcff.csv", 0)) is not None


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 200])
def test_the_keyed_digest_is_hmac(size: int) -> None:
    key, digest = b"k" * size, KeyedDigest(b"k" * size, b"one")
    assert digest.digest(b"two") == hmac.digest(key, b"onetwo", "sha256")
    longer = digest.extend(b"two")
    assert longer.digest(b"") == hmac.digest(key, b"onetwo", "sha256")
    assert longer.digest(b"three") == hmac.digest(key, b"onetwothree", "sha256")
    assert digest.digest(b"") == hmac.digest(key, b"one", "sha256")


IDS = st.text(min_size=0, max_size=12)


@given(IDS, IDS, IDS, st.integers(0, 5), st.integers(0, 20), st.integers(0, 3), st.none() | st.integers(0, 10**9))
def test_ids_are_ours_and_carry_the_route(
    tenant: str, pipeline: str, key: str, life: int, step: int, generation: int, item: int | None
) -> None:
    factory = IdFactory("s")
    execution = factory.execution_id(tenant, pipeline, key, life)
    unit = factory.unit(tenant, execution, "Step", step, generation)
    route = route_hash(tenant, pipeline, key, life)
    for text in (execution, unit.unit_id, unit.interaction_id(item), unit.correlation_id(item)):
        raw = id_bytes(text)
        assert raw is not None
        assert (len(raw), raw[6] >> 4, raw[8] >> 6) == (16, 8, 2)
        assert route_of(text) == route == int.from_bytes(raw[:4], "big")
    assert unit.unit_id == factory.unit_id(tenant, execution, "Step", step, generation)


@given(st.lists(st.text(alphabet="0123:a")), st.lists(st.text(alphabet="0123:a")))
def test_length_prefixes_never_collide(one: list[str], other: list[str]) -> None:
    assert (length_prefixed(*one) == length_prefixed(*other)) == (one == other)


@given(st.text() | st.uuids().map(str) | st.from_regex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\s?"))
def test_any_text_is_an_id_of_ours_or_none(text: str) -> None:
    raw, route = id_bytes(text), route_of(text)
    assert (raw is None) == (route is None)
    if raw is not None:
        assert raw.hex() == text.lower().replace("-", "")


@given(st.binary(max_size=64), st.integers(1, 1024))
def test_a_partition_is_in_range(data: bytes, partitions: int) -> None:
    assert 0 <= partition_of(murmur2(data), partitions) < partitions
