"""JSON files as inputs: one execution a file or a line, and what is told of those that are none."""

from __future__ import annotations

import os

from tpf_streams.runtime.inputs import input_place, json_submissions

MAX = 1_000


def submitted(*paths):
    return list(json_submissions([str(path) for path in paths], MAX))


def test_a_file_is_one_and_each_line_of_a_lines_file(tmp_path):
    (tmp_path / "a.json").write_text('{"n": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"n": 2}\n\n  \n{"n": 3}')
    (tmp_path / "c.txt").write_text("nothing")
    found = submitted(tmp_path)
    assert [it.payload for it in found] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert len({it.execution_key for it in found}) == 3
    assert [it.execution_key for it in submitted(tmp_path)] == [it.execution_key for it in found]


def test_equal_lines_are_executions_of_their_own(tmp_path):
    (tmp_path / "a.ndjson").write_text('{"n": 1}\n{"n": 1}\n')
    first, second = submitted(tmp_path / "a.ndjson")
    assert first.execution_key != second.execution_key


def test_a_key_says_which_line_it_was(tmp_path):
    (tmp_path / "a: b.jsonl").write_text('{"n": 1}\n\n{"n": 1}\n')
    (tmp_path / "c.json").write_text("1")
    places = [input_place(it.execution_key) for it in submitted(tmp_path)]
    assert places == ["a: b.jsonl:1", "a: b.jsonl:3", "c.json"]
    assert [input_place(key) for key in ("file:orders:1:2", "order-7", "")] == [None, None, None]


def test_what_is_no_json_is_told_with_its_line(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"n": 1}\n{"n": 1, "n": 2}\nnull\n')
    good, twice, null = submitted(file)
    assert (good.problem, null.problem) == (None, None)
    assert twice.problem is not None and twice.problem.startswith(f"{file}:2: ")


def test_a_line_without_end_takes_no_memory_and_the_next_one_counts(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('"' + "x" * 10_000 + '"\n{"n": 1}\n' + "y" * 5_000)
    long, good, last = submitted(file)
    assert long.problem is not None and long.problem.startswith(f"{file}:1: ")
    assert good.payload == {"n": 1}
    assert last.problem is not None and last.problem.startswith(f"{file}:3: ")


def test_a_line_of_the_greatest_length_is_taken(tmp_path):
    for end in ("\n", "\r\n", ""):
        (tmp_path / "a.jsonl").write_text('"' + "x" * (MAX - 2) + '"' + end)
        assert [it.problem for it in submitted(tmp_path / "a.jsonl")] == [None]
    (tmp_path / "a.json").write_text('"' + "x" * (MAX - 1) + '"')
    assert submitted(tmp_path / "a.json")[0].problem is not None


def test_a_file_that_cannot_be_read_is_told_and_the_others_go_on(tmp_path):
    os.symlink("a.json", tmp_path / "a.json")
    (tmp_path / "b.json").write_text("1")
    unreadable, good = submitted(tmp_path)
    assert unreadable.problem is not None and "a.json: cannot be read: " in unreadable.problem
    assert good.payload == 1
