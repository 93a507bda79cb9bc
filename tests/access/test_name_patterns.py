"""Patterns by the automaton, held against regular expressions."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiering.access.policies import name_patterns
from tiering.access.policies.name_patterns import NamePatterns, Pattern

TEXTS = st.text("abä_", max_size=3)
PATTERNS = st.lists(st.lists(TEXTS, min_size=1, max_size=4).map(tuple), max_size=8)
NAMES = st.lists(st.text("abcä_", max_size=8), max_size=12)


def expected(patterns: list[Pattern], name: str) -> int:
    regexes = [".*".join(map(re.escape, texts)) for texts in patterns]
    return sum(1 << number for number, regex in enumerate(regexes) if re.fullmatch(regex, name, re.DOTALL))


@settings(max_examples=60, deadline=None)
@given(PATTERNS, NAMES)
def test_names_match_as_regular_expressions_say(patterns: list[Pattern], names: list[str]) -> None:
    matcher = NamePatterns(patterns)
    codes, matches = matcher.outcomes(pa.array(names, pa.string()))
    assert [matches[code] for code in codes.tolist()] == [expected(patterns, name) for name in names]
    assert [matcher.matches(name) for name in names] == [expected(patterns, name) for name in names]


@settings(max_examples=60, deadline=None)
@given(PATTERNS, NAMES)
def test_patterns_of_too_many_states_are_parted(patterns: list[Pattern], names: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_patterns, "MAX_STATES", 3)
        patch.setattr(name_patterns, "MAX_TABLE", 2)
        matcher = NamePatterns(patterns)
        codes, matches = matcher.outcomes(pa.array(names, pa.string()))
        assert [matches[code] for code in codes.tolist()] == [expected(patterns, name) for name in names]
        assert [matcher.matches(name) for name in names] == [expected(patterns, name) for name in names]


def test_slices_and_chunks_of_names_are_names() -> None:
    matcher = NamePatterns([("a", "")])
    names = pa.array(["a1", "b1", "a2", "b2"])
    for part in (names.slice(1), pa.chunked_array([names.slice(1, 1), names.slice(2)]), names.slice(1).cast(pa.large_string())):
        codes, matches = matcher.outcomes(part)
        assert [matches[code] for code in codes.tolist()] == [0, 1, 0]
