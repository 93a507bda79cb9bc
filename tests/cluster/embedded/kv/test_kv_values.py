"""Whatever a primary-key table takes comes back from its KV state bit by bit; what the state could not hold is never logged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clusters.embedded import PATH, EmbeddedCluster, ManualClock, make_table, scan_all
from support.values.any_values import bits, build, columns
from tiering.cluster.embedded.kv.state import KvState
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.rows import check_map_keys
from tiering.errors import InvalidData
from tiering.model.tables import BucketKey, TablePath

B0 = BucketKey(None, 0)
ROWS = 4
ID = pa.field("id", pa.int64(), nullable=False)
ONE = pa.int32()


def table_of(column: pa.Array[Any]) -> pa.RecordBatch:
    schema = pa.schema([ID, pa.field("value", column.type)])
    return pa.RecordBatch.from_arrays([pa.array(range(len(column)), pa.int64()), column], schema=schema)


def has_a_key_twice(rows: pa.RecordBatch) -> bool:
    """Returns whether DuckDB finds a key twice; it refuses such rows."""
    with duckdb.connect() as connection:
        whole = rows.take(pa.array(range(len(rows)), pa.int64()))  # DuckDB takes no slice of a struct within a struct
        connection.register("given", pa.Table.from_batches([whole]))
        try:
            connection.execute("CREATE TABLE taken AS SELECT * FROM given")
        except duckdb.InvalidInputException as error:
            assert "duplicate key" in str(error)  # noqa: PT017  # whatever else it refuses is a failure
            return True
        return False


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStorage]:
    with EmbeddedStorage(tmp_path_factory.mktemp("cluster"), ManualClock()) as storage:
        yield storage


def held_rows(storage: EmbeddedStorage, path: TablePath) -> pa.Table:
    """Returns the contents of the KV state by id; the log is at its end."""
    table = storage.table(path)
    batches: list[pa.RecordBatch] = []

    def read(kv: KvState) -> None:
        assert kv.applied() == {bucket: ends.log_end for bucket, ends in storage.offsets(table).items() if ends.log_end}
        batches.extend(kv.rows(B0))

    with storage.primary_key_tables.exclusive(table.table_id):
        storage.primary_key_tables._using(table, read)
    return pa.Table.from_batches(batches, schema=table.schema).sort_by("id")


@given(column=columns(ROWS))
def test_any_value_is_held_as_it_is_or_refused_before_it_is_logged(fuzzed: EmbeddedStorage, column: pa.Array[Any]) -> None:
    rows = table_of(column)
    table = make_table(fuzzed, schema=rows.schema, primary_key=("id",))
    try:
        if has_a_key_twice(rows):
            with pytest.raises(InvalidData, match="twice"):
                fuzzed.upsert(PATH, rows, "writer", 0)
            assert fuzzed.offsets(table)[B0].log_end == 0
            return
        fuzzed.upsert(PATH, rows, "writer", 0)
        held = held_rows(fuzzed, PATH)
        assert bits(held.column("value").combine_chunks()) == bits(column)
        fuzzed.upsert(PATH, rows, "writer", 1)
        logged = scan_all(fuzzed, table).column("value").combine_chunks()
        assert sorted(map(repr, bits(logged))) == sorted(map(repr, bits(column) * 3))
    finally:
        fuzzed.drop_table(PATH)


TWICE: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "text": (pa.map_(pa.string(), ONE), [[("a", 1)], [("b", 1), ("c", 2), ("b", 3)]], "'b' twice, in row 1"),
    "in a list": (pa.list_(pa.map_(pa.string(), ONE)), [[[("a", 1)], [("k", 1), ("k", 1)]]], "'k' twice, in row 0"),
    "in a struct": (pa.struct([("m", pa.map_(ONE, ONE))]), [{"m": []}, {"m": [(7, 1), (7, 2)]}], "7 twice, in row 1"),
    "in a map": (pa.map_(ONE, pa.map_(pa.bool_(), ONE)), [[(1, [(True, 1), (True, 1)])]], "true twice, in row 0"),
    "0.0 and -0.0": (pa.map_(pa.float64(), ONE), [[(0.0, 1), (-0.0, 1)]], "0 twice, in row 0"),
    "NaN": (pa.map_(pa.float32(), ONE), [[(math.nan, 1), (math.nan, 1)]], "nan twice, in row 0"),
    "bytes": (pa.map_(pa.binary(), ONE), [[(b"x", 1), (b"x", 1)]], "b'x' twice, in row 0"),
    "days beyond Python's": (pa.map_(pa.date32(), ONE), [[(2**31 - 1, 1), (2**31 - 1, 1)]], "twice, in row 0"),
    "microseconds beyond Python's": (pa.map_(pa.timestamp("us", "UTC"), ONE), [[(2**63 - 1, 1), (2**63 - 1, 1)]], "twice, in row 0"),
}


@pytest.mark.parametrize("case", TWICE)
@pytest.mark.parametrize("primary_key", [("id",), ()], ids=["primary-key table", "log table"])
def test_a_map_with_a_key_twice_is_refused_and_the_table_goes_on(cluster: EmbeddedCluster, case: str, primary_key: tuple[str, ...]) -> None:
    kind, values, message = TWICE[case]
    rows = table_of(build(kind, values))
    table = make_table(cluster, schema=rows.schema, primary_key=primary_key)
    write = cluster.upsert if primary_key else cluster.append
    with pytest.raises(InvalidData, match="value") as caught:
        write(PATH, rows, "writer", 0)
    assert message in caught.value.message
    assert cluster.offsets(table)[B0].log_end == 0
    write(PATH, rows.slice(0, 0), "writer", 1)
    write(PATH, table_of(build(kind, [None])), "writer", 2)
    assert cluster.offsets(table)[B0].log_end == 1


def test_what_lies_under_a_null_counts_for_nothing(storage: EmbeddedStorage, tmp_path: Path) -> None:
    maps = pa.MapArray.from_arrays(pa.array([0, 2, 3], pa.int32()), pa.array(["a", "a", "b"]), pa.array([1, 2, 3]))
    hidden = pa.StructArray.from_arrays([maps], ["m"], mask=pa.array([True, False]))
    rows = table_of(hidden)
    make_table(storage, schema=rows.schema, primary_key=("id",))
    storage.upsert(PATH, rows, "writer", 0)
    assert held_rows(storage, PATH).column("value").to_pylist() == [None, {"m": [("b", 3)]}]


@given(column=columns(ROWS), data=st.data())
def test_what_is_refused_is_what_duckdb_refuses(column: pa.Array[Any], data: st.DataObject) -> None:
    rows = table_of(column).slice(data.draw(st.integers(0, ROWS)))
    if has_a_key_twice(rows):
        with pytest.raises(InvalidData, match="twice"):
            check_map_keys(rows)
    else:
        check_map_keys(rows)
