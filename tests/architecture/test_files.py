"""What holds for the files themselves: their size, their place, and what they must not name."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_MAX = 400  # beyond this a file is where newcomers get lost

TOP_LEVEL = {"pyproject.toml", "tpf_streams", "topologies", "tests", "docker", "README.md"}
BESIDE_IT = {"Makefile", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"}
DOT_FILES = {".ci", ".gitattributes", ".gitignore", ".editorconfig"}
MADE_BY_TOOLS = {"build", "dist"}

# The escapes keep these patterns from matching this file.
REGISTRY_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|maven\.org|maven\.apache\.org|maven\.google\.com|registry\.npmjs|crates\.io"
    r"|proxy\.golang|docker\.io|ghcr\.io|quay\.io|gcr\.io"
)
MACHINE_PATH = re.compile(r"(?<![\w.}/])/(?:root|work|home|Users)/\w")


def project_files() -> list[Path]:
    """Every file of the project, found without git so that an unpacked archive can be checked too."""
    roots = [ROOT / name for name in sorted(TOP_LEVEL | BESIDE_IT | DOT_FILES)]
    found = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def modules() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py" and path.is_relative_to(ROOT / "tpf_streams")]


def package_name(init: Path) -> str:
    return ".".join(init.parent.relative_to(ROOT).parts)


PACKAGES = [path for path in modules() if path.name == "__init__.py"]
each_package = pytest.mark.parametrize("init", PACKAGES, ids=package_name)


def test_the_top_level_is_fixed():
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith((".", "__"))}
    assert found - TOP_LEVEL - BESIDE_IT - MADE_BY_TOOLS == set()


def test_no_module_is_too_long():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules()}
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}


@pytest.mark.parametrize("forbidden", [REGISTRY_HOST, MACHINE_PATH], ids=["registry-host", "machine-path"])
def test_no_file_names_a_registry_or_a_machine(forbidden):
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in forbidden.finditer(text)]
    assert found == []


@each_package
def test_a_package_says_what_it_is_for(init):
    assert ast.get_docstring(ast.parse(init.read_text())), f"{package_name(init)} has no docstring"


@each_package
def test_what_a_package_exports_exists(init):
    package = importlib.import_module(package_name(init))
    exported = getattr(package, "__all__", [])
    assert [name for name in exported if not hasattr(package, name)] == []
    assert len(exported) == len(set(exported))
