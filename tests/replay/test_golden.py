"""One row of each kind, byte by byte: a change of these bytes needs a new format version, or a field at the end."""

from __future__ import annotations

import pytest

from tpf_streams.core.execution import (
    ExecutionRecord,
    ExecutionStatus,
    OutputRecord,
    OwedKind,
    OwedRecord,
    PartRecord,
    RejectRecord,
    Summary,
    TombstoneRecord,
)
from tpf_streams.core.interaction import EarlyRecord, InteractionRecord, InteractionStatus
from tpf_streams.core.rows import Keys, decode, encode
from tpf_streams.core.unit import AwaitUnitRecord, SessionRecord, UnitStatus

ID = "0123abcd-1111-8222-8333-444444444444"
T = 1_700_000_000_000
KEYS = Keys(5)

GOLDEN: list[tuple[bytes, object, str, bytes]] = [
    (
        KEYS.execution(ID),
        ExecutionRecord(
            tenant_id="t",
            execution_id=ID,
            execution_key="k",
            pipeline_id="p",
            life=0,
            generation=0,
            status=ExecutionStatus.SUCCEEDED,
            version=3,
            current_step_index=2,
            attempt=0,
            input_payload={"n": "1.50"},
            source={"key": "a.csv"},
            await_unit_id=None,
            error_code=None,
            error_message=None,
            error_detail=None,
            created_at_epoch_ms=T,
            updated_at_epoch_ms=T + 1,
            published="a.csv.out",
            summary=Summary(3, 2, 1, 0, {"approved": 2}),
        ),
        "0005650123abcd111182228333444444444444",
        b'\x01["t","0123abcd-1111-8222-8333-444444444444","k","p",0,0,"SUCCEEDED",3,2,0,{"n":"1.50"},{"key":"a.csv"},null,null,null,null,1700000000000,1700000000001,"a.csv.out",{"items":3,"outputs":2,"rejected_rows":1,"rejected_items":0,"by_arm":{"approved":2},"place":null},0,null,null]',
    ),
    (
        KEYS.unit(ID),
        AwaitUnitRecord(
            *("t", ID, ID, "s", 1, 0, "ONE_TO_ONE", True, UnitStatus.COMPLETED, 2, 3, 2, 1, True, T, T + 1),
        ),
        "0005750123abcd111182228333444444444444",
        b'\x01["t","0123abcd-1111-8222-8333-444444444444","0123abcd-1111-8222-8333-444444444444","s",1,0,"ONE_TO_ONE",true,"COMPLETED",2,3,2,1,true,1700000000000,1700000000001]',
    ),
    (
        KEYS.session(ID),
        SessionRecord(
            ID, True, 3, 4, "ab", True, 2, 2, 1, 0, {"1": 2}, {"approved": 2}, ("C", "m", "d"), True, {"1": 1}, 1, 34
        ),
        "0005730123abcd111182228333444444444444",
        b'\x01["0123abcd-1111-8222-8333-444444444444",true,3,4,"ab",true,2,2,1,0,{"1":2},{"approved":2},["C","m","d"],true,{"1":1},1,34,null]',
    ),
    (
        KEYS.interaction(ID),
        InteractionRecord(
            tenant_id="t",
            execution_id=ID,
            unit_id=ID,
            step_id="s",
            step_index=1,
            item_index=7,
            interaction_id=ID,
            correlation_id=ID,
            causation_id="c",
            idempotency_key="i",
            status=InteractionStatus.COMPLETED,
            version=2,
            input_type="In",
            output_type="Out",
            request_payload={"n": "1.50"},
            response_payload=[True, None],
            actor="a",
            assignee=None,
            group="g",
            transport_type="kafka",
            deadline_epoch_ms=T + 60_000,
            issued_at_epoch_ms=T,
            dispatched_at_epoch_ms=T,
            created_at_epoch_ms=T,
            updated_at_epoch_ms=T + 1,
            transport_metadata={"adapter": "kafka"},
        ),
        "0005690123abcd111182228333444444444444",
        b'\x01["t","0123abcd-1111-8222-8333-444444444444","0123abcd-1111-8222-8333-444444444444","s",1,7,"0123abcd-1111-8222-8333-444444444444","0123abcd-1111-8222-8333-444444444444","c","i","COMPLETED",2,"In","Out",{"n":"1.50"},[true,null],"a",null,"g","kafka",1700000060000,1700000000000,1700000000000,1700000000000,1700000000001,{"adapter":"kafka"}]',
    ),
    (
        KEYS.output(ID, 7),
        OutputRecord(ID, 7, "Out", "approved", [{"ä": "1.50"}]),
        "00056f0123abcd11118222833344444444444400000007",
        b'\x01["0123abcd-1111-8222-8333-444444444444",7,"Out","approved",[{"\xc3\xa4":"1.50"}]]',
    ),
    (
        KEYS.part(ID, 2, 7),
        PartRecord([{"ä": "1.50"}, []]),
        "0005610123abcd111182228333444444444444000200000007",
        b'\x01[[{"\xc3\xa4":"1.50"},[]]]',
    ),
    (
        KEYS.reject(ID, 1),
        RejectRecord(ID, 1, None, "a.csv", 3, "Amount", "no decimal", "1,x"),
        "0005720123abcd11118222833344444444444400000001",
        b'\x01["0123abcd-1111-8222-8333-444444444444",1,null,"a.csv",3,"Amount","no decimal","1,x"]',
    ),
    (
        KEYS.owed(ID, OwedKind.SEGMENT, 7),
        OwedRecord(ID, OwedKind.SEGMENT, 7, 2, {"n": 1}, ID, ID, 0, 1, "approved"),
        "0005770123abcd1111822283334444444444440100000007",
        b'\x01["0123abcd-1111-8222-8333-444444444444","SEGMENT",7,2,{"n":1},"0123abcd-1111-8222-8333-444444444444","0123abcd-1111-8222-8333-444444444444",0,1,"approved",0]',
    ),
    (
        KEYS.early(ID),
        EarlyRecord(ID, "t", ID, "token", None, "a", {"ok": True}, T, T + 60_000),
        "0005790123abcd111182228333444444444444",
        b'\x01["0123abcd-1111-8222-8333-444444444444","t","0123abcd-1111-8222-8333-444444444444","token",null,"a",{"ok":true},1700000000000,1700000060000,[]]',
    ),
    (
        KEYS.correlation(ID),
        bytes(range(16)),
        "0005630123abcd111182228333444444444444",
        b"\x01\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f",
    ),
    (KEYS.deadline(T, ID), b"", "0005640000018bcfe568000123abcd111182228333444444444444", b"\x01"),
    (KEYS.early_expiry(T, ID), b"", "00057a0000018bcfe568000123abcd111182228333444444444444", b"\x01"),
    (KEYS.retention(T, ID), b"", "0005670000018bcfe568000123abcd111182228333444444444444", b"\x01"),
    (
        KEYS.tombstone(ID),
        TombstoneRecord("t", "k", ID, 2, T, ingested=True),
        "0005780123abcd111182228333444444444444",
        b'\x01["t","k","0123abcd-1111-8222-8333-444444444444",2,1700000000000,true]',
    ),
    (KEYS.markers, {"t/0": 7}, "00056d", b'\x01{"t/0":7}'),
    (KEYS.lifecycle, (7).to_bytes(8, "big"), "00056c", b"\x01\x00\x00\x00\x00\x00\x00\x00\x07"),
    (KEYS.now, T.to_bytes(8, "big"), "00056e", b"\x01\x00\x00\x01\x8b\xcf\xe5h\x00"),
]


@pytest.mark.parametrize(("key", "record", "key_hex", "value"), GOLDEN, ids=[chr(it[0][2]) for it in GOLDEN])
def test_bytes(key, record, key_hex, value):
    assert (key.hex(), encode(record)) == (key_hex, value)
    if not isinstance(record, bytes | dict):
        assert decode(type(record), value) == record


def test_a_session_from_before_there_were_lists():
    counts = b'true,3,4,"ab",true,2,2,1,0,{"1":2},{"approved":2},["C","m","d"],true,{"1":1}'
    value = b'\x01["0123abcd-1111-8222-8333-444444444444",' + counts + b"]"
    session = decode(SessionRecord, value)
    assert (session.unanswered, session.stream, session.output_bytes) == ({"1": 1}, 0, 0)
