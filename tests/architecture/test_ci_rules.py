"""With CI=true a skip is a failure, wherever it happens; without it a skip is a skip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

SKIPS = {
    "mark": "import pytest\n@pytest.mark.skip\ndef test(): pass\n",
    "call": "import pytest\ndef test(): pytest.skip('no')\n",
    "module": "import pytest\npytest.importorskip('a_module_nobody_has')\ndef test(): pass\n",
    "expected failure": "import pytest\n@pytest.mark.xfail\ndef test(): assert False\n",
}


def run_pytest(folder: Path, code: str, ci: str) -> int:
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "CI": ci}, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS.keys())
def test_nothing_skips_in_ci(tmp_path, code):
    assert run_pytest(tmp_path, code, ci="true") in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)


@pytest.mark.parametrize("code", [SKIPS["mark"], SKIPS["call"]], ids=["mark", "call"])
def test_a_skip_elsewhere_is_a_skip(tmp_path, code):
    assert run_pytest(tmp_path, code, ci="") == pytest.ExitCode.OK
