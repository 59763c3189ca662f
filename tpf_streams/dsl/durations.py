"""ISO-8601 durations, in the forms whose length is certain."""

from __future__ import annotations

import re

from tpf_streams.dsl.report import shown

WEEKS = r"P(\d{1,6})W"
DAYS_AND_TIME = r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,9}))?S)?)?"
_WEEKS = re.compile(WEEKS, re.ASCII)
_DURATION = re.compile(DAYS_AND_TIME, re.ASCII)
_CALENDAR = re.compile(r"P(?=\d)(\d+Y)?(\d+M)?(\d+D)?(T.*)?", re.ASCII)
_MAX_MS = 100 * 365 * 86_400_000
"""A hundred years: longer is a slip, and would leave int64 epoch milliseconds in sums."""


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `P2W`, `P3D`, `PT1H30M`, `P1DT12H`, `PT0.5S`. Raises ValueError: any other form.

    Years and months have no fixed length, a sign no meaning for a time-out, and a part below one millisecond would be
    lost: all refused.
    """
    weeks = _WEEKS.fullmatch(text)
    if weeks:
        return _bounded(text, int(weeks[1]) * 7 * 86_400_000)
    match = _DURATION.fullmatch(text)
    if match is None and _CALENDAR.fullmatch(text) and re.search(r"[YM]", text.partition("T")[0]):
        raise ValueError(f"{shown(text)}: years and months have no fixed length; write P30D, or PT1M for a minute")
    if match is None or not any(match.groups()):
        raise ValueError(f"{shown(text)}: not an ISO-8601 duration of weeks, or days, hours, minutes, seconds, as PT5M")
    days, hours, minutes, seconds, fraction = (match[index] or "0" for index in range(1, 6))
    if fraction[3:].strip("0"):
        raise ValueError(f"{shown(text)}: finer than a millisecond")
    whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return _bounded(text, whole * 1000 + int(fraction[:3].ljust(3, "0")))


def _bounded(text: str, millis: int) -> int:
    if millis > _MAX_MS:
        raise ValueError(f"{shown(text)}: longer than a hundred years")
    return millis


def written(millis: int) -> str:
    """The shortest of `P90D`, `PT5M`, `PT0.5S` that says so many milliseconds."""
    for unit, form in ((86_400_000, "P{}D"), (3_600_000, "PT{}H"), (60_000, "PT{}M"), (1000, "PT{}S")):
        if millis and millis % unit == 0:
            return form.format(millis // unit)
    return f"PT{millis / 1000:g}S"
