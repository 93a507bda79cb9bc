"""Durations as users write them in options and arguments: `30 s`, `5 min`, `500ms`, `PT1M30S`, `1500`.

Table options, CALL arguments and the command line use this one parser. The unit names are those of Fluss's options (`3min`, `1 h`). A
number without a unit is in milliseconds. ISO 8601 is accepted up to days, because months have no fixed length.
"""

from __future__ import annotations

import re
from decimal import Decimal

from tiering.errors import InvalidArgument

MAX_DURATION_MS = 10 * 365 * 86_400_000
"""Ten years. A longer duration is a mistake, and would overflow the times that are computed with it."""

LEAST_FRESHNESS_MS = 1_000
"""No round can keep a shorter freshness. Fluss and older versions accept shorter ones, which have the effect of this one."""
SHORT_FRESHNESS_MS = 10_000
"""A freshness shorter than this is accepted with a warning."""

_UNITS_MS = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_LARGER_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
_PLAIN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.ASCII)
_ISO = re.compile(
    r"p(?:(?P<d>[0-9]+(?:\.[0-9]+)?)d)?"
    r"(?:t(?:(?P<h>[0-9]+(?:\.[0-9]+)?)h)?(?:(?P<m>[0-9]+(?:\.[0-9]+)?)m)?(?:(?P<s>[0-9]+(?:\.[0-9]+)?)s)?)?",
    re.ASCII,
)


def parse_duration_ms(text: str, name: str = "duration") -> int:
    """Returns `text` in whole milliseconds; zero is allowed. Raises InvalidArgument, with `name` as the name of the value."""
    milliseconds = _parse(text.strip().lower())
    if milliseconds is None:
        raise InvalidArgument(
            f"{text[:60]!r} is not a valid {name}",
            hint="Write a number and a unit: '30 s', '5 min', '500 ms', '1 h', or ISO 8601 such as 'PT5M'.",
        )
    if milliseconds != milliseconds.to_integral_value():
        raise InvalidArgument(f"the {name} {text[:60]!r} is not a whole number of milliseconds")
    if milliseconds > MAX_DURATION_MS:
        raise InvalidArgument(f"the {name} {text[:60]!r} is longer than ten years")
    return int(milliseconds)


def check_freshness(milliseconds: int) -> None:
    """Raises InvalidArgument for a freshness that is too short for any round."""
    if milliseconds < LEAST_FRESHNESS_MS:
        raise InvalidArgument(
            f"a freshness of {format_duration(milliseconds)} cannot be kept: the shortest is {format_duration(LEAST_FRESHNESS_MS)}",
            hint="Write how old the lake copy may be: '30 s', '5 min'.",
        )


def freshness_warning(milliseconds: int) -> str | None:
    """Returns the cost of a short freshness as text; None for a freshness that costs little."""
    if milliseconds >= SHORT_FRESHNESS_MS:
        return None
    return (
        f"with a freshness of {format_duration(milliseconds)}, each such interval with new rows adds a lake snapshot and small files; "
        f"{format_duration(SHORT_FRESHNESS_MS)} or more is enough for most tables"
    )


def _parse(text: str) -> Decimal | None:
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        unit = _UNITS_MS.get(plain[2])
        return None if unit is None else Decimal(plain[1]) * unit
    iso = _ISO.fullmatch(text)
    if iso is None or not any(iso.groups()):
        return None
    return sum((Decimal(value) * _UNITS_MS[unit] for unit, value in iso.groupdict().items() if value), Decimal(0))


def format_duration(milliseconds: int) -> str:
    """Returns the shortest exact form that `parse_duration_ms` accepts: `3 min`, `90 s`, `1500 ms`."""
    for unit, size in _LARGER_UNITS_MS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def short_duration(milliseconds: int | None) -> str:
    """Returns a rounded duration for a table cell: `850 ms`, `3.2 s`, `4 min`, `2.5 h`, `3 d`; empty if unknown."""
    if milliseconds is None:
        return ""
    for unit, size in _LARGER_UNITS_MS:
        if milliseconds >= size:
            return f"{milliseconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{milliseconds} ms"
