"""Ids that carry their route and are deterministic (contract 0.1).

Layout of the 16 bytes of an id, written as the usual 8-4-4-4-12 lower-case text:

    bytes 0..3    route hash of the execution, big-endian
    bytes 4..15   the first 12 bytes of HMAC-SHA256(id secret, inputs), in which
                  the high nibble of byte 6 is set to 8 (version) and the top two bits of byte 8 to 10 (variant)

Inputs are concatenated as `<length>:<text>` (lengths in characters, as in contract section 8), the domain first:
`tpf.execution`, `tpf.unit`, `tpf.interaction`, `tpf.correlation`. Numbers are their decimal text.
"""

from __future__ import annotations

import hashlib
import re
import struct
from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_BLOCK: Final = 64
_OUR_ID = re.compile("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-8[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}")
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def length_prefixed(*parts: str) -> str:
    """`<length>:<text>` of each part in a row: no two different lists of parts give the same text."""
    return "".join([f"{len(part)}:{part}" for part in parts])


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (seed 0x9747b28c) as an unsigned 32-bit number."""
    length = len(data)
    words = length >> 2
    h = _MURMUR_SEED ^ length
    for k in struct.unpack_from(f"<{words}I", data):
        k = (k * _MURMUR_M) & _MASK
        k = ((k ^ (k >> 24)) * _MURMUR_M) & _MASK
        h = ((h * _MURMUR_M) & _MASK) ^ k
    tail = data[words << 2 :]
    if tail:
        h = ((h ^ int.from_bytes(tail, "little")) * _MURMUR_M) & _MASK
    h = ((h ^ (h >> 13)) * _MURMUR_M) & _MASK
    return h ^ (h >> 15)


def route_hash(tenant: str, pipeline_id: str, execution_key: str, life: int) -> int:
    """The route hash of an execution: murmur2 over its length-prefixed inputs; unsigned 32 bits."""
    return murmur2(_utf8(length_prefixed(tenant, pipeline_id, execution_key, str(life))))


def partition_of(route: int, partitions: int) -> int:
    """The home partition of a route hash among `partitions`."""
    return (route & 0x7FFFFFFF) % partitions


@lru_cache(maxsize=8_192)
def id_bytes(text: str) -> bytes | None:
    """The 16 bytes of an id of ours (version 8, RFC variant, either case), or None. Never raises.

    Kept, because an item's ids are looked at a dozen times on its way.
    """
    if _OUR_ID.fullmatch(text) is None:
        return None
    return bytes.fromhex(text.replace("-", ""))


def route_of(text: str) -> int | None:
    """The route hash in an id of ours, or None: that id routes nowhere (`not_found`)."""
    raw = id_bytes(text)
    return None if raw is None else int.from_bytes(raw[:4], "big")


class KeyedDigest:
    """HMAC-SHA256 under one key and one prefix; each `digest` costs two copies and no key set-up."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes, prefix: bytes = b"") -> None:
        if len(key) > _BLOCK:
            key = hashlib.sha256(key).digest()
        padded = key.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes([byte ^ 0x36 for byte in padded]) + prefix)
        self._outer = hashlib.sha256(bytes([byte ^ 0x5C for byte in padded]))

    def digest(self, message: bytes) -> bytes:
        """The 32 bytes of HMAC-SHA256(key, prefix + message)."""
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def extend(self, message: bytes) -> KeyedDigest:
        """The same key with `message` added to the prefix."""
        longer = KeyedDigest.__new__(KeyedDigest)
        longer._inner = self._inner.copy()
        longer._inner.update(message)
        longer._outer = self._outer
        return longer


class UnitIds:
    """The ids of one await unit and of its items. `item_index` None stands for the single (scalar) item."""

    __slots__ = ("_correlation", "_interaction", "_route", "unit_id")

    def __init__(self, unit_id: str, interaction: KeyedDigest, correlation: KeyedDigest) -> None:
        self.unit_id = unit_id
        self._route = unit_id[:8]
        self._interaction = interaction
        self._correlation = correlation

    def interaction_id(self, item_index: int | None) -> str:
        return _format(self._route, self._interaction.digest(_item(item_index)))

    def correlation_id(self, item_index: int | None) -> str:
        return _format(self._route, self._correlation.digest(_item(item_index)))


class IdFactory:
    """Makes every id of a pipeline. `secret`: the setting `pipeline.id-secret`, or the application id."""

    __slots__ = ("_correlation", "_execution", "_interaction", "_unit")

    def __init__(self, secret: str) -> None:
        key = _utf8(secret)
        self._execution = KeyedDigest(key, _domain("tpf.execution"))
        self._unit = KeyedDigest(key, _domain("tpf.unit"))
        self._interaction = KeyedDigest(key, _domain("tpf.interaction"))
        self._correlation = KeyedDigest(key, _domain("tpf.correlation"))

    def execution_id(self, tenant: str, pipeline_id: str, execution_key: str, life: int) -> str:
        """Id of an execution. `life` grows when its key is used again after retention (contract 0.18)."""
        inputs = _utf8(length_prefixed(tenant, pipeline_id, execution_key, str(life)))
        return _format(f"{murmur2(inputs):08x}", self._execution.digest(inputs))

    def unit_id(self, tenant: str, execution_id: str, step_id: str, step_index: int, generation: int) -> str:
        """Id of an await unit. `generation` grows on redrive. Raises ValueError when `execution_id` is not ours."""
        inputs = _unit_inputs(tenant, execution_id, step_id, step_index, generation)
        return _format(_route_text(execution_id), self._unit.digest(inputs))

    def unit(self, tenant: str, execution_id: str, step_id: str, step_index: int, generation: int) -> UnitIds:
        """The unit's id and a quick source of its items' ids. Raises ValueError when `execution_id` is not ours."""
        inputs = _unit_inputs(tenant, execution_id, step_id, step_index, generation)
        unit_id = _format(_route_text(execution_id), self._unit.digest(inputs))
        return UnitIds(unit_id, self._interaction.extend(inputs), self._correlation.extend(inputs))


def _utf8(text: str) -> bytes:
    """UTF-8 that takes lone surrogates too: a file name that is not UTF-8 has them."""
    return text.encode("utf-8", "surrogatepass")


def _domain(name: str) -> bytes:
    return _utf8(length_prefixed(name))


def _unit_inputs(tenant: str, execution_id: str, step_id: str, step_index: int, generation: int) -> bytes:
    return _utf8(length_prefixed(tenant, execution_id, step_id, str(step_index), str(generation)))


def _item(item_index: int | None) -> bytes:
    if item_index is None:
        return b"6:single"
    text = b"%d" % item_index
    return b"%d:%b" % (len(text), text)


def _route_text(execution_id: str) -> str:
    route = route_of(execution_id)
    if route is None:
        raise ValueError("the execution id is not one of ours")
    return f"{route:08x}"


def _format(route: str, digest: bytes) -> str:
    """The text of an id: eight hex digits of route, then 24 of the digest with version and variant set."""
    h = digest[:12].hex()
    return f"{route}-{h[:4]}-8{h[5:8]}-{_VARIANT[h[8]]}{h[9:12]}-{h[12:]}"
