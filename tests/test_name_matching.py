"""SQL's LIKE for names: what it matches, and that it takes one step a character."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.proportion import out_of_proportion
from tiering.errors import InvalidArgument
from tiering.name_matching import LikePattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a%", ["a", "ab", "a%", "a\nb"], ["ba", "A"]),
        ("a_", ["ab", "a_"], ["a", "abc"]),
        ("a\\_", ["a_"], ["ab"]),
        ("a\\\\", ["a\\"], ["a"]),
        ("a.c", ["a.c"], ["abc"]),
        ("%a%b", ["ab", "xaxaxb"], ["ba", "abx"]),
        ("_%_", ["ab", "abc"], ["a", ""]),
        ("", [""], ["a"]),
        ("%", ["", "abc"], []),
    ],
)
def test_like_is_that_of_sql(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [text for text in [*matching, *others] if LikePattern(pattern).matches(text)] == matching


@pytest.mark.parametrize("pattern", ["a\\", "\\a"])
def test_a_backslash_before_anything_else_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match="has a backslash before"):
        LikePattern(pattern)


@given(st.text("ab%_", max_size=8), st.text("abc", max_size=8))
def test_it_matches_what_a_regular_expression_matches(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern.replace("%", ".*").replace("_", "."), text) is not None
    assert LikePattern(pattern).matches(text) == expected


@pytest.mark.parametrize("pattern", ["%" * 2_000 + "x", "%a" * 1_000, "%a_" * 600 + "b", "_%" * 1_000 + "x"])
def test_a_match_takes_one_step_a_character_whatever_the_pattern(pattern: str) -> None:
    like = LikePattern(pattern)
    assert not like.matches("a" * 200)
    assert out_of_proportion(like.matches, "a") is None
