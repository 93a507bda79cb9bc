"""Answers of engines as text, so that answers of several engines can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

JOINER = "\u200d"
"""The character that joins emojis to one."""
DIGITS = 12
"""Significant digits of a DOUBLE that are compared: the engines add numbers in different orders."""


def cell(value: Any) -> str:
    """Returns a value as sqllogictest writes it: NULL, `(empty)`, numbers without trailing zeros, times without their zone, UTC."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return _real(value)
        case Decimal():
            return _exact(value)
        case datetime():
            return _time(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return f"x'{bytes(value).hex()}'"
        case Mapping():
            return "{" + ", ".join(f"{cell(key)}: {cell(entry)}" for key, entry in value.items()) + "}"
        case str():
            return _text(value)
        case Sequence():
            return "[" + ", ".join(map(cell, value)) + "]"
        case _:
            return str(value)


def cells(rows: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    """Returns rows as text."""
    return [tuple(map(cell, row)) for row in rows]


def _real(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value + 0.0:.{DIGITS}g}" if value else "0"


def _exact(value: Decimal) -> str:
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _time(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def _text(value: str) -> str:
    """Tabs, line ends and other characters that a line does not show are written as their numbers."""
    shown = (character if character.isprintable() or character == JOINER else f"\\u{{{ord(character):x}}}" for character in value)
    return "".join(shown) or "(empty)"
