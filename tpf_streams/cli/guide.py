"""What `tpf-streams dev` tells of a pipeline: commands that begin and answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import orjson

from tpf_streams.cli.samples import sample_of
from tpf_streams.core.step import AwaitDefinition, Json
from tpf_streams.dsl.load import LoadedPipeline
from tpf_streams.dsl.payload_schema import completion_schema, input_schema


def guide(loaded: LoadedPipeline, url: str, data_dir: Path, *, simulated: bool) -> Iterator[str]:
    """Lines. `simulated`: what awaits over kafka is answered without anybody."""
    yield "commands for another terminal:"
    yield f"  export TPF_STREAMS_URL={url}"
    if loaded.definition.ingests_objects:
        yield "  this pipeline works on files: give them to dev with --input"
    else:
        yield _command("submit", _quoted(sample_of(input_schema(loaded.types, loaded.definition))))
    asked = [step for step in loaded.definition.steps if isinstance(step, AwaitDefinition)]
    by_hand = [step for step in asked if not (simulated and step.transport.type == "kafka")]
    if by_hand:
        yield from _answering(loaded, by_hand[0], data_dir)
    yield _command("show", "EXECUTION")


def _answering(loaded: LoadedPipeline, step: AwaitDefinition, data_dir: Path) -> Iterator[str]:
    """Resume tokens are shown of a data directory alone."""
    answer = _quoted(sample_of(completion_schema(loaded.types, step)))
    words = ["--interaction-id", "ID", "--payload", answer]
    if step.require_token:
        yield _command("pending", "--data-dir", shlex.quote(str(data_dir)), "--payload", "--token")
        yield _command("complete", *words, "--token", "TOKEN")
    else:
        yield _command("pending", "--payload")
        yield _command("complete", *words)


def _command(*words: str) -> str:
    return f"  tpf-streams {' '.join(words)}"


def _quoted(value: Json) -> str:
    return shlex.quote(orjson.dumps(value).decode())
