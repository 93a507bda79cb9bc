"""A file that cannot be loaded is refused with what it is, and with a way round that works."""

from __future__ import annotations

import gzip
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.running.ingested import parse, parse_all, write
from tiering.errors import InvalidArgument, InvalidData, InvalidName, UnsupportedType
from tiering.ingest import files
from tiering.ingest.files import Shape
from tiering.ingest.formats import FileFormat, Reading


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    content = b"a,b\n1,Oslo\n"
    file = write(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    parse_plain = files._parse

    def appended(*arguments: Any) -> object:
        with file.open("ab") as more:
            more.write(b"2,Li")
        return parse_plain(*arguments)

    monkeypatch.setattr(files, "_parse", appended)
    with pytest.raises(InvalidData, match=rf"{name} changed while it was read"):
        parse(file)


@pytest.mark.parametrize(
    ("name", "content", "reason", "hint"),
    [
        ("x.csv", b"PK\x03\x04abc", r"x\.csv is a zip archive or an Excel workbook", "save the sheet as CSV"),
        ("x.csv", b"PAR1abc", r"x\.csv is a Parquet file", "--file-format parquet"),
        ("x.ndjson", b"", r"x\.ndjson has no columns", "an object with keys"),
    ],
)
def test_a_file_of_another_kind_is_named_as_such(tmp_path: Path, name: str, content: bytes, reason: str, hint: str) -> None:
    with pytest.raises(InvalidData, match=reason) as refused:
        parse(write(tmp_path, name, content))
    assert hint in refused.value.hint


@pytest.mark.parametrize("reading", [Reading(), Reading(FileFormat.CSV)])
def test_a_folder_is_named_as_such(tmp_path: Path, reading: Reading) -> None:
    with pytest.raises(InvalidArgument, match="is a folder") as refused:
        parse(tmp_path, reading=reading)
    assert f"{tmp_path}/*.csv" in refused.value.hint


def test_types_that_a_lake_lacks_are_stored_as_text_or_bytes(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"at": pa.array([1_000_000], pa.time64("us")), "id": pa.array([b"ab"], pa.binary(2))}), file)
    with pytest.raises(UnsupportedType, match=r"x\.parquet: column 'at' has type time64") as refused:
        parse(file)
    assert "--type at=STRING" in refused.value.hint
    assert parse_all([file], Shape(types={"at": pa.string()})).to_pylist() == [{"at": "00:00:01.000000", "id": b"ab"}]


@pytest.mark.parametrize("names", [["a b", "a.b", "A_B", "%"], ["ID", "id", "id_2"], ["x", "X", "X y", "x y"]])
def test_the_names_that_an_error_proposes_can_be_taken(tmp_path: Path, names: list[str]) -> None:
    file = write(tmp_path, "x.csv", ",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    with pytest.raises(InvalidName) as refused:
        parse(file)
    words = shlex.split(refused.value.hint.partition("Rename it: ")[2])
    assert set(words[::2]) == {"--rename"}
    rename = {old: new for old, _, new in (word.rpartition("=") for word in words[1::2])}
    assert parse(file, reading=Reading(rename=rename)).num_columns == len(names)
