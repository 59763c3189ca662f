"""What the YAML reader refuses before any key is looked at, and what it keeps as written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpf_streams.dsl.document import MAX_BYTES, MapNode, TextNode, parse_yaml, read_text
from tpf_streams.dsl.report import Report
from tpf_streams.errors import DefinitionError


def parse(text: str) -> MapNode:
    return parse_yaml(text, "p.yaml", Report())


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "p.yaml:1: file: the file is empty"),
        ("# only a comment\n", "p.yaml:1: file: the file is empty"),
        ("~", "p.yaml:1: file: the file is empty"),
        ("- a\n- b\n", "p.yaml:1: file: the file must be one mapping of keys to values"),
        ("a: 1\n---\nb: 2\n", "p.yaml:2: file: a second document; one is wanted"),
        ("a: [1, 2\nb: 3\n", "p.yaml:2: file: not YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", "p.yaml:2: file: not YAML: found character '\\t' that cannot start any token"),
        ("a: 1\nb: \x07\n", "p.yaml:2: file: a control character, which YAML does not allow"),
        ("a:\n  b: !!python/object/apply:os.system [ls]\n", "p.yaml:2: file: tag 'tag:yaml.org,2002:python/object/"),
        ("a: !int 3\n", "p.yaml:1: file: tag '!int': tags are not allowed, write the plain value"),
        ("a: *nowhere\n", "p.yaml:1: file: alias '*nowhere': no such anchor before it"),
        ("a: &self\n  b: *self\n", "p.yaml:2: file: alias '*self': no such anchor before it"),
        ("? [a, b]\n: 1\n", "p.yaml:1: file: a key must be one word, not a list or a mapping"),
        (laughs(8), "p.yaml:5: file: more than 10000 values, aliases followed"),
        ("a: " + "[" * 40 + "]" * 40, "p.yaml:1: file: nested more than 32 deep"),
        ("a: " + "[" * 100_000, "p.yaml:1: file: nested more than 32 deep"),
    ],
)
def test_what_is_no_pipeline_file_is_refused(text, told):
    with pytest.raises(DefinitionError) as caught:
        parse(text)
    assert str(caught.value).startswith(told)
    assert len(caught.value.problems) == 1


def test_scalars_stay_as_written():
    root = parse('a: no\nb: 1:30\nc: 0o17\nd: 1e3\ne: "null"\nf: !!str 7\ng: null\nh:\n')
    texts = {key: entry.node for key, entry in root.entries.items()}
    assert [node.text for node in texts.values() if isinstance(node, TextNode)] == [
        "no", "1:30", "0o17", "1e3", "null", "7", "null", "",
    ]  # fmt: skip
    assert [key for key, node in texts.items() if isinstance(node, TextNode) and node.is_null] == ["g", "h"]


def test_a_mapping_takes_others_in():
    """The mapping's own keys win, then the first of a list; lines are those where a key was written."""
    root = parse("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 3\nd: {<<: *b}\n")
    c, d = root.entries["c"].node, root.entries["d"].node
    assert isinstance(c, MapNode) and isinstance(d, MapNode)
    assert {key: (entry.node, entry.line) for key, entry in c.entries.items()} == {
        "x": (TextNode("3", 5, True), 5),
        "y": (TextNode("1", 1, True), 1),
        "z": (TextNode("2", 2, True), 2),
    }
    assert list(d.entries) == ["y", "z"]


def test_an_anchor_may_be_used_twice_and_keeps_its_own_lines():
    root = parse("a: &x\n  k: v\nb: *x\n")
    assert root.entries["b"].line == 3
    assert root.entries["b"].node is root.entries["a"].node


def test_a_repeated_key_is_told_and_the_first_one_kept():
    report = Report()
    root = parse_yaml("a: 1\nb: 2\na: 3\n", "p.yaml", report)
    assert root.entries["a"].node == TextNode("1", 1, True)
    assert [str(problem) for problem in report.problems] == ["p.yaml:3: a: written twice, first in line 1; keep one"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: \xff\n", "f:1: file: not UTF-8"),
        (b"a: 1\nb: \xe9\n", "f:2: file: not UTF-8"),
        (b"#" * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes"),
    ],
)
def test_bytes_that_are_no_small_utf8_text_are_refused(tmp_path, content, told):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(DefinitionError, match=told):
        read_text(path, "f")


def test_a_byte_order_mark_is_dropped_and_a_missing_file_is_told(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_text(path, "f") == "a: 1\n"
    with pytest.raises(DefinitionError, match="nowhere:0: file: cannot be read: No such file"):
        read_text(Path("nowhere"), "nowhere")
