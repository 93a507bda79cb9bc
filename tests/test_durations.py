"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.durations import MAX_DURATION_MS, format_duration, parse_duration_ms
from tiering.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30 s", 30_000),
        ("5 min", 300_000),
        ("3min", 180_000),
        ("500ms", 500),
        ("1500", 1_500),
        ("1.5 h", 5_400_000),
        (" 2 Days ", 172_800_000),
        ("0 s", 0),
        ("PT5M", 300_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.5s", 500),
    ],
)
def test_usual_forms_are_taken(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "soon", "5 fortnights", "-1 s", "P", "PT", "1 s 2 s", "1e9", "5 min;", "٣ s", "P1M"])
def test_anything_else_is_refused_with_the_text_and_what_it_is_for(text: str) -> None:
    with pytest.raises(InvalidArgument, match="valid freshness") as error:
        parse_duration_ms(text, "freshness")
    assert repr(text) in error.value.message
    assert error.value.hint


@pytest.mark.parametrize("text", ["0.5 ms", "11000 d", "9" * 400 + " d"])
def test_fractions_of_a_millisecond_and_centuries_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_duration_ms(text)


@given(st.integers(0, MAX_DURATION_MS))
def test_what_is_formatted_is_parsed_back(milliseconds: int) -> None:
    assert parse_duration_ms(format_duration(milliseconds)) == milliseconds
