"""Any text is masked without a failure, in time that grows with its length alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.proportion import out_of_proportion
from support.secret_texts import S
from tiering.redaction.redact import cut_message, outside_text, redact

WORDS = ("password", "pwd", "secret", "token", "access_key", "access key", "authorization", "cookie", "key", "pass", "auth")
SIGNS = (
    "=",
    ":",
    " ",
    ",",
    "'",
    '"',
    "\\",
    "=>",
    "%3D",
    "<",
    ">",
    "</",
    "&",
    "?",
    "@",
    "://",
    "-----BEGIN ",
    "-----",
    "\n ",
    "[",
    "{",
    "(",
    "--",
)
WORST = (
    *WORDS,
    *SIGNS,
    *(word + sign for word in WORDS for sign in ("=", ": x ", "='", " ", "value", "\n", ",", '"')),
    *("eyJ", "eyJ.", "AKIA", "sk-", "basic aaaa", "bearer ", "mysql -", "mysql ", "curl -u a", "login a ", "a:b@tcp(", "jdbc:oracle:a:"),
    *("://a:", "://a@", "://a:1/", "-----begin x-----", "<a ", "&quot;", "\\u0022", "\\x", "%25", '\\\\"', "a.", "sig=", "?x-amz-a"),
)
"""Beginnings of every pattern, repeated: what a search would take up again and again."""


@given(st.lists(st.sampled_from([*"asx=:'\"\\ \n\t&%3D@/,;{}[]()<>-_.n", *WORDS, *SIGNS, "eyJ", "value", S]), max_size=40).map("".join))
def test_masking_again_changes_nothing_that_was_clean_and_never_fails(text: str) -> None:
    shown = redact(text)
    assert len(cut_message(shown, 20)) <= 20
    if shown == text:
        assert redact(text) == text
    outside_text(text, 20)


def test_the_time_is_linear_in_texts_made_to_be_slow() -> None:
    assert [slow for unit in WORST if (slow := out_of_proportion(redact, unit)) is not None] == []
