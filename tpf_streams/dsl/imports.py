"""Finds what `package.module:name` means."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tpf_streams.dsl.protobuf import INSTALL
from tpf_streams.dsl.report import shown, suggestion

_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", re.ASCII)

_REFERENCE_MAX = 200
"""A longer one is no name of a file, which a file system says in its own way."""


class Importer:
    """Imports for one pipeline. A module is looked for on `sys.path`, then in the working directory and in the folders
    above the pipeline file: the root that holds it is then appended to `sys.path`, so that nothing is shadowed.
    """

    def __init__(self, pipeline_file: Path | None) -> None:
        above = list(pipeline_file.resolve().parents) if pipeline_file else []
        self._roots = [Path.cwd(), *above]

    def find(self, reference: str) -> Any:
        """Raises ValueError saying what is wrong with `reference`, or with the module behind it."""
        match = _REFERENCE.fullmatch(reference) if len(reference) <= _REFERENCE_MAX else None
        if match is None:
            raise ValueError(f"{shown(reference)}: package.module:name is wanted")
        module = self._module(match[1])
        found: Any = module
        for part in match[2].split("."):
            if not hasattr(found, part):
                raise ValueError(f"module {match[1]} has no {match[2]}.{suggestion(match[2], dir(module))}")
            found = getattr(found, part)
        return found

    def _module(self, name: str) -> ModuleType:
        root = self._root_of(name)
        if root is not None and not _importable(name):
            sys.path.append(str(root))
            importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                raise ValueError(
                    f"no module {name}, neither installed nor in the working directory or above the pipeline file"
                ) from None
            hint = f"; {INSTALL}" if error.name in ("google", "google.protobuf") else ""
            raise ValueError(f"module {name} imports {error.name}, which is not installed{hint}") from error
        except (Exception, SystemExit) as error:  # a script without a guard: its exit code 0 would say "valid"
            raise ValueError(f"module {name} fails to import: {type(error).__name__}: {error}") from error

    def _root_of(self, name: str) -> Path | None:
        relative = Path(*name.split("."))
        for root in self._roots:
            if (root / relative).with_suffix(".py").is_file() or (root / relative / "__init__.py").is_file():
                return root
        return None


def _importable(name: str) -> bool:
    """Without importing it; its parent packages are imported, and may fail in every way."""
    try:
        return importlib.util.find_spec(name) is not None
    except (Exception, SystemExit):
        return False
