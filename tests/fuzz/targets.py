"""Every reader of bytes that others write, or that a disk may have changed: what it takes, and how it may refuse.

A target reads one input and checks what it got. It may raise what its docstring names and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from tests.unit.core.machine import SECRET, START_MS, TIMEOUT_MS, Machine, pipeline, token
from tpf_streams.connectors.csv_reader import CsvRow, read_csv, scan_csv
from tpf_streams.core import rows
from tpf_streams.core.decide import decide
from tpf_streams.core.envelope import EnvelopeRefusedError, parse_completion
from tpf_streams.core.execution import ExecutionRecord, OutputRecord, OwedRecord, PartRecord, RejectRecord
from tpf_streams.core.identity import id_bytes, route_of
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord
from tpf_streams.core.json_policy import dumps
from tpf_streams.core.state import State
from tpf_streams.core.step import Limits
from tpf_streams.core.token import TokenSigner
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord
from tpf_streams.engine.lifecycle import decode_lifecycle
from tpf_streams.engine.owners import Owner, owner_of, owner_record
from tpf_streams.engine.wire import ARRIVED_HEADER, EVENT_HEADER, SOURCE_HEADER, VERSION_HEADER, WireError, decode_event
from tpf_streams.errors import CsvStructureError, LogCorruptError, TokenError
from tpf_streams.logs.local.keys import decode_record, encode_record
from tpf_streams.ports import InputRecord, Record, TopicPartition
from tpf_streams.stores.memory import MemoryStateStore

MAX = 64 * 1024
SIGNER = TokenSigner((SECRET, "another"))
COLUMNS = ("ID", "Amount")
LIMITS = Limits(max_payload_bytes=1_000, max_aggregate_bytes=4_000)
RECORDS = (
    ExecutionRecord, AwaitUnitRecord, InteractionRecord, SessionRecord, OwedRecord, OutputRecord, PartRecord,
    RejectRecord, EarlyRecord,
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """`samples`: good inputs, to be broken. `refusals`: the errors it may raise."""

    name: str
    read: Callable[[bytes], None]
    samples: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...]


def read_envelope(data: bytes) -> None:
    strict = parse_completion(data, max_bytes=MAX, strict=False)
    assert strict.tenant_id == strict.tenant_id.strip() != ""
    assert strict.interaction_id or strict.correlation_id
    assert len(dumps(strict.response_payload)) <= MAX
    parse_completion(data, max_bytes=MAX, strict=True)


def read_token(data: bytes) -> None:
    SIGNER.verify(data.decode("utf-8", "surrogateescape"))


def read_claims(data: bytes) -> None:
    """The payload of a token whose signature is right: a secret may sign other things than tokens of ours."""
    payload = base64.urlsafe_b64encode(data).rstrip(b"=")
    signature = base64.urlsafe_b64encode(hmac.new(SECRET.encode(), payload, hashlib.sha256).digest()).rstrip(b"=")
    claims = SIGNER.verify((payload + b"." + signature).decode())
    assert SIGNER.verify(SIGNER.sign(claims)) == claims


def read_id(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    raw, route = id_bytes(text), route_of(text)
    assert (raw is None) == (route is None)
    if raw is not None:
        assert rows.text_id(raw) == text.lower()
        assert route == int.from_bytes(raw[:4], "big")


def read_file(encoding: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "f.csv"
            path.write_bytes(data)
            scan = scan_csv(path, COLUMNS, encoding)
            found = list(read_csv(path, COLUMNS, encoding, scan.sha256))
        assert len(found) == scan.records
        for row in found:
            assert row.line >= 2
            assert not isinstance(row, CsvRow) or row.cells.keys() == set(COLUMNS)

    return read


def read_row(cls: type) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        assert isinstance(rows.decode(cls, data), cls)

    return read


def read_event(data: bytes) -> None:
    """First line: kind, arrival and format; then the value. What is an event must not break the commit of its turn."""
    head, _, value = data.partition(b"\n")
    kind, arrived, version = ([*head.split(b" "), b"", b""])[:3]
    headers = (
        (EVENT_HEADER, kind),
        (VERSION_HEADER, version or b"1"),
        (ARRIVED_HEADER, arrived),
        (SOURCE_HEADER, value[:9]),
    )
    event = decode_event(InputRecord("t", 0, 0, START_MS, None, value or None, headers), LIMITS)
    state = State(MemoryStateStore(), 0, pipeline("i"))
    state.now_ms = START_MS
    with suppress(Exception):  # a decision that raises is a dead letter (contract 0.5)
        state.apply(decide(state, event))
    state.seal()


def read_journal(data: bytes) -> None:
    record = decode_record(TopicPartition("t", 0), 7, data)
    again = Record("t", record.key, record.value, record.headers)
    assert decode_record(TopicPartition("t", 0), 7, encode_record(again, record.timestamp_ms)) == record


def read_owner(data: bytes) -> None:
    """What is read as an owner can be written again, and is the same."""
    headers = ((EVENT_HEADER, b"owner"), (VERSION_HEADER, b"1"))
    owner = owner_of(InputRecord("t", 3, 0, START_MS, b"3", data or None, headers))
    if owner is not None:
        assert owner.partition == 3
        again = owner_record("t", owner)
        assert owner_of(InputRecord("t", 3, 0, START_MS, again.key, again.value, again.headers)) == owner


def read_lifecycle(data: bytes) -> None:
    for event in decode_lifecycle(data, "t/0/0"):
        assert event.number is not None


def _samples() -> dict[str, tuple[bytes, ...]]:
    """Rows, events and records as the machine writes them."""
    machine = Machine(pipeline("Sks"))
    execution = machine.stream(2, ended=True)
    row = machine.interaction(execution, 1, 0)
    machine.answer(machine.interaction(execution, 1, 1), {"n": 1})
    early = EarlyRecord(row.interaction_id, "t", None, "x.y", None, "a", {"n": 1}, 1, 2)
    found = [row, early, machine.execution(execution), machine.session(execution), machine.unit(execution, 1)]
    found += [*machine.owed(execution), OutputRecord(execution, 0, "T", None, [{"n": 1}]), PartRecord([1])]
    found += [RejectRecord(execution, 0, None, "f.csv", 2, "Amount", "bad", "1,x")]
    stored = {type(it).__name__: (rows.encode(it),) for it in found if it is not None}
    envelope = orjson.dumps(
        {
            "tenantId": row.tenant_id, "interactionId": row.interaction_id, "correlationId": row.correlation_id,
            "resumeToken": token(row), "actor": "a", "responsePayload": {"n": "1.50", "m": [1, None, True, -0.5]},
        }
    )  # fmt: skip
    return {**stored, "envelope": (envelope,), "token": (token(row).encode(),), "id": (row.interaction_id.encode(),)}


SAMPLES = _samples()
ENVELOPE, TOKEN, ID = SAMPLES["envelope"][0], SAMPLES["token"][0], SAMPLES["id"][0]
CLAIMS = base64.urlsafe_b64decode(TOKEN.split(b".")[0] + b"==")
EVENTS = (
    b"completion %d\n" % (START_MS + TIMEOUT_MS // 2) + ENVELOPE,
    b'submit\n{"tenantId":"t","executionKey":"k","inputPayload":{"n":1},"source":null}',
    b'submit\n{"tenantId":"t","executionKey":"k","inputPayload":null,"source":{"source":"s","provider":"file",'
    b'"container":"c","key":"k","etag":"e","path":"p"}}',
    b'marker\n{"responses/0":17}',
    b'cancel-session\n{"executionId":"%s"}' % ID,
    b'cancel-execution\n{"executionId":"%s","reason":"r","origin":"o"}' % ID,
    b'cancel-interaction\n{"interactionId":"%s","reason":"r"}' % ID,
    b'redrive\n{"executionId":"%s","expectedVersion":3,"allowFailed":true,"reason":"r","origin":"o"}' % ID,
)
JOURNAL = tuple(
    encode_record(Record("t", key, value, headers), START_MS)
    for key, value, headers in (
        (None, None, ()),
        (b"", b"", (("h", b""),)),
        (b"k", b"v" * 40, (("tpf-event", b"completion"), ("é", b"\xff"))),
    )
)
LIFECYCLE = (
    orjson.dumps(
        {
            "v": 1, "at": START_MS, "first": 5, "names": ["await_unit_completed", "output"],
            "scopes": [["e"], ["e", "u", 1, "Step", "kafka"]], "events": [[0, 1, 3, "i", "c", {"n": 1}], [1, 0]],
        }
    ),
)  # fmt: skip
CSV = (
    b'ID,Amount\n1,10.00\n"2","3,00"\n3,"a\nb"\n\n,\n4\n',
    b'\xef\xbb\xbfAmount,ID,\r\n"x ""y""",1\r\n1.5,\xc3\xa9,\r\n',
)

TARGETS = [
    Target("envelope", read_envelope, (ENVELOPE,), (EnvelopeRefusedError,)),
    Target("token", read_token, (TOKEN,), (TokenError,)),
    Target("claims", read_claims, (CLAIMS,), (TokenError,)),
    Target("id", read_id, (ID, ID.upper()), ()),
    Target("csv", read_file("utf-8"), CSV, (CsvStructureError,)),
    Target("csv-gb18030", read_file("gb18030"), CSV[:1], (CsvStructureError,)),
    Target("csv-shift_jis", read_file("shift_jis"), CSV[:1], (CsvStructureError,)),
    Target("event", read_event, EVENTS, (WireError,)),
    Target("journal", read_journal, JOURNAL, (LogCorruptError,)),
    Target("lifecycle", read_lifecycle, LIFECYCLE, (LogCorruptError,)),
    Target("owner", read_owner, (owner_record("t", Owner(3, "w", "http://h:1", 7)).value or b"",), ()),
    Target("markers", rows.decode_markers, (b'\x01{"t/0":1}',), (LogCorruptError,)),  # type: ignore[arg-type]
    *(Target(cls.__name__, read_row(cls), SAMPLES[cls.__name__], (LogCorruptError,)) for cls in RECORDS),
]
