"""A secret is masked in every form, whatever stands around it, and what stands behind it is still shown."""

from __future__ import annotations

import json

import pytest

from support.secret_texts import BASIC, FORMS, LONG, SHAPES, S
from tiering.redaction.redact import MASK, redact


@pytest.mark.parametrize("text", FORMS)
def test_a_secret_is_masked_in_every_form(text: str) -> None:
    shown = redact(text)
    assert S not in shown
    assert BASIC not in shown
    assert MASK in shown


@pytest.mark.parametrize("text", SHAPES)
def test_what_looks_like_a_secret_is_masked_without_a_name(text: str) -> None:
    shown = redact(f"cannot use {text}")
    assert shown == redact(shown)
    assert LONG not in shown
    assert "0123456789abcdef" not in shown
    assert "EXAMPLE" not in shown
    assert "Zk3+Zk3" not in shown
    assert shown.startswith("cannot use ")


def test_there_are_enough_forms() -> None:
    assert len(FORMS) >= 120
    assert len(set(FORMS)) == len(FORMS)


AROUND = ("a\n{}\nb", '{{"message": "{}"}}', "cannot open the lake: {}", "({})", "x {} y")
BEGINS_A_LINE = (f"password: a {S}", f"password=a {S}", "password: |", "passwords:\n")
"""Files of settings: what the value is depends on where its line begins."""


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_a_secret_does_not_uncover_it(text: str, around: str) -> None:
    if text.startswith(BEGINS_A_LINE) and around not in AROUND[:2]:
        around = AROUND[0]
    inner = json.dumps(text)[1:-1] if around.startswith("{{") else text
    assert S not in redact(around.format(inner))


def test_what_stands_behind_a_masked_value_is_still_shown() -> None:
    assert redact('{"password": "a b", "user": "me"}') == '{"password": "***", "user": "me"}'
    assert redact("open failed: password=x, user=me (host h)") == "open failed: password=***, user=me (host h)"
    assert redact("postgresql://me:x@host/db is down") == "postgresql://***@host/db is down"
    assert redact("Authorization: Bearer abc.def, status 401") == "Authorization: ***, status 401"
    assert redact("<a><password>x</password><b>y</b></a>") == "<a><password>***</password><b>y</b></a>"
    assert redact("jdbc:oracle:thin:me/x@host:1521/db") == "jdbc:oracle:thin:***@host:1521/db"
    assert redact(json.dumps({"body": json.dumps({"token": "abc", "b": 1}), "c": 2})) == (
        json.dumps({"body": json.dumps({"token": "***", "b": 1}), "c": 2})
    )
