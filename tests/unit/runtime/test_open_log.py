"""What a data directory remembers of its last run."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tpf_streams.dsl.load import load_pipeline
from tpf_streams.errors import LogError, LogMismatchError
from tpf_streams.runtime.open_log import RUN_FILE, RunNote, open_local_log, recall, remember, run_note

FRAUD_CHECK = Path(__file__).parents[3] / "topologies/fraud_check/pipeline.yaml"


def test_a_note_comes_back(tmp_path):
    note = RunNote("/a/pipeline.yaml", "/a/config.yaml", {"sync": "interval"}, "/a/out")
    remember(tmp_path, note)
    assert recall(tmp_path) == note
    assert stat.S_IMODE((tmp_path / RUN_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [RUN_FILE]


def test_the_last_one_counts(tmp_path):
    remember(tmp_path, RunNote("first"))
    remember(tmp_path, RunNote("second"))
    assert recall(tmp_path) == RunNote("second")


def test_without_a_run_there_is_none(tmp_path):
    assert recall(tmp_path) is None


def test_secrets_and_unknown_keys_are_left_out():
    given = {
        "pipeline.orchestrator.resume-token-secret": "secret",
        "pipeline.id-secret": "secret",
        "topology.partitions": "3",
        "csv-payments.something": "of the application",
    }
    note = run_note(Path("p.yaml"), None, given, Path("out"))
    assert note.settings == {"topology.partitions": "3"}
    assert Path(note.pipeline).is_absolute()
    assert note.output_dir is not None and Path(note.output_dir).is_absolute()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"format": 1}', b'{"format": 2, "pipeline": "p"}', b'{"format": 1, "other": 1}']
)
def test_what_cannot_be_read_is_told(tmp_path, content):
    (tmp_path / RUN_FILE).write_bytes(content)
    with pytest.raises(LogError, match="name the pipeline with --pipeline"):
        recall(tmp_path)


async def test_another_id_secret_is_refused_because_work_would_be_done_again(tmp_path):
    def opened(**settings):
        given = {"pipeline.orchestrator.resume-token-secret": "x" * 20, **settings}
        loaded = load_pipeline(FRAUD_CHECK, settings_overrides=given, environ={})
        return open_local_log(loaded, tmp_path)

    await opened().close()
    await opened().close()
    with pytest.raises(LogMismatchError, match="another pipeline"):
        opened(**{"pipeline.id-secret": "another"})
