"""Secrets that this process knows are masked in all their forms."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from support.secret_texts import LONG, S
from tiering.redaction import known_secrets
from tiering.redaction.known_secrets import MAX_SECRETS, KnownSecrets, environment_secrets, secrets_among


def test_known_secrets_are_masked_in_all_their_forms() -> None:
    secret = 'k9/"ä+ p&<x'
    known = KnownSecrets()
    known.add(secret, "short")
    for text in (
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        secret.encode().hex(),
    ):
        assert [text[start:end] for start, end in known.spans(f"x{text}y"[1:-1])], text
    for prefix in ("", "m", "me", "me:", "user:"):
        encoded = b64encode((prefix + secret).encode()).decode()
        [(start, end)] = known.spans(encoded)
        assert end - start >= len(encoded) - len(b64encode(prefix.encode())) - 4
    assert not list(known.spans("short"))


def test_known_secrets_are_bounded_and_start_from_environment_and_properties() -> None:
    known = KnownSecrets()
    known.add(*(f"secret-number-{number:06}" for number in range(2 * MAX_SECRETS)))
    assert len(list(known.spans(" ".join(f"secret-number-{number:06}" for number in range(2 * MAX_SECRETS))))) == MAX_SECRETS
    environment = {"PWD": "/home/someone", "MY_TOKEN": S, "URI": f"postgres://me:p%40{S}@h/d", "TOKEN_FILE": "/run/secrets/x"}
    assert set(environment_secrets(environment)) == {S, f"p%40{S}", f"p@{S}"}
    properties = {
        "header.Authorization": f"Bearer {LONG}",
        "warehouse": "s3://bucket/with-a-long-name-1",
        "uri": "http://h:8181",
        "x": LONG,
    }
    assert set(secrets_among(properties, ("warehouse", "uri"))) == {f"Bearer {LONG}", LONG}


def test_a_known_secret_that_is_a_word_leaves_longer_words_readable() -> None:
    known = KnownSecrets()
    known.add("postgres")
    assert not list(known.spans("cannot connect to postgresql://db/lake or Xpostgres"))
    for text in ("postgres", "user:postgres@h", "a\\npostgres", "p%3Dpostgres%26", "'postgres'", "postgres_1", "\\u003dpostgres"):
        assert len(list(known.spans(text))) == 1, text


def test_where_a_secret_lies_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownSecrets()
    monkeypatch.setattr(known_secrets, "KNOWN", known)
    monkeypatch.setenv("PASSWORD_STORE_DIR", str(tmp_path))
    monkeypatch.setenv("MY_SECRET_KEY", f"/{LONG}")
    known_secrets.remember_environment()
    assert not list(known.spans(f"cannot read {tmp_path}/lake"))
    assert list(known.spans(f"key /{LONG}"))


def test_secrets_of_a_key_file_are_masked_line_by_line() -> None:
    known = KnownSecrets()
    known.add(f"-----BEGIN PRIVATE KEY-----\n{LONG}\n{LONG[::-1]}\n-----END PRIVATE KEY-----")
    assert len(list(known.spans(f"read {LONG} and {LONG[::-1]}"))) == 2
