"""The `iceberg.` options that a table may have."""

from __future__ import annotations

import pytest
from pyiceberg.table import TableProperties

from tiering.errors import InvalidArgument
from tiering.lake.iceberg_options import LAKE_TABLE_OPTIONS, allowed_properties, check_table_options, lake_table_properties, option_named
from tiering.lake.table_options import public_options

FORBIDDEN = (
    "py-io-impl",
    "py-catalog-impl",
    "io-impl",
    TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL,
    "write.location-provider.impl",
    TableProperties.WRITE_DATA_PATH,
    TableProperties.WRITE_METADATA_PATH,
    "write.folder-storage.path",
    "write.object-storage.path",
    "location",
    "warehouse",
    "uri",
    "token",
    "s3.endpoint",
    "s3.retry-strategy-impl",
    "adls.account-key",
    "format-version",
    "schema.name-mapping.default",
    "lakeward.allowed-locations",
    "write.metadata.metrics.column.",
    "COMMENT",
    "py-io-impl ",
    "",
)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_is_not_listed_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="is not one that a table may have") as caught:
        check_table_options({f"iceberg.{name}": "1"})
    assert "docs/options.md" in caught.value.hint
    assert lake_table_properties({f"iceberg.{name}": "1"}) == {}
    assert allowed_properties({name: "1"}) == {}
    assert public_options({f"iceberg.{name}": "1"}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.target-file-size-bytes", "0"),
        ("write.target-file-size-bytes", "-1"),
        ("write.target-file-size-bytes", "1e6"),
        ("write.target-file-size-bytes", "١٢"),
        ("write.target-file-size-bytes", "9" * 40),
        ("write.format.default", "avro"),
        ("write.delete.mode", "none"),
        ("write.object-storage.enabled", "yes"),
        ("write.metadata.delete-after-commit.enabled", "1"),
        ("write.metadata.metrics.default", "truncate(0)"),
        ("write.metadata.metrics.column.id", "some"),
        ("write.parquet.compression-level", "100"),
    ],
)
def test_values_are_looked_at(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match="is ") as caught:
        check_table_options({f"iceberg.{name}": value})
    assert caught.value.hint.startswith("It may be: ")
    assert allowed_properties({name: value}) == {}


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\tb", "\0", "\x1b[31m", "a\x85b", "a\u2028b"])
def test_every_option_is_on_one_line(text: str) -> None:
    for options in ({"iceberg.comment": text}, {"comment": text}, {text: "x"}, {f"iceberg.write.metadata.metrics.column.{text}": "full"}):
        with pytest.raises(InvalidArgument, match="control character"):
            check_table_options(options)


def test_what_is_listed_is_allowed() -> None:
    options = {
        "iceberg.write.target-file-size-bytes": "1000000",
        "iceberg.write.metadata.metrics.column.a b.c": "truncate(16)",
        "iceberg.history.expire.max-ref-age-ms": str(2**63 - 1),
        "iceberg.gc.enabled": "FALSE",
        "iceberg.comment": "Orders, cleaned",
        "table.datalake.enabled": "true",
        "owner": "sales",
    }
    check_table_options(options)
    assert len(lake_table_properties(options)) == 5
    assert set(options) - set(public_options(options)) == {"owner"}


def test_no_option_is_one_that_pyiceberg_writes_or_imports_by() -> None:
    assert not [name for name in LAKE_TABLE_OPTIONS if name.endswith(("path", "impl", "location", "endpoint", "uri"))]
    assert option_named("write.metadata.metrics.column.x") is not None


def test_a_near_name_is_hinted_at() -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_table_options({"iceberg.write.target-file-size": "1"})
    assert "iceberg.write.target-file-size-bytes" in caught.value.hint
