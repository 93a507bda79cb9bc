"""Finds whether all times of a column have the same spelling in the file. Pure.

A TIMESTAMP prints as an instant. If the spelling differs within a column, such as `10:00` and `10:00:00`, or the offsets `+01:00` and
`+02:00`, the type would lose a part of what the texts tell.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pyarrow.compute as pc

Column: TypeAlias = Any
"""An Arrow array. The type stubs of pyarrow reject compute functions on an array of unknown type."""

_PARTS = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?P<clock>[ T]?[0-9:]*)(?P<fraction>(?:\.[0-9]+)?)(?P<zone>.*)$")
_ZERO_AT_END, _ZEROS_ALONE = r"\.[0-9]*0(?:Z|[+-][0-9:]+)?$", r"\.0+(?:Z|[+-][0-9:]+)?$"
_ISOFORMAT_LENGTHS = {0, len(".123456")}
"""Python's `isoformat` prints six digits of a second, or none if all are zero."""


class TimeSpelling:
    """Records the texts of times, and tells whether one program can have printed all of them."""

    def __init__(self) -> None:
        self._examples: dict[tuple[str, str], str] = {}
        """The first text of each form of clock and zone."""
        self._fractions: dict[int, str] = {}
        """The first text of each length of the fraction of a second."""
        self._ends_with_zero = False
        self._has_zeros_alone = False

    def see_texts(self, texts: Column) -> None:
        """Records times in the form of ISO 8601; ignores nulls."""
        texts = texts.drop_null()
        self._ends_with_zero = self._ends_with_zero or pc.any(pc.match_substring_regex(texts, _ZERO_AT_END)).as_py()
        self._has_zeros_alone = self._has_zeros_alone or pc.any(pc.match_substring_regex(texts, _ZEROS_ALONE)).as_py()
        first = texts[0].as_py()
        if pc.all(pc.match_substring_regex(texts, _form_of(first))).as_py():
            texts = texts.slice(0, 1)
        parts = pc.extract_regex(texts, _PARTS.pattern)
        clock = pc.replace_substring_regex(pc.struct_field(parts, "clock"), "[0-9]", "0")
        fraction, zone = pc.struct_field(parts, "fraction"), pc.struct_field(parts, "zone")
        lengths = pc.utf8_length(fraction)
        for form in pc.unique(pc.binary_join_element_wise(clock, zone, "|")).to_pylist():
            name, _, ending = form.partition("|")
            if (name, ending) not in self._examples:
                first = pc.index(pc.and_(pc.equal(clock, name), pc.equal(zone, ending)), True).as_py()
                self._examples[name, ending] = texts[first].as_py()
        for length in pc.unique(lengths).to_pylist():
            self._fractions.setdefault(length, texts[pc.index(lengths, length).as_py()].as_py())

    @property
    def differing(self) -> tuple[str, ...]:
        """Two texts with different spellings; none if all have the same spelling."""
        if len(self._examples) > 1:
            return tuple(self._examples.values())[:2]
        is_trimmed = not self._ends_with_zero
        is_isoformat = set(self._fractions) == _ISOFORMAT_LENGTHS and not self._has_zeros_alone
        if len(self._fractions) < 2 or is_trimmed or is_isoformat:
            return ()
        return tuple(self._fractions.values())[:2]


def _form_of(text: str) -> str:
    """Returns a regular expression for times with the spelling and zone of `text`."""
    parts = _PARTS.fullmatch(text)
    zone = parts["zone"] if parts else ""
    digits = re.sub("[0-9]", "[0-9]", re.escape(text.removesuffix(zone)))
    return f"^{digits}{re.escape(zone)}$"
