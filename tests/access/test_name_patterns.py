"""Patterns of policies, over one name and over many, held against regular expressions."""

from __future__ import annotations

import re
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import examples
from tiering.access.grants import Access
from tiering.access.identity import Authentication, Identity
from tiering.access.policies.engine import CedarEngine

ANA = Identity("ana", Authentication.TOKEN)
LETTERS = st.one_of(st.sampled_from("ab%_*\\\n\"'.ä\U0001f600"), st.characters(exclude_categories=["Cs"]))
PATTERNS = st.lists(st.lists(st.text(LETTERS, max_size=3), min_size=1, max_size=4), max_size=4)
"""The texts of each pattern, with a wildcard between two of them."""
NAMES = st.lists(st.text(LETTERS, max_size=6), max_size=6)


def literal(text: str, *, is_pattern: bool) -> str:
    """The text as Cedar writes it between quotation marks."""
    return "".join("\\*" if is_pattern and character == "*" else f"\\u{{{ord(character):x}}}" for character in text)


def names_like(patterns: list[list[str]], names: list[str]) -> list[str]:
    """The names, and some that the patterns match."""
    return [
        *names,
        *("".join(texts) for texts in patterns),
        *("xa\n".join(texts) for texts in patterns),
        *("".join(texts[::2]) for texts in patterns),
    ]


@settings(max_examples=examples(60), deadline=None)
@given(PATTERNS, NAMES, st.sampled_from(("database", "name")))
def test_names_match_as_regular_expressions_say(patterns: list[list[str]], drawn: list[str], attribute: str) -> None:
    conditions = [f'resource.{attribute} like "{"*".join(literal(text, is_pattern=True) for text in texts)}"' for texts in patterns]
    engine = CedarEngine("\n".join(f"permit (principal, action, resource is Table) when {{ {condition} }};" for condition in conditions))
    names = names_like(patterns, drawn)
    regexes = [".*".join(map(re.escape, texts)) for texts in patterns]
    expected = [any(re.fullmatch(regex, name, re.DOTALL) for regex in regexes) for name in names]
    others = ["other"] * len(names)
    columns = (names, others) if attribute == "database" else (others, names)
    access = Access(ANA, engine)
    assert [access.sees_name(*path) for path in zip(*columns, strict=True)] == expected
    for repeated in (Access(ANA, engine), access):
        assert repeated.visible(*(pa.array(column, pa.string()) for column in columns)).tolist() == expected


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.text(LETTERS, max_size=4), min_size=1, max_size=3), NAMES, st.booleans())
def test_sets_of_names_have_their_members_alone(members: list[str], drawn: list[str], is_negated: bool) -> None:
    listed = ", ".join(f'"{literal(member, is_pattern=False)}"' for member in members)
    effect = "unless" if is_negated else "when"
    engine = CedarEngine(f"permit (principal, action, resource is Table) {effect} {{ [{listed}].contains(resource.name) }};")
    names = [*drawn, *members]
    expected = [(name in members) is not is_negated for name in names]
    assert [Access(ANA, engine).sees_name("sales", name) for name in names] == expected
    assert Access(ANA, engine).visible(pa.array(["sales"] * len(names)), pa.array(names, pa.string())).tolist() == expected


def test_a_condition_of_many_tests_has_more_outcomes_than_fit_into_a_number() -> None:
    groups = [" || ".join(f'resource.name like "*{first}{second}*"' for second in "abcdefghij") for first in "abcdefghij"]
    condition = " && ".join(f"!({group})" for group in groups)
    engine = CedarEngine(f"permit (principal, action, resource is Table) when {{ {condition} }};")
    names = ["abcdefghij", "a", "aXb", "jj", "", *(f"{first}{second}" for first in "aj" for second in "bx")]
    expected = [re.search("[a-j][a-j]", name) is None for name in names]
    assert Access(ANA, engine).visible(pa.array(["sales"] * len(names)), pa.array(names)).tolist() == expected


def test_slices_and_chunks_of_names_are_names() -> None:
    access = Access(ANA, CedarEngine('permit (principal, action, resource is Table) when { resource.name like "a*" };'))
    names, databases = pa.array(["a1", "b1", "a2", "b2"]), pa.array(["sales"] * 3)
    for part in (names.slice(1), pa.chunked_array([names.slice(1, 1), names.slice(2)]), names.slice(1).cast(pa.large_string())):
        assert access.visible(databases, part).tolist() == [False, True, False]


@pytest.mark.parametrize("pattern", ["*a" * 20_000 + "*b", "a" * 100_000 + "*", "*" * 100_000 + "b", "*a*" * 90 + "b"])
def test_no_pattern_stops_the_service(pattern: str) -> None:
    engine = CedarEngine(f'permit (principal, action, resource is Table) when {{ resource.name like "{pattern}" }};')
    names = ["a" * 200] * 1_000
    started = time.process_time()
    access = Access(ANA, engine)
    assert not access.visible(pa.array(["sales"] * len(names)), pa.array(names)).any()
    assert not access.sees_name("sales", names[0])
    assert time.process_time() - started < 5
