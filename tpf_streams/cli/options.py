"""Options that several commands share, and what they become."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tpf_streams.cli.console import Exit, fail
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline
from tpf_streams.runtime.loading import check_runnable

NAME = re.compile(r"[A-Za-z0-9_-]+")


def pipeline_file(text: str) -> Path:
    """A path, or the name of a folder of `topologies` here: csv-payments is topologies/csv_payments/pipeline.yaml."""
    path = Path(text)
    if not path.is_file() and NAME.fullmatch(text):
        path = Path("topologies", text.replace("-", "_"), "pipeline.yaml")
    if not path.is_file():
        raise typer.BadParameter(f"{path}: there is no such file")
    return path


Pipeline: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="PIPELINE", parser=pipeline_file, help="The pipeline.yaml, or the name of a folder of topologies."
    ),
]
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="Settings, as .properties or .yaml; default: application.properties beside the pipeline.",
    ),
]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting by its property name; wins over every other place."),
]
DataDir: TypeAlias = Annotated[
    Path, typer.Option("--data-dir", exists=True, file_okay=False, help="The data directory of a run.")
]
DataDirToAsk: TypeAlias = Annotated[
    Path | None,
    typer.Option("--data-dir", exists=True, file_okay=False, help="The data directory of a run; instead of --url."),
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="A worker that serves HTTP, any of them; default: TPF_STREAMS_URL. A bearer token for it is read from "
        "TPF_STREAMS_TOKEN.",
    ),
]
Tenant: TypeAlias = Annotated[
    str | None,
    typer.Option("--tenant", envvar="TPF_STREAMS_TENANT", help="Whose; default: of a data directory everybody's."),
]
OtherPipeline: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--pipeline", exists=True, dir_okay=False, help="The pipeline.yaml; default: the one that last ran there."
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of a table.")]
Limit: TypeAlias = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many to show.")]


def overrides_of(given: Sequence[str] | None) -> dict[str, str]:
    """`KEY=VALUE` texts as settings; the last of a key counts."""
    found: dict[str, str] = {}
    for text in given or ():
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            fail(f"--set {key.strip() or text!r}: KEY=VALUE is wanted", Exit.USAGE)
        found[key.strip()] = value
    return found


def load_to_run(pipeline: Path, config: Path | None, overrides: dict[str, str]) -> LoadedPipeline:
    """A pipeline that can run here and now. Raises DefinitionError with what stands against it."""
    loaded = load_pipeline(pipeline, settings_overrides=overrides, config=config)
    check_runnable(loaded.definition, str(pipeline))
    return loaded


def text_of(given: str) -> str:
    """The text itself, of `@FILE`, or of stdin for `-`."""
    try:
        if given == "-":
            return sys.stdin.buffer.read().decode()
        return Path(given[1:]).read_bytes().decode() if given.startswith("@") else given
    except OSError as error:
        fail(f"{given[1:]}: {error.strerror}", Exit.USAGE)
    except UnicodeDecodeError:
        fail(f"{given}: UTF-8 is wanted", Exit.USAGE)


def check_texts(arguments: Mapping[str, Any]) -> None:
    """A word of the command line that is no UTF-8 comes as text that nothing can write."""
    for name, value in arguments.items():
        try:
            _ = isinstance(value, str) and value.encode()
        except UnicodeEncodeError:
            fail(f"{name}: UTF-8 is wanted", Exit.USAGE)
