"""Small wrongs in the machine, and whether the tests see them: `make mutation`, outside CI, an hour at most.

Works on a copy of the tree. Prints each mutant that no test of its module killed; `EXPLAINED` says why none can.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
CORE = "tests/unit/core/test_{}.py"
TESTS = {
    "token": [CORE.format(it) for it in ("token", "admission_token")],
    "window": [CORE.format("window"), "tests/unit/engine/test_live_session.py", "tests/topology/test_streams.py"],
    "decide": [
        CORE.format(it) for it in ("decide", "rows_left_behind", "scalar", "dispatch", "ending", "early", "redrive")
    ],
    "admission": [
        CORE.format(it)
        for it in (
            *("admission", "admission_token", "admission_facts", "early", "rows_left_behind"),
            *("durable_path", "joining", "completion"),
        )
    ],
}
"""What has to kill the mutants of `tpf_streams/core/<name>.py`."""
BOUND = "one more or less of a bound is as good"
EXPLAINED = {
    ("DURABLE_PULL = 100", "one more"): BOUND,
    ("TOKEN_CHARS_MAX = 4096", "one more"): BOUND,
    ("if len(token) > TOKEN_CHARS_MAX:", "Gt -> GtE"): BOUND,
    ("TOKENS_KEPT = 2_048", "one more"): BOUND,
    ("if size > draft.definition.limits.max_payload_bytes:", "Gt -> GtE"): "check_large lets the bound itself pass",
}
"""By the line and what was done to it: why no test can tell."""
MINUTES = 60
HANG_S = 60.0
"""Longer than this, beside three times what the tests take without a mutant, is a loop without end: killed, too."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", choices=[*TESTS, []], help="of core; all of them unless named")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="when to stop (60)")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("tpf_streams", "tests", "topologies"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        for module in given.modules or TESTS:
            survivors += of_module(tree, module, until)
    return 1 if survivors else 0


def of_module(tree: Path, module: str, until: float) -> int:
    """-> how many live on without an explanation."""
    path = tree / "tpf_streams" / "core" / f"{module}.py"
    source, lines = path.read_text("utf-8"), path.read_text("utf-8").splitlines()
    began = time.monotonic()
    if killed(tree, module, None):
        raise SystemExit(f"{module}: its tests fail without a mutant")
    limit_s = 3 * (time.monotonic() - began) + HANG_S
    every = list(mutants(source))
    tried = survivors = 0
    for mutant in every:
        if time.monotonic() > until:
            break
        tried += 1
        path.write_text(mutant.source, "utf-8")
        compiled(path).unlink(missing_ok=True)
        if not killed(tree, module, limit_s):
            survivors += told(module, mutant, lines[mutant.line - 1].strip())
    path.write_text(source, "utf-8")
    print(f"{module}: {tried} of {len(every)} mutants tried, {survivors} live on", flush=True)
    return survivors


def killed(tree: Path, module: str, limit_s: float | None) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *TESTS[module]]
    try:
        return bool(subprocess.run(command, cwd=tree, capture_output=True, timeout=limit_s).returncode)
    except subprocess.TimeoutExpired:
        return True


def compiled(path: Path) -> Path:
    """Python tells sources apart by second and size: two mutants of one second would be judged as the first of them."""
    return Path(importlib.util.cache_from_source(str(path)))


def told(module: str, mutant: Mutant, line: str) -> int:
    reason = EXPLAINED.get((line, mutant.what))
    print(f"  {module}.py:{mutant.line}: {mutant.what}: {line}{f' ({reason})' if reason else ''}", flush=True)
    return int(reason is None)


if __name__ == "__main__":
    sys.exit(main())
