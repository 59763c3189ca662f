"""ProtoJSON, as strictly as money wants it: what comes is held against the descriptor before the library reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.partner import messages
from tpf_streams.core.json_policy import parse_json
from tpf_streams.dsl.protobuf import is_message, is_message_class, message_name, reader, to_json
from tpf_streams.dsl.scalars import Mismatch

_MESSAGES = messages(
    "strict.v1",
    Part={"id": "string", "count": "int64"},
    Whole={
        "id": "string",
        "status_code": "int64",
        "small": "int32",
        "ok": "bool",
        "rate": "double",
        "raw": "bytes",
        "kind": "enum UNKNOWN|GOOD|BAD",
        "part": "Part",
        "parts": "[Part]",
        "names": "[string]",
        "left": "oneof Part",
        "right": "oneof string",
    },
)
Part, Whole = _MESSAGES["Part"], _MESSAGES["Whole"]
DEFAULTS = {
    "id": "", "statusCode": "0", "small": 0, "ok": False, "rate": 0.0, "raw": "", "kind": "UNKNOWN", "parts": [],
    "names": [],
}  # fmt: skip


def through(payload: Any) -> Any:
    return to_json(reader(Whole)(payload))


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        ({}, {}),
        ({"id": "ä", "more": [{}]}, {"id": "ä"}),
        ({"statusCode": "9223372036854775807"}, {"statusCode": "9223372036854775807"}),
        ({"statusCode": 12, "small": "-7"}, {"statusCode": "12", "small": -7}),
        ({"status_code": 12}, {"statusCode": "12"}),
        ({"rate": "2.5"}, {"rate": 2.5}),
        ({"rate": 2}, {"rate": 2.0}),
        ({"kind": "GOOD"}, {"kind": "GOOD"}),
        ({"kind": 2}, {"kind": "BAD"}),
        ({"raw": "aGk="}, {"raw": "aGk="}),
        ({"part": {}, "id": None}, {"part": {"id": "", "count": "0"}}),
        ({"parts": [{"id": "a", "later": 1}], "names": ["x"]},
         {"parts": [{"id": "a", "count": "0"}], "names": ["x"]}),
        ({"right": "text"}, {"right": "text"}),
    ],
)  # fmt: skip
def test_protojson_is_read_and_written(payload, written):
    assert through(payload) == {**DEFAULTS, **written}


@pytest.mark.parametrize(
    ("payload", "path", "reason"),
    [
        (None, "", "an object is wanted"),
        ([], "", "an object is wanted"),
        ("text", "", "an object is wanted"),
        (5, "", "an object is wanted"),
        ({"part": []}, "part", "an object is wanted"),
        ({"part": "s3cret"}, "part", "an object is wanted"),
        ({"part": {"count": "s3cret"}}, "part.count", "an int64 is wanted"),
        ({"parts": {}}, "parts", "a list is wanted"),
        ({"parts": ["s3cret"]}, "parts", "an object is wanted"),
        ({"names": "s3cret"}, "names", "a list is wanted"),
        ({"statusCode": "1_0"}, "statusCode", "an int64 is wanted"),
        ({"statusCode": "1.0"}, "statusCode", "an int64 is wanted"),
        ({"statusCode": "٣"}, "statusCode", "an int64 is wanted"),
        ({"statusCode": "9223372036854775808"}, "statusCode", "no ProtoJSON of strict.v1.Whole"),
        ({"statusCode": True}, "statusCode", "no ProtoJSON of strict.v1.Whole"),
        ({"statusCode": 1, "status_code": 1}, "statusCode", "statusCode and status_code are one field"),
        ({"rate": "1_0"}, "rate", "a number is wanted"),
        ({"ok": "true"}, "ok", "no ProtoJSON of strict.v1.Whole"),
        ({"id": 5}, "id", "no ProtoJSON of strict.v1.Whole"),
        ({"kind": "s3cret"}, "kind", "a value of strict.v1.Whole.KindKind is wanted"),
        ({"kind": 9}, "kind", "a value of strict.v1.Whole.KindKind is wanted"),
        ({"kind": True}, "kind", "a value of strict.v1.Whole.KindKind is wanted"),
        ({"kind": []}, "kind", "a value of strict.v1.Whole.KindKind is wanted"),
        ({"left": {}, "right": "x"}, "", "no ProtoJSON of strict.v1.Whole"),
        ({"names": [5]}, "names", "no ProtoJSON of strict.v1.Whole"),
        ({"id": "\ud800"}, "id", "no ProtoJSON of strict.v1.Whole"),
    ],
)
def test_what_the_library_alone_would_take_or_tell_too_much_of(payload, path, reason):
    with pytest.raises(Mismatch) as caught:
        reader(Whole)(payload)
    assert (caught.value.path, caught.value.reason) == (path, reason)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(sorted(
        [it for field in Whole.DESCRIPTOR.fields for it in (field.name, field.json_name)] + ["count", "other"]
    )), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@given(_json)
def test_any_json_is_read_or_refused_and_what_was_read_stays_what_it_is(payload):
    try:
        message = reader(Whole)(payload)
    except Mismatch:
        return
    written = to_json(message)
    wire = parse_json(orjson.dumps(written), 100_000)
    assert to_json(reader(Whole)(wire)) == written


def test_what_is_a_message():
    assert is_message(Part()) and not is_message(Part) and not is_message({})
    assert is_message_class(Part) and not is_message_class(Part()) and not is_message_class(dict)
    assert message_name(Part) == "strict.v1.Part"


PROGRAM = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "google" or name.startswith("google."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
for name in [name for name in sys.modules if name.split(".")[0] == "google"]:
    del sys.modules[name]
from pathlib import Path
from tpf_streams.dsl import load_pipeline
from tpf_streams.errors import DefinitionError
from tpf_streams.dsl.outgoing import outgoing
assert outgoing({"a": (1, None)}) == {"a": [1, None]}
try:
    load_pipeline(Path(sys.argv[1]), environ={})
except DefinitionError as error:
    print(error)
"""


def test_a_message_without_the_extra_is_told_what_to_install(tmp_path):
    file = tmp_path / "pipeline.yaml"
    (tmp_path / "partner_pb2.py").write_text("from google.protobuf import descriptor\n")
    file.write_text("""
version: 3
appName: extra
types: {Ask: {fields: [[orderId, string]]}}
steps:
  - name: One
    kind: await
    input: Ask
    output: Ask
    timeout: PT1M
    await:
      correlation: {strategy: interactionId}
      transport: {type: interaction-api, outputType: "partner_pb2:Answer"}
""")
    words = [sys.executable, "-c", PROGRAM, str(file)]
    found = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[3]
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"{file}:13: steps[0].await.transport.outputType: module partner_pb2 imports google")
    assert (
        "which is not installed; protobuf messages need the extra: pip install 'tpf_streams[protobuf]'" in found.stdout
    )
