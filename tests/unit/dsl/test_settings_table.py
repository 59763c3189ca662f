"""The table of settings is true: what it calls honoured is read by something (contract 0.19, 0.22)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tpf_streams.dsl import settings_table_markdown
from tpf_streams.dsl.setting import Status
from tpf_streams.dsl.settings_table import SETTINGS

PACKAGE = Path(__file__).parents[3] / "tpf_streams"
TABLE = PACKAGE / "dsl" / "settings_table.py"


def test_every_honoured_setting_is_read_somewhere():
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")) if path != TABLE)
    honoured = [it for it in SETTINGS.values() if it.status is Status.HONOURED and it.leaves_choice]
    assert [it.key for it in honoured if f'"{it.key}"' not in sources] == []


def test_every_default_is_legal_and_every_setting_explained():
    for setting in SETTINGS.values():
        if setting.default is not None:
            setting.parse(setting.default)
        assert setting.help.endswith(".")
        assert bool(setting.why) == (setting.status.value != "honoured")


def test_what_is_refused_is_refused_however_it_is_written():
    """Values are read in any case: `TRUE` would pass for a value that nobody has refused."""
    for setting in SETTINGS.values():
        for value, why in setting.refused.items():
            for text in (value, value.upper(), value.title()):
                with pytest.raises(ValueError, match=re.escape(why)):
                    setting.parse(text)


def test_no_variable_names_two_settings():
    names = [name for setting in SETTINGS.values() for name in setting.env_names]
    assert len(names) == len(set(names))


def test_the_table_tells_every_setting():
    table = settings_table_markdown()
    assert all(f"| `{key}` |" in table for key in SETTINGS)
    assert "| `pipeline.max-concurrency` | `128` | 1 to 1000000 | honoured |" in table
    assert "`dynamo` is refused: the log keeps the state" in table
    assert "| `mp.messaging.*` | | | noted |" in table
    rows = [line.replace("\\|", "") for line in table.splitlines()]
    assert {row.count("|") for row in rows} == {6}
