"""The table of all keys of pipeline.yaml for the documentation, made from the tables that a load follows."""

from __future__ import annotations

from collections.abc import Iterator

from tpf_streams.dsl.keys import Key, Kind, Table
from tpf_streams.dsl.keys_root import ROOT
from tpf_streams.dsl.setting import Status


def keys_table_markdown() -> str:
    """Keys of a transport stand once for each type that has them, and so do those of a step."""
    lines = ["| Key | Default | Allowed | Status | What it is |", "|---|---|---|---|---|"]
    lines += [_row(path, key) for path, key in _keys(ROOT, "")]
    return "\n".join(lines) + "\n"


def _keys(table: Table, path: str) -> Iterator[tuple[str, Key]]:
    for name, key in table.keys.items():
        yield from _under(f"{path}{name}", key)
    if table.each is not None:
        yield from _under(f"{path}<name>", table.each)


def _under(path: str, key: Key) -> Iterator[tuple[str, Key]]:
    yield path, key
    if key.table is not None:
        yield from _keys(key.table, f"{path}.")
    if key.variants is not None:
        item = "[]" if key.kind is Kind.STEPS else ""
        first, *others = key.variants.tables.values()
        common = {name: found for name, found in first.keys.items() if all(it.keys.get(name) is found for it in others)}
        yield from _keys(Table(common), f"{path}{item}.")
        for name, table in key.variants.tables.items():
            own = Table({it: found for it, found in table.keys.items() if it not in common})
            yield from _keys(own, f"{path}{item} ({name}).")


def _row(path: str, key: Key) -> str:
    default = "" if key.default is None else f"`{key.default}`" if key.default else "nothing"
    if key.setting:
        default = f"setting `{key.setting}`"
    allowed = "" if key.kind is Kind.ANY else key.allowed.replace("|", "\\|")
    required = " Required." if key.required else ""
    about = key.help if key.status is Status.HONOURED else f"{key.why[:1].upper()}{key.why[1:]}."
    return f"| `{path}` | {default} | {allowed} | {key.status.value} | {about}{required} |"
