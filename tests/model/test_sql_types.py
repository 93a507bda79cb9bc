from __future__ import annotations

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from tiering.model.names import quote_identifier
from tiering.model.sql_types import column_list, literal, spark_type


@pytest.mark.parametrize(
    ("arrow_type", "expected"),
    [
        (pa.int64(), "BIGINT"),
        (pa.int16(), "SMALLINT"),
        (pa.timestamp("us", tz="UTC"), "TIMESTAMP"),
        (pa.timestamp("us"), "TIMESTAMP_NTZ"),
        (pa.decimal128(12, 3), "DECIMAL(12,3)"),
        (pa.list_(pa.string()), "ARRAY<STRING>"),
        (pa.map_(pa.string(), pa.int64()), "MAP<STRING, BIGINT>"),
        (pa.struct([("a", pa.int32()), ("b c", pa.bool_())]), "STRUCT<a: INT, `b c`: BOOLEAN>"),
    ],
)
def test_types_are_written_as_spark_reads_them(arrow_type: pa.DataType, expected: str) -> None:
    assert spark_type(arrow_type) == expected
    sqlglot.parse_one(f"CREATE TABLE t (c {expected})", dialect="spark", error_level=sqlglot.ErrorLevel.RAISE)


def test_a_column_list_makes_a_table() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("od`d-name", pa.string())])
    assert column_list(schema) == "id BIGINT NOT NULL, `od``d-name` STRING"
    created = sqlglot.parse_one(f"CREATE TABLE t ({column_list(schema)})", dialect="spark")
    assert [definition.name for definition in created.find_all(exp.ColumnDef)] == ["id", "od`d-name"]


@pytest.mark.parametrize("name", ["plain", "with-dash", "1st", "back`quote", "ä"])
def test_quoted_identifiers_are_read_back(name: str) -> None:
    assert sqlglot.parse_one(f"SELECT {quote_identifier(name)}", dialect="spark").selects[0].name == name


@pytest.mark.parametrize("text", ["plain", "it's", "back\\slash", "both\\'", ""])
def test_text_literals_are_read_back(text: str) -> None:
    assert sqlglot.parse_one(f"SELECT {literal(text)}", dialect="spark").selects[0].this == text


def test_other_literals() -> None:
    assert [literal(value) for value in (None, True, False, 300_000, -1)] == ["NULL", "true", "false", "300000", "-1"]
