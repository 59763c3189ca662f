"""The tests that `make mutation` runs take every branch of the modules that decide about answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.__main__ import TESTS

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(240)
def test_every_branch_is_taken(tmp_path):
    files = [f"tpf_streams/core/{name}.py" for name in TESTS]
    data, found = f"--data-file={tmp_path / 'data'}", tmp_path / "found.json"
    tests = sorted({path for paths in TESTS.values() for path in paths if path.startswith("tests/unit/core")})
    measured = [
        "run",
        "--branch",
        data,
        f"--include={','.join(files)}",
        "-m",
        "pytest",
        "-qq",
        "-p",
        "no:cacheprovider",
    ]
    for words in ([*measured, *tests], ["json", data, "-q", "-o", str(found)]):
        ran = subprocess.run(
            [sys.executable, "-m", "coverage", *words], cwd=ROOT, capture_output=True, text=True, timeout=200
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(found.read_text())["files"]
    assert sorted(report) == sorted(files)
    missing = {name: (it["missing_lines"], it["missing_branches"]) for name, it in report.items()}
    assert missing == dict.fromkeys(files, ([], []))
    assert all(it["summary"]["num_branches"] > 0 for it in report.values())
