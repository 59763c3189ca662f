"""What a listing becomes: executions to ask for, and problems told before anything is dispatched."""

from __future__ import annotations

import pytest

from tpf_streams.connectors.filesystem_source import FilesystemSource
from tpf_streams.runtime.inputs import object_submissions

TEMPLATE = "{groupKey}.out"


@pytest.mark.parametrize(
    ("name", "reason"), [(".hidden.csv", "begins with a dot"), ("x" * 200 + ".csv", "longer than")]
)
def test_an_object_whose_output_can_have_no_name_is_refused_before_it_is_paid(tmp_path, name, reason):
    """Its execution dispatched every row first, and failed with OUTPUT_NAME_INVALID at its end."""
    (tmp_path / name).write_text("ID\n1\n")
    (tmp_path / "good.csv").write_text("ID\n1\n")
    source = FilesystemSource("files", [str(tmp_path / name), str(tmp_path / "good.csv")])
    refused, good = object_submissions(source, ["key"], [], TEMPLATE)
    assert refused.source is not None
    assert (refused.source.key, reason in (refused.problem or "")) == (name, True)
    assert good.problem is None


def test_without_publishing_every_name_will_do(tmp_path):
    (tmp_path / ".hidden.csv").write_text("ID\n1\n")
    (found,) = object_submissions(FilesystemSource("files", [str(tmp_path / ".hidden.csv")]), ["key"], [])
    assert found.problem is None
