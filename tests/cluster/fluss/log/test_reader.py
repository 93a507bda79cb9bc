"""Log splits of a real Fluss cluster: every record of a range, each once, whatever the table and the server do meanwhile."""

from __future__ import annotations

import decimal
import itertools
import multiprocessing
import pickle
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.clusters.fluss_server import kill_tablet_server
from support.clusters.fluss_tables import FlussTables
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log import fetch
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.reader import FlussLogSplitReader, executor_client, open_log_reader
from tiering.cluster.fluss.log_offsets import commit_time, oldest_headers
from tiering.cluster.fluss.source import SchemaHistory
from tiering.errors import ClusterUnavailable, DataCorrupt, InvalidArgument, LakewardError, LogTruncated, SourceChanged
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo

B0 = BucketKey(None, 0)
ORDERS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("price", pa.float64())])
IMPATIENT_S = 1.0


def commit_times(tables: FlussTables, table: TableInfo, offsets: Offsets) -> dict[BucketKey, datetime]:
    return {bucket: commit_time(header) for bucket, header in oldest_headers(tables.client, table, offsets, {}).items()}


def orders(start: int, stop: int) -> pa.RecordBatch:
    ids = np.arange(start, stop)
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array([f"order {number}" for number in ids]), pa.array(ids / 4)], schema=ORDERS)


def reader(tables: FlussTables, table: TableInfo, start: int = 0, stop: int | None = None, bucket: BucketKey = B0) -> FlussLogSplitReader:
    bounds = BucketLog(tables.client, table.path, table.table_id, bucket).bounds()
    stop = bounds.log_end if stop is None else stop
    split = TieringLogSplit(table.path, bucket, None, start, stop, stop)
    return open_log_reader(tables.connection, table, split, bounds, SchemaHistory(tables.client).of(table), {})


def rows(reader: FlussLogSplitReader) -> pa.Table:
    table = pa.Table.from_batches(list(reader.read()), reader.row_format.read_schema)
    table.validate(full=True)
    return table


def bytes_read(reader: FlussLogSplitReader) -> int:
    sizes: list[int] = []
    assert sum(batch.num_rows for batch in reader.read_counted(sizes.append)) == reader.split.records
    return sum(sizes)


def error_in_time(reader: FlussLogSplitReader, kind: type[LakewardError]) -> str:
    """The message of the error with which reading ends once the servers know what happened."""
    messages: list[str] = []

    def fails() -> bool:
        try:
            rows(reader)
        except kind as error:
            messages.append(error.message)
        return bool(messages)

    wait_for(f"reading to end with {kind.__name__}", fails)
    return messages[0]


def answer_at(tables: FlussTables, table: TableInfo, offset: int) -> Any:
    return BucketLog(tables.client, table.path, table.table_id, B0).fetch(offset, offset + 1, 1_000)[1]


def is_remote(tables: FlussTables, table: TableInfo, offset: int) -> bool:
    return bool(answer_at(tables, table, offset).HasField("remote_log_fetch_info"))


@pytest.mark.parametrize("compression", ["NONE", "ZSTD", "LZ4_FRAME"])
def test_any_range_of_a_log_table_is_read_as_it_was_appended(
    tables: FlussTables, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    table = tables.create("orders", ORDERS, properties={"table.log.arrow.compression.type": compression})
    before = datetime.now(UTC) - timedelta(seconds=1)
    tables.append(table, [orders(0, 700)])
    tables.append(table, [orders(700, 3_000)])
    monkeypatch.setattr(fetch, "FETCH_BYTES", 20_000)  # many fetches for few rows
    for start, stop in [(0, 3_000), (699, 701), (100, 2_999), (7, 7)]:
        read = rows(reader(tables, table, start, stop))
        assert read.schema.equals(table.read_schema())
        assert read.select(ORDERS.names).to_pylist() == orders(start, stop).to_pylist()
        assert read["__offset"].to_pylist() == list(range(start, stop))
        assert set(read["__bucket"].to_pylist()) <= {0}
        assert all(before < when < datetime.now(UTC) for when in read["__timestamp"].to_pylist())
    assert bytes_read(reader(tables, table, 7, 7)) == 0
    assert 0 < bytes_read(reader(tables, table, 0, 700)) < bytes_read(reader(tables, table))
    if compression == "NONE":
        assert bytes_read(reader(tables, table)) > orders(0, 3_000).nbytes


def test_buckets_of_a_log_table_hold_all_rows_together(tables: FlussTables) -> None:
    table = tables.create("many_buckets", ORDERS, buckets=3)
    tables.append(table, [orders(first, first + 50) for first in range(0, 3_000, 50)])
    read = [rows(reader(tables, table, bucket=BucketKey(None, bucket))) for bucket in range(3)]
    assert [set(part["__bucket"].to_pylist()) <= {bucket} for bucket, part in enumerate(read)] == [True] * 3
    assert sorted(value for part in read for value in part["id"].to_pylist()) == list(range(3_000))


def test_the_changelog_of_a_primary_key_table_has_every_change_in_order(tables: FlussTables) -> None:
    table = tables.create("planes", ORDERS, ["id"])
    tables.upsert(table, [{"id": number, "name": "new", "price": 1.0} for number in range(3)])
    tables.upsert(table, [{"id": 1, "name": "changed", "price": 2.0}])
    tables.delete(table, [{"id": 0}])
    changes = rows(reader(tables, table)).select(["__change_type", "id", "name"]).to_pylist()
    assert [tuple(change.values()) for change in changes] == [
        *((1, number, "new") for number in range(3)),
        (2, 1, "new"),
        (3, 1, "changed"),
        (4, 0, "new"),
    ]


def test_deletes_of_what_is_not_there_use_offsets_and_make_no_rows(tables: FlussTables) -> None:
    table = tables.create("absent", ORDERS, ["id"])
    tables.delete(table, [{"id": 7}])
    tables.upsert(table, [{"id": 1, "name": "a", "price": None}])
    tables.delete(table, [{"id": 8}, {"id": 9}])
    whole = reader(tables, table)
    read = rows(whole)
    assert read["id"].to_pylist() == [1]
    assert whole.split.stopping_offset == 3
    assert read["__offset"].to_pylist() == [1]
    assert rows(reader(tables, table, 2)).num_rows == 0


ALL_TYPES: Mapping[str, tuple[pa.DataType, Any]] = {
    "b": (pa.bool_(), True),
    "i8": (pa.int8(), -128),
    "i16": (pa.int16(), 32_767),
    "i32": (pa.int32(), -(2**31)),
    "i64": (pa.int64(), 2**63 - 1),
    "f32": (pa.float32(), 1.5),
    "f64": (pa.float64(), -2.25),
    "s": (pa.string(), "hällo wörld"),
    "bytes": (pa.binary(), b"\x00\xff"),
    "small": (pa.decimal128(9, 2), decimal.Decimal("-12.34")),
    "large": (pa.decimal128(38, 5), decimal.Decimal("12345678901234567890.12345")),
    "day": (pa.date32(), date(1969, 12, 31)),
    "us": (pa.timestamp("us"), datetime(1900, 1, 2, 3, 4, 5, 678901)),
    "utc": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)),
    "numbers": (pa.list_(pa.field("element", pa.int64())), [1, None, 3]),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)]),
    "struct": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.field("element", pa.string())))]), {"x": 1, "y": ["q", None]}),
}
TYPED = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, (kind, _) in ALL_TYPES.items())])
TYPED_ROWS = [{"id": 1, **{name: value for name, (_, value) in ALL_TYPES.items()}}, {"id": 2, **dict.fromkeys(ALL_TYPES)}]


@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_every_type_is_read_from_a_log_table(tables: FlussTables, compression: str) -> None:
    table = tables.create("log_types", TYPED, properties={"table.log.arrow.compression.type": compression})
    tables.append(table, [pa.RecordBatch.from_pylist(TYPED_ROWS, schema=TYPED)])
    assert rows(reader(tables, table)).select(TYPED.names).to_pylist() == TYPED_ROWS


def test_every_type_is_read_from_a_changelog_that_the_server_wrote(tables: FlussTables) -> None:
    table = tables.create("key_types", TYPED, ["id"])
    later = [{**row, "us": row["us"] and datetime(1979, 1, 2, 3, 4, 5, 678901)} for row in TYPED_ROWS]  # pyfluss writes no earlier ones
    tables.upsert(table, [{**row, "map": row["map"] and dict(row["map"])} for row in later])
    assert rows(reader(tables, table)).select(TYPED.names).to_pylist() == later


@pytest.mark.parametrize("primary_key", [(), ("id",)])
def test_any_columns_are_read_alone(tables: FlussTables, primary_key: tuple[str, ...]) -> None:
    table = tables.create("projected", TYPED, primary_key)
    later = [{**row, "us": row["us"] and datetime(1979, 1, 2, 3, 4, 5, 678901)} for row in TYPED_ROWS]
    if primary_key:
        tables.upsert(table, [{**row, "map": row["map"] and dict(row["map"])} for row in later])
    else:
        tables.append(table, [pa.RecordBatch.from_pylist(later, schema=TYPED)])
    wider = tables.add_column(table, pa.field("note", pa.string()))
    log = reader(tables, wider)
    whole = rows(log)
    for columns in [*([name] for name in whole.schema.names), ["struct", "__offset", "i8", "note"], whole.schema.names[::-1]]:
        assert pa.Table.from_batches(list(log.read_columns(columns))) == whole.select(columns)


def test_times_of_other_units_become_microseconds(tables: FlussTables) -> None:
    coarse = pa.schema([("s", pa.timestamp("s")), ("ms", pa.timestamp("ms", "UTC")), ("many", pa.list_(pa.timestamp("ms")))])
    fine = pa.schema(
        [("s", pa.timestamp("us")), ("ms", pa.timestamp("us", "UTC")), ("many", pa.list_(pa.field("element", pa.timestamp("us"))))]
    )
    early = datetime(1900, 1, 1, 0, 0, 1)
    row = {"s": early, "ms": datetime(2026, 1, 1, 0, 0, 0, 5_000, UTC), "many": [early, None]}
    table = tables.create("units", coarse)
    tables.append(table, [pa.RecordBatch.from_pylist([row], schema=coarse)])
    as_described = TableInfo(table.table_id, table.path, table.table_type, fine, 1, table.created_at)
    assert rows(reader(tables, as_described)).select(fine.names).to_pylist() == [row]


@pytest.mark.parametrize("primary_key", [(), ("id",)])
def test_a_column_added_later_is_null_in_the_rows_before(tables: FlussTables, primary_key: tuple[str, ...]) -> None:
    table = tables.create("wider", ORDERS, primary_key)
    write = tables.upsert if primary_key else lambda table, rows: tables.append(table, [pa.RecordBatch.from_pylist(rows, table.schema)])
    write(table, [{"id": 1, "name": "a", "price": 1.0}])
    schemas = SchemaHistory(tables.client)
    assert set(schemas.of(table)) == {1}
    wider = tables.add_column(table, pa.field("note", pa.string()))
    write(wider, [{"id": 2, "name": "b", "price": 2.0, "note": "x"}])
    assert set(schemas.of(wider)) == {1, 2}
    assert rows(reader(tables, wider))["note"].to_pylist() == [None, "x"]
    with pytest.raises(SourceChanged, match=r"columns were added to sales\.wider since it was looked up: note"):
        rows(reader(tables, table))


def test_schemas_of_a_namesake_are_never_taken(tables: FlussTables) -> None:
    table = tables.create("twice", ORDERS)
    tables.create("twice", ORDERS.append(pa.field("other", pa.int32())))
    with pytest.raises(SourceChanged, match=r"sales\.twice was dropped and recreated"):
        SchemaHistory(tables.client).of(table)


def test_a_partition_is_read_until_it_is_dropped(tables: FlussTables) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    table = tables.create("by_day", schema, partition_keys=["day"])
    bucket = BucketKey(tables.add_partition(table, {"day": "2026-01-01"}), 0)
    tables.append(table, [pa.RecordBatch.from_pylist([{"id": number, "day": "2026-01-01"} for number in range(5)], schema=schema)])
    of_partition = reader(tables, table, bucket=bucket)
    assert rows(of_partition)["id"].to_pylist() == list(range(5))
    assert set(commit_times(tables, table, {bucket: 0})) == {bucket}
    tables.drop_partition(table, {"day": "2026-01-01"})
    assert "was dropped" in error_in_time(of_partition, SourceChanged)


def test_a_table_that_is_dropped_is_a_changed_source(tables: FlussTables) -> None:
    table = tables.create("short_lived", ORDERS)
    tables.append(table, [orders(0, 10)])
    of_table = reader(tables, table)
    tables.drop(table)
    assert "was dropped" in error_in_time(of_table, SourceChanged)


def test_a_range_that_the_log_does_not_have_is_refused(tables: FlussTables) -> None:
    table = tables.create("short", ORDERS)
    tables.append(table, [orders(0, 10)])
    with pytest.raises(InvalidArgument, match=r"cannot read \[0, 11\) .*, whose log ends at 10"):
        reader(tables, table, 0, 11)
    split = TieringLogSplit(table.path, BucketKey(None, 5), None, 0, 1, 1)
    with pytest.raises(InvalidArgument, match="which does not exist"):
        open_log_reader(tables.connection, table, split, None, {}, {})
    with pytest.raises(LogTruncated, match=r"starts at offset 4, after 3"):
        open_log_reader(tables.connection, table, TieringLogSplit(table.path, B0, None, 3, 9, 9), BucketOffsets(4, 10), {}, {})


def test_a_log_that_became_shorter_is_waited_for_and_then_named(tables: FlussTables) -> None:
    table = tables.create("shorter", ORDERS)
    tables.append(table, [orders(0, 10)])
    log = BucketLog(tables.client, table.path, table.table_id, B0, IMPATIENT_S)
    with pytest.raises(ClusterUnavailable, match=r"bucket 0 of sales\.shorter ends at offset 10, before 20"):
        log.fetch(10, 20, 1_000)


def read_ids(pickled: bytes) -> list[int]:
    ids: list[int] = rows(pickle.loads(pickled))["id"].to_pylist()
    return ids


def test_a_forked_process_reads_with_connections_of_its_own(tables: FlussTables) -> None:
    table = tables.create("forked", ORDERS)
    tables.append(table, [orders(0, 100)])
    pickled = pickle.dumps(reader(tables, table))
    assert read_ids(pickled) == list(range(100))
    mine = executor_client(tables.connection)
    assert executor_client(pickle.loads(pickled).connection) is mine
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(read_ids, [pickled] * 4, chunksize=1) == [list(range(100))] * 4
    assert executor_client(tables.connection) is mine
    assert read_ids(pickled) == list(range(100))


def test_a_caller_that_stops_early_waits_for_nothing(tables: FlussTables, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables.create("left", ORDERS)
    tables.append(table, [orders(0, 2_000)])
    monkeypatch.setattr(fetch, "FETCH_BYTES", 1_000)
    batches = reader(tables, table).read()
    assert next(batches).num_rows == 2_000
    batches.close()  # type: ignore[attr-defined]  # a generator


def write_segments(tables: FlussTables, name: str, properties: Mapping[str, str] | None = None) -> TableInfo:
    """A log table most of whose segments are remote."""
    table = tables.create(name, ORDERS, properties={"table.log.arrow.compression.type": "NONE", **(properties or {})})
    for first in range(0, 20_000, 1_000):
        tables.append(table, [orders(first, first + 1_000)])
    return table


def test_records_in_remote_storage_are_read_with_those_on_the_server(tables: FlussTables) -> None:
    table = write_segments(tables, "remote")
    wait_for("the log to be remote", lambda: is_remote(tables, table, 10_500))
    for start, stop in [(0, 20_000), (10_500, 19_999), (1_234, 1_235)]:
        log = reader(tables, table, start, stop)
        assert rows(log)["id"].to_pylist() == list(range(start, stop))
        projected = pa.Table.from_batches(list(log.read_columns(["price", "name"])))
        assert projected == pa.Table.from_batches([orders(start, stop)]).select(["price", "name"])
    read = rows(reader(tables, table))
    for offset in (0, 1_999, 10_500, 19_999):
        times = commit_times(tables, table, {B0: offset})
        assert times == {B0: read["__timestamp"][offset].as_py()}
    assert commit_times(tables, table, {B0: 20_000}) == {}


def test_a_remote_segment_that_is_not_there_is_named(tables: FlussTables) -> None:
    table = write_segments(tables, "lost")
    wait_for("the log to be remote", lambda: is_remote(tables, table, 0))
    info = answer_at(tables, table, 0).remote_log_fetch_info
    first = info.remote_log_segments[0]
    file = Path(info.remote_log_tablet_dir) / first.remote_log_segment_id / f"{first.remote_log_start_offset:020d}.log"
    content = bytearray(file.read_bytes())
    file.unlink()
    with pytest.raises(ClusterUnavailable, match=rf"{file} of bucket 0 of sales\.lost does not exist"):
        rows(reader(tables, table))
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataCorrupt, match=rf"{file}, bucket 0 of sales\.lost, offsets \[0, "):
        rows(reader(tables, table))


def test_a_log_whose_start_moved_is_truncated(tables: FlussTables) -> None:
    """Retention removes remote segments; the split was planned before."""
    table = write_segments(tables, "retained", {"table.log.ttl": "6 s"})
    planned = reader(tables, table)
    log = BucketLog(tables.client, table.path, table.table_id, B0)
    wait_for("the log to be cut", lambda: log.bounds().log_start > 0)
    with pytest.raises(LogTruncated, match=r"bucket 0 of sales\.retained starts at offset \d+, after 0"):
        rows(planned)
    assert commit_times(tables, table, {B0: 0}) == {}


def test_a_damaged_record_batch_of_a_server_is_named(tables: FlussTables, cluster: LocalFlussCluster) -> None:
    table = tables.create("damaged", ORDERS)
    tables.append(table, [orders(0, 100)])
    tables.append(table, [orders(100, 200)])
    (file,) = (cluster.folder / "data").rglob(f"damaged-{table.table_id}/log-0/*.log")
    whole = file.read_bytes()
    file.write_bytes(whole[:-10] + bytes([whole[-10] ^ 1]) + whole[-9:])
    with pytest.raises(DataCorrupt, match=r"checksum: 127\.0\.0\.1:\d+, bucket 0 of sales\.damaged, offsets \[100, 200\)"):
        rows(reader(tables, table))
    assert rows(reader(tables, table, 0, 100)).num_rows == 100
    file.write_bytes(whole)  # a server that starts again ends at a damaged batch


def test_many_buckets_tell_their_oldest_times_in_few_questions(tables: FlussTables) -> None:
    table = tables.create("times", ORDERS, buckets=4)
    tables.append(table, [orders(first, first + 500) for first in range(0, 10_000, 500)])
    read = {BucketKey(None, bucket): rows(reader(tables, table, bucket=BucketKey(None, bucket))) for bucket in range(4)}
    offsets = {bucket: part.num_rows // 2 for bucket, part in read.items() if part.num_rows}
    assert len(offsets) > 1
    assert commit_times(tables, table, offsets) == {
        bucket: read[bucket]["__timestamp"][offset].as_py() for bucket, offset in offsets.items()
    }


def test_a_server_that_is_killed_and_started_again_under_a_reader_loses_nothing(
    tables: FlussTables, cluster: LocalFlussCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables.create("restarted", ORDERS)
    tables.append(table, [orders(0, 5_000)])
    monkeypatch.setattr(fetch, "FETCH_BYTES", 1_000)
    chunks = fetch.log_chunks(BucketLog(tables.client, table.path, table.table_id, B0), 0, 5_000, {})
    headers = list(next(chunks).headers)
    kill_tablet_server(cluster, 0)
    cluster.tablet_servers[0].start()
    headers += [header for chunk in chunks for header in chunk.headers]
    assert (headers[0].starting_offset, headers[-1].stopping_offset) == (0, 5_000)
    assert sum(header.count for header in headers) == 5_000
    assert all(later.starting_offset == earlier.stopping_offset for earlier, later in itertools.pairwise(headers))
    cluster.wait_ready()
