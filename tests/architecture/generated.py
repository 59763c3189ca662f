"""The documents that are made from the code: `python -m tests.architecture.generated` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tpf_streams.dsl import settings_table_markdown
from tpf_streams.dsl.keys_markdown import keys_table_markdown
from tpf_streams.dsl.schema import SCHEMA_FILE, schema_text

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TABLES: dict[str, Callable[[], str]] = {"settings": settings_table_markdown, "keys": keys_table_markdown}


def readme() -> str:
    """README with the tables that the code has."""
    text = README.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->\n")
        assert begin and end, f"README marks no place for its {name} table"
        text = before + begin + table() + end + after
    return text


GENERATED: dict[Path, Callable[[], str]] = {README: readme, SCHEMA_FILE: schema_text}

if __name__ == "__main__":
    for path, content in GENERATED.items():
        path.write_text(content(), encoding="utf-8")
