"""The import law of pyproject.toml holds, and each of its clauses would notice being broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

PACKAGES = (
    *("cli", "app", "worker", "api", "testing", "runtime", "engine", "ports", "core", "errors"),
    *("logs", "stores", "transports", "connectors", "dsl", "observability"),
)
YET_TO_COME = {"app", "worker", "api", "transports"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


def write_skeleton(folder: Path, imports: dict[str, str], without: frozenset[str] = frozenset()) -> None:
    """A tpf_streams of empty packages under our contracts; `imports` gives some of them a line of code."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    package = folder / "tpf_streams"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in {*PACKAGES, *imports} - without:
        (package / name).mkdir()
        (package / name / "__init__.py").write_text(imports.get(name, ""))


def test_the_package_keeps_the_contracts():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("without", [frozenset[str](), frozenset(YET_TO_COME)], ids=["all", "first-packages"])
def test_the_intended_imports_are_allowed(tmp_path, without):
    imports = {
        "cli": "import typer, tpf_streams.runtime, tpf_streams.testing",
        "app": "import faust, tpf_streams.worker",
        "worker": "import mode, tpf_streams.runtime",
        "testing": "import tpf_streams.runtime, tpf_streams.logs",
        "runtime": "import tpf_streams.engine, tpf_streams.logs, tpf_streams.stores, tpf_streams.dsl",
        "engine": "import asyncio, tpf_streams.ports, tpf_streams.core",
        "logs": "import aiokafka, rocksdict, tpf_streams.ports",
        "dsl": "import yaml, pydantic, tpf_streams.core",
        "core": "import dataclasses, hashlib, tpf_streams.errors",
    }
    write_skeleton(tmp_path, {name: line for name, line in imports.items() if name not in without}, without)
    result = lint_imports(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("core", "import time"),
        ("core", "from asyncio import Event"),
        ("core", "from pydantic import BaseModel"),
        ("core", "import tpf_streams.ports"),
        ("ports", "import tpf_streams.engine"),
        ("engine", "import tpf_streams.logs"),
        ("engine", "import rocksdict"),
        ("logs", "import tpf_streams.stores"),
        ("logs", "import tpf_streams.engine"),
        ("runtime", "import tpf_streams.testing"),
        ("runtime", "import faust"),
        ("testing", "import tpf_streams.cli"),
        ("helpers", ""),  # a package outside the layers
    ],
)
def test_a_broken_law_is_noticed(tmp_path, importer, line):
    write_skeleton(tmp_path, {importer: line})
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert f"tpf_streams.{importer}" in result.stdout or "helpers" in result.stdout
