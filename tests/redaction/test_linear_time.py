"""Text from outside costs time in proportion to its length, wherever it is taken apart."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.proportion import out_of_proportion
from sys_tables.offline.parsing import Show, parse
from sys_tables.offline.show_and_describe import show
from sys_tables.query import lookup
from sys_tables.registry import default_registry
from tiering import name_matching
from tiering.cli.sql.spark_engine import failure
from tiering.cli.sql.statements import split
from tiering.cli.terminal.output import distinct
from tiering.durations import parse_duration_ms
from tiering.errors import LakewardError, StatementFailed
from tiering.lake.fluss.offsets_file import is_offsets_path
from tiering.model.names import parse_table_path
from tiering.redaction.redact import redact
from tiering.redaction.unnamed_secrets import MAX_PLACES

CASES: dict[str, tuple[Callable[[str], object], str]] = {
    "a message of Spark, blanks": (failure, " "),
    "a message of Spark, lines": (failure, "x\n\n"),
    "a name, quotes": (parse_table_path, "`a``"),
    "a name, parts": (parse_table_path, "a."),
    "a duration": (parse_duration_ms, "1"),
    "a duration with parts": (parse_duration_ms, "p1.1"),
    "a path of offsets": (is_offsets_path, "/lake/metadata/"),
    "a script": (split, "a;\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_eight_times_the_text_takes_about_eight_times_as_long(case: str) -> None:
    work, unit = CASES[case]

    def refused_or_done(text: str) -> None:
        with suppress(LakewardError, RecursionError):
            work(text)

    assert out_of_proportion(refused_or_done, unit, "!") is None


@pytest.mark.parametrize("unit", ["password=x1 ", "https://me:x@h "])
def test_the_text_after_too_many_matches_is_hidden(unit: str) -> None:
    assert "end" in redact(unit * MAX_PLACES + "the end")
    assert "end" not in redact(unit * (MAX_PLACES + 1) + "the end")


def every_beginning(text: str) -> list[str]:
    return [text[:end] for end in range(len(text))]


@pytest.mark.parametrize("work", [re.compile(r"x*y").search, every_beginning], ids=["a pattern", "slices"])
def test_what_takes_a_square_is_noticed(work: Callable[[str], object]) -> None:
    """Else the test above could not fail."""
    assert out_of_proportion(work, "x", "!", characters=3_000) is not None


def test_a_pattern_with_many_stars_is_not_tried_in_all_ways() -> None:
    names = ["a" * 200]
    view = cast(Any, SimpleNamespace(databases=lambda: names))
    answer = show(Show("NAMESPACES", (), "*a" * 60 + "*b"), view, default_registry())  # there are more ways than atoms
    assert list(answer.rows) == []


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("*", True),
        ("sales", True),
        ("SALES", True),
        ("s*s", True),
        ("*ale*", True),
        ("s*sales", False),
        ("x|sal*", True),
        ("sale", False),
        ("s*e*l*s", False),
    ],
)
def test_patterns_mean_what_they_mean_in_spark(pattern: str, fits: bool) -> None:
    view = cast(Any, SimpleNamespace(databases=lambda: ["sales"]))
    rows = list(show(Show("NAMESPACES", (), pattern), view, default_registry()).rows)
    assert (["sales"] in rows) is fits


def test_names_near_a_wrong_one_are_looked_for_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [f"table_{number:060}" for number in range(20_000)]
    compared: list[str] = []

    def get_close_matches(name: str, names: Sequence[str], **how: Any) -> list[str]:
        compared.extend(names)
        return difflib.get_close_matches(name, names, **how)

    monkeypatch.setattr(name_matching, "get_close_matches", get_close_matches)
    hint = lookup.near_hint("table_" + "0" * 55 + "12346", known, "tables")
    assert f"table_{12346:060}" in hint
    assert 0 < len(compared) < 1_000


@pytest.mark.parametrize("length", [10, 60, 200])
def test_long_names_are_compared_with_fewer_others(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """400 comparisons of names with 200 characters took 2.8 s."""
    known = [f"{number:0{length}}" for number in range(2_000)]
    pairs: list[int] = []

    def get_close_matches(name: str, names: Sequence[str], **_: Any) -> list[str]:
        pairs.append(sum(len(name) * len(candidate) for candidate in names))
        return [*names][:1]

    monkeypatch.setattr(name_matching, "get_close_matches", get_close_matches)
    assert "nearest names" in lookup.near_hint(f"{1_000:0{length}}"[:-1] + "x", known, "tables")
    assert 0 < sum(pairs) <= name_matching.COMPARED_PAIRS


def test_a_call_has_a_bounded_number_of_arguments() -> None:
    with pytest.raises(StatementFailed, match="more than 50 arguments"):
        parse(f"CALL sys.help({', '.join('1' for _ in range(20_000))})")


def test_names_of_columns_are_made_distinct_in_one_pass() -> None:
    assert distinct(["a", "b", "a", "a_2", "a"]) == ["a", "b", "a_3", "a_2", "a_4"]
    assert len(set(distinct(["a"] * 50_000))) == 50_000
