"""NaN beside numbers in Paimon's files: a reader that skips row groups by their statistics finds every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.values.nan_values import KINDS, check_duckdb, drawn
from tiering.lake.paimon.writing.parquet_files import FilePlace, ParquetFiles
from tiering.lake.paimon.writing.sorted_files import SortedFiles
from tiering.lake.writing import parquet_stream
from tiering.model.tables import OFFSET_COLUMN, TablePath


def place(folder: Path) -> FilePlace:
    return FilePlace(TablePath("sales", "orders"), folder, "bucket-0", "data")


@KINDS
@pytest.mark.parametrize("rows_of_a_group", [2, 100])
def test_duckdb_finds_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, rows_of_a_group: int) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", rows_of_a_group)
    for number, values in enumerate(drawn()):
        rows: Any = pa.record_batch({"value": pa.array(values, kind), OFFSET_COLUMN: pa.array(range(len(values)), pa.int64())})
        files = ParquetFiles(place(tmp_path / str(number)), rows.schema)
        files.add(rows)
        paths = [tmp_path / str(number) / file.folder / file.name for file in files.close()]
        assert pa.concat_tables([pq.read_table(path) for path in paths])[OFFSET_COLUMN].to_pylist() == list(range(len(values)))
        check_duckdb([str(path) for path in paths], pa.table({"value": rows["value"]}))


@KINDS
def test_duckdb_finds_every_row_of_a_sorted_file(tmp_path: Path, kind: pa.DataType) -> None:
    for number, values in enumerate(drawn()):
        size = len(values)
        rows = pa.table({"id": pa.array(range(size), pa.int64()), "value": pa.array(values, kind)})
        files = SortedFiles(place(tmp_path / str(number)), rows.schema, ["id"])
        files.add(rows, np.arange(size), np.zeros(size, np.int8))
        (file,) = files.close()
        check_duckdb([str(tmp_path / str(number) / file.folder / file.name)], rows.select(["value"]))
