"""The settings of one start: every value with where it came from (contract 0.22).

Precedence: command line, environment, `--config` file or `application.properties`, `settings:` in the file, default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from tpf_streams.dsl.layers import Given, Rank, expanded
from tpf_streams.dsl.report import Report, suggestion
from tpf_streams.dsl.setting import Family, Setting, Status, Value
from tpf_streams.dsl.settings_table import FAMILIES, SETTINGS

T = TypeVar("T")
VALUE_MAX = 8192
"""Characters of one value, which is longer than every list of secrets, and short enough to look for `${…}` in."""


class Settings:
    """Typed values by key. A key that is not in the table raises KeyError: that is a slip of ours, not of the user.

    `application` holds keys that begin with the pipeline's own name, for its own code; they are not checked.
    """

    def __init__(
        self, values: Mapping[str, Value], given: Mapping[str, Given], application: Mapping[str, str] | None = None
    ) -> None:
        self._values = dict(values)
        self._given = dict(given)
        self.application: Mapping[str, str] = dict(application or {})

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value}" for key, value, _ in self.shown() if key in self._given)
        return f"Settings({shown})"

    # Values

    def text(self, key: str) -> str | None:
        return self._typed(key, str)

    def required_text(self, key: str) -> str:
        found = self.text(key)
        if found is None:
            raise KeyError(f"setting {key} has no value")
        return found

    def flag(self, key: str) -> bool:
        return bool(self._typed(key, bool))

    def integer(self, key: str) -> int:
        return self._typed(key, int) or 0

    def millis(self, key: str) -> int:
        """A duration."""
        return self.integer(key)

    def number(self, key: str) -> float:
        return self._typed(key, float) or 0.0

    def texts(self, key: str) -> tuple[str, ...]:
        return self._typed(key, tuple) or ()

    def _typed(self, key: str, kind: type[T]) -> T | None:
        found = self._values[key]
        if found is not None and not isinstance(found, kind):
            raise TypeError(f"setting {key} is {SETTINGS[key].kind.value}, asked for as {kind.__name__}")
        return found

    # Origin

    def is_given(self, key: str) -> bool:
        """Whether somebody wrote it, whatever the value."""
        return key in self._given

    def given(self, key: str) -> Given | None:
        return self._given.get(key)

    def above_pipeline(self, key: str) -> bool:
        """Whether it was written outside the pipeline file, and so wins over a key inside (contract 0.22)."""
        found = self._given.get(key)
        return found is not None and found.rank > Rank.PIPELINE

    def shown(self) -> Iterator[tuple[str, str, str]]:
        """(key, value as it may be printed, where it came from) of every setting that has a value."""
        for key, value in self._values.items():
            if value is None:
                continue
            masked = "***" if SETTINGS[key].secret else _shown(value)
            yield key, masked, self._given[key].where if key in self._given else "default"


def resolve(layers: Iterable[Given], app_name: str, environ: Mapping[str, str], report: Report) -> Settings:
    """Check every given value, also those that lose, and keep the winners. Problems and notes go to `report`."""
    winners: dict[str, Given] = {}
    values: dict[str, Value] = {key: _default(setting) for key, setting in SETTINGS.items()}
    application: dict[str, str] = {}
    for given in _checked(sorted(layers, key=lambda it: (it.rank, it.line)), report):
        if len(given.text) > VALUE_MAX:
            given.problem(report, f"longer than {VALUE_MAX} characters")
            continue
        text = expanded(given, environ)
        setting = SETTINGS.get(given.key)
        if setting is None:
            _outside_table(given, text, app_name, application, report)
        elif text is None:
            _unset_variable(given, setting, report)
        else:
            _take(given, text, setting, winners, values, report)
    return Settings(values, winners, application)


def _default(setting: Setting) -> Value:
    return None if setting.default is None else setting.parse(setting.default)


def _checked(layers: Sequence[Given], report: Report) -> Iterator[Given]:
    """Each given value once; the same key twice in one place is a problem."""
    seen: dict[tuple[str, str], Given] = {}
    for given in layers:
        first = seen.setdefault((given.file, given.key), given)
        if first is not given:
            given.problem(report, f"written twice, first in line {first.line}; keep one")
        else:
            yield given


def _take(
    given: Given, text: str, setting: Setting, winners: dict[str, Given], values: dict[str, Value], report: Report
) -> None:
    if setting.status is Status.NOTED:
        report.notes.append(f"{given.where}: {given.key}: accepted and unused: {setting.why}")
    if setting.status is Status.REFUSED:
        given.problem(report, f"refused: {setting.why}")
        return
    if not text.strip():
        if not setting.secret:
            given.problem(report, "empty; give it a value or leave it out")
            return
        value: Value = None
    else:
        try:
            value = setting.parse(text)
        except ValueError as error:
            given.problem(report, str(error))
            return
    winners[given.key] = given
    values[given.key] = value


def _unset_variable(given: Given, setting: Setting, report: Report) -> None:
    """A secret from an unset variable is simply absent: whether it is needed is asked later."""
    if setting.secret:
        report.notes.append(f"{given.where}: {given.key}: the environment variable it names is not set")
    else:
        given.problem(report, "names an environment variable that is not set; ${NAME:default} gives a default")


def _outside_table(given: Given, text: str | None, app_name: str, application: dict[str, str], report: Report) -> None:
    family = _family(given.key)
    if family is not None and family.status is Status.NOTED:
        _note(given, text, family, report)
    elif family is not None:
        given.problem(report, f"refused: {family.why}")
    elif app_name and given.key.startswith(f"{app_name}."):
        application[given.key] = text or ""
    else:
        given.problem(report, f"unknown setting.{suggestion(given.key, SETTINGS)}")


def _note(given: Given, text: str | None, family: Family, report: Report) -> None:
    """Without effect, unless its writer counts on what would do harm: then it is a problem."""
    judge = next((key for end, key in family.judged.items() if given.key.endswith(end)), None)
    if judge is not None:
        try:
            SETTINGS[judge].parse(text or "")
        except ValueError as error:
            given.problem(report, str(error))
            return
    report.notes.append(f"{given.where}: {given.key}: accepted and unused: {family.why}")


def _family(key: str) -> Family | None:
    return next((family for family in FAMILIES if key.startswith(family.prefix)), None)


def settings_table_markdown() -> str:
    """The table of all settings for the README, made from the same rows that are checked."""
    lines = ["| Setting | Default | Allowed | Status | What it does |", "|---|---|---|---|---|"]
    for setting in SETTINGS.values():
        default = "" if setting.default is None else f"`{setting.default}`"
        also = f" Also as {setting.place} in pipeline.yaml." if setting.place else ""
        refused = "".join(f" `{value}` is refused: {why}." for value, why in setting.refused.items())
        about = f"{setting.help} {_sentence(setting.why)}" if setting.why else setting.help
        allowed = setting.bounds().replace("|", "\\|")
        lines.append(f"| `{setting.key}` | {default} | {allowed} | {setting.status.value} | {about}{also}{refused} |")
    for family in FAMILIES:
        lines.append(f"| `{family.prefix}*` | | | {family.status.value} | {_sentence(family.why)} |")
    return "\n".join(lines) + "\n"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
