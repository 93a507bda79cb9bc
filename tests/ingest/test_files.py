"""Parquet files keep their types; which format a file has, and which file is refused."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.running.ingested import parse, write
from tiering.errors import InvalidArgument, InvalidData, UnsupportedType
from tiering.ingest.formats import FileFormat, Reading, format_of


def test_nested_parquet_keeps_its_values_and_an_instant_within_is_no_local_time(tmp_path: Path) -> None:
    kind = pa.list_(pa.map_(pa.string(), pa.struct([pa.field("t", pa.timestamp("ms")), ("n", pa.large_list(pa.int16()))])))
    rows = [[[("k", {"t": datetime(1969, 1, 1), "n": [1, None]})], None], None, []]
    pq.write_table(pa.table({"a": pa.array(rows, kind)}), tmp_path / "x.parquet")
    assert parse(tmp_path / "x.parquet")["a"].to_pylist() == rows
    instant = pa.list_(pa.map_(pa.string(), pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.list_(pa.int16()))])))
    with pytest.raises(InvalidData, match=r"'a\.element\.value\.t' is timestamp"):
        parse(tmp_path / "x.parquet", pa.schema([("a", instant)]))


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int16()),
            "when": pa.array([datetime(2013, 1, 1)] * 2, pa.timestamp("ms")),
            "category": pa.array(["a", None]).dictionary_encode(),
            "text": pa.array(["2013-01-01", "1"], pa.large_string()),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int16(), nullable=False),
                ("when", pa.timestamp("ms")),
                ("category", pa.dictionary(pa.int32(), pa.string())),
                ("text", pa.large_string()),
            ]
        ),
    )
    pq.write_table(table, tmp_path / "x.parquet")

    parsed = parse(tmp_path / "x.parquet")

    assert parsed.schema.types == [pa.int16(), pa.timestamp("us"), pa.string(), pa.string()]
    assert [field.nullable for field in parsed.schema] == [False, True, True, True]
    assert parsed["category"].to_pylist() == ["a", None]
    assert parsed["text"].to_pylist() == ["2013-01-01", "1"]


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.list_(pa.time32("ms")), pa.struct([("a", pa.duration("us"))])])
def test_a_parquet_type_that_the_lake_lacks_is_refused_by_name(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"odd": pa.array([], kind)}), tmp_path / "x.parquet", version="2.6")
    with pytest.raises(UnsupportedType, match="'odd") as error:
        parse(tmp_path / "x.parquet")
    assert str(kind.field(0).type if kind.num_fields else kind) in error.value.message


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(100_000))}), tmp_path / "x.parquet", compression="none", use_dictionary=False)
    content = (tmp_path / "x.parquet").read_bytes()
    with pytest.raises(InvalidData, match=r"cut\.parquet"):
        parse(write(tmp_path, "cut.parquet", content[:-10]))
    with pytest.raises(InvalidData, match=r"text\.parquet"):
        parse(write(tmp_path, "text.parquet", "a,b\n"))
    with pytest.raises(InvalidData, match=r"holes\.parquet"):
        parse(write(tmp_path, "holes.parquet", content[:4] + b"\xff" * 1_000 + content[1_004:]))


def test_an_instant_is_never_taken_for_a_local_time(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.array([datetime(2013, 1, 1)], pa.timestamp("us"))}), tmp_path / "x.parquet")
    with pytest.raises(InvalidData, match="'t' is timestamp"):
        parse(tmp_path / "x.parquet", pa.schema([("t", pa.timestamp("us", "UTC"))]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.CSV", "csv"), ("b.parquet", "parquet"), ("c.jsonl", "ndjson"), ("d.ndjson.ZST", "ndjson"), ("e.tsv.gz", "csv")],
)
def test_the_ending_tells_the_format(name: str, expected: str) -> None:
    assert format_of([name], Reading()) is FileFormat(expected)


def test_an_unknown_ending_or_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"x\.xlsx"):
        parse(write(tmp_path, "x.xlsx", ""))
    with pytest.raises(InvalidArgument, match=r"no file .*nothing\.csv"):
        parse(tmp_path / "nothing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidArgument, match=r"folder\.csv is a folder"):
        parse(tmp_path / "folder.csv")
