"""A message is cut and cleaned, and a cut lets no part of a secret through."""

from __future__ import annotations

import pytest

from support.secret_texts import FORMS, LONG, SHAPES, S
from tiering.redaction.redact import MESSAGE_LIMIT, outside_text, redact


@pytest.mark.parametrize("text", [*FORMS, *SHAPES])
@pytest.mark.parametrize("limit", [60, MESSAGE_LIMIT])
def test_a_cut_lets_no_part_of_a_secret_through(text: str, limit: int) -> None:
    """Wherever the cut falls, before, within or behind the secret, no four characters of it are shown."""
    parts = {S[start : start + 4] for start in range(len(S) - 3)}
    for start in (limit - len(text), limit - 4, limit - 30, limit * 4 - 4, limit * 4 - len(text) // 2):
        shown = outside_text("x" * (max(start, 0) - 1) + "\n" + text + "\n" + "y" * 20_000, limit)
        assert len(shown) <= limit
        assert not [part for part in parts if part in shown]
        assert LONG not in shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:" + S * 4_000 + "@host/db",
        "jdbc:oracle:thin:me/" + S * 4_000 + "@host",
        "password='" + (S + " ") * 4_000 + "'",
        "-----BEGIN PRIVATE KEY-----\n" + (S + "\n") * 4_000 + "-----END PRIVATE KEY-----",
        "<password>" + (S + " ") * 4_000 + "</password>",
    ],
)
def test_a_secret_longer_than_what_is_looked_at_is_masked(text: str) -> None:
    assert S not in outside_text(text)
    assert S not in redact(text)


def test_a_message_has_no_control_characters_and_is_cut() -> None:
    assert outside_text("a\x1b[31mb\x9bc\u202ed\u200be\x0bf\rg\ud800h\u2028i\x00") == (
        "a\\x1b[31mb\\x9bc\\u202ed\\u200be\\x0bf\\rg\\ud800h\\u2028i\\x00"
    )
    assert outside_text("two\nlines\tof text") == "two\nlines\tof text"
    shown = outside_text("\x1b" * 100_000)
    assert len(shown) == MESSAGE_LIMIT
    assert shown.endswith("…")
