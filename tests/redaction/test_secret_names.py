"""Which names of columns and properties say that the value is a secret."""

from __future__ import annotations

import pytest

from support.secret_texts import S
from tiering.redaction.redact import MASK, is_public_property, redact_named, redact_property
from tiering.redaction.secret_forms import is_secret_name


@pytest.mark.parametrize(
    "name",
    [
        "s3.secret-access-key",
        "token",
        "header.Authorization",
        "adls.account-key",
        "s3.access-key-id",
        "gcs.oauth2.token",
        "db_password",
        "credential",
    ],
)
def test_names_of_secrets_are_known_and_not_public(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_name(name.upper())
    assert not is_public_property(name)
    assert redact_property(name, "x") == MASK
    assert redact_named(name, "x") == MASK


@pytest.mark.parametrize("name", ["table_name", "bucket_key", "primary_key", "idempotency_key", "token_id", "key", "author", "page_count"])
def test_names_of_columns_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)
    assert redact_named(name, "abc") == "abc"


def test_a_property_is_public_by_its_name_alone() -> None:
    assert redact_property("warehouse", "s3://bucket/x") == "s3://bucket/x"
    assert redact_property("uri", f"postgresql://me:{S}@h/d") == "postgresql://***@h/d"
    assert redact_property("header.X-Custom", "abc") == MASK
