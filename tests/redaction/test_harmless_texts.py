"""Texts without a secret stay readable."""

from __future__ import annotations

import pytest

from tiering.redaction.redact import outside_text, redact

HARMLESS = (
    "the token expired at 10:30",
    "token: expired",
    "secret santa came",
    "the secretary: Bob",
    "passwordless=true",
    "tokenizer: standard",
    "password is required",
    "password was wrong at 10:30",
    "password: missing",
    "password=None",
    "token_id = 5",
    "token_count=12345678",
    "unexpected token: '}'",
    "token = 12",
    'Binder Error: column "key" not found, candidates: "token_id", "name"',
    "Catalog Error: key = 5 is no column of sales.orders",
    "the column token_id of sales.orders is BIGINT: it cannot be compared with 'x'",
    "columns: ['id', 'token', 'name']",
    "the primary key: id",
    "bucket key: customer_id, partition key: day",
    "primary_key=order_id bucket_keys=[a, b]",
    "snapshot 4812345678901234567 of sales.orders, epoch 17, offset 9223372036854775807",
    "round 7f1c9e64-5717-4562-b3fc-2c963f66afa6 of db.t",
    "round_id=7f1c9e6457174562b3fc2c963f66afa6",
    "/data/lake/sales/orders/data/00000-0-7f1c9e64-5717-4562-b3fc-2c963f66afa6.parquet",
    "s3://bucket/warehouse/sales/orders/metadata/00001-abc.metadata.json",
    "abfss://container@account.dfs.core.windows.net/path",
    "https://catalog:8181/v1/namespaces/a@b",
    "hdfs://nn1:8020,nn2:8020/user/a@b",
    "lakeward://127.0.0.1:7707",
    "https://host/path?email=me@example.org",
    "mail to me@example.org: it is urgent",
    "git@github.com:apache/iceberg.git",
    "file:///data/a@b.csv",
    "at 10:30:00, 5 tables: sales.orders@17",
    "Basic authentication failed",
    "Bearer token is missing",
    "NoSuchTableError: Table does not exist: ('sales', 'orders')",
    "CommitFailedException: branch main has changed: expected id 1, found 2",
    "TableAlreadyExistsError: a=b, c:d; e=>f",
    "java.lang.IllegalStateException: key cannot be null",
    "Signature of the function: not known",
    "--format csv --output file --wait",
    "a < b and c > d <br> <table>x</table>",
    "100% of 20 splits, 3 & 4",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "übergröße der Straße: 中文 Ελληνικά привет",
    "credentials-provider=InstanceProfile",
    "password_file=/run/secrets/db",
    "the table shop.user_tokens has 12 columns",
    "shop.secrets shop.orders_2024 shop.tokens",
    "CALL sys.reconcile_lake('shop.secrets', 'retier') makes it anew",
    "CALL sys.skip_record('shop.api_keys', 3, 12345, reason => '...') leaves it out",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_texts_stay_readable(text: str) -> None:
    assert redact(text) == text
    assert outside_text(text) == text
