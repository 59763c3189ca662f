"""Where a command asks: a worker by its URL, or a data directory. What it asks and is told is the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tpf_streams.cli.console import Exit, fail
from tpf_streams.cli.desk_directory import DirectoryDesk
from tpf_streams.cli.desk_url import UrlDesk
from tpf_streams.core.step import Json
from tpf_streams.runtime.views import Answer

URL, TOKEN = "TPF_STREAMS_URL", "TPF_STREAMS_TOKEN"


class Desk(Protocol):
    """Answers by command name, as `runtime.operator.Operator` does."""

    goes_on: bool
    """Whether somebody runs the pipeline there, as far as the last answer showed."""

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Answer:
        """Raises TpfError, OSError."""
        ...

    def result(self, execution_id: str) -> Json:
        """What an execution gave, as a whole. Raises TpfError, OSError."""
        ...


def desk_of(url: str | None, data_dir: Path | None, pipeline: Path | None = None, tenant: str | None = None) -> Desk:
    """The one that is named: on the command line, else by the environment."""
    if url is not None and data_dir is not None:
        fail("--url and --data-dir name two places: give one of them", Exit.USAGE)
    if data_dir is not None:
        return DirectoryDesk(data_dir, pipeline)
    where = url or os.environ.get(URL)
    if not where:
        fail(f"say where to ask: --url of a worker (or {URL}), or --data-dir of a run", Exit.USAGE)
    if pipeline is not None:
        fail("--pipeline is for a data directory: a worker knows its pipeline", Exit.USAGE)
    return UrlDesk(where, os.environ.get(TOKEN) or None, tenant)
