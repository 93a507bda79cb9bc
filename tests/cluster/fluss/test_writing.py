"""Writing to a real Fluss cluster: tables, partitions, columns, rows of both kinds; and what it says of wrong input."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fluss as fluss_client
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.main import app
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.writing import native_client
from tiering.cluster.fluss.writing.native_client import NativeClient
from tiering.cluster.fluss.writing.writer import FlussWriter, fluss_writer
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import AppendedRange, TableSpec, WritableCluster
from tiering.errors import (
    AlreadyExists,
    ClusterUnavailable,
    InvalidArgument,
    InvalidData,
    LakewardError,
    SetupError,
    UnknownDatabase,
    UnknownPartition,
    UnknownTable,
    UnsupportedType,
)
from tiering.model.schema.changes import additions
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

NAMES = itertools.count(1)
PLACES = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def writer(fluss: LocalFlussCluster) -> Iterator[FlussWriter]:
    with fluss_writer(FlussConnection.parse(fluss.bootstrap_servers)) as writer:
        writer.create_database("written", ignore_if_exists=True)
        yield writer


@pytest.fixture
def path() -> TablePath:
    return TablePath("written", f"places{next(NAMES)}")


def records(ranges: Sequence[AppendedRange]) -> int:
    return sum(appended.stopping_offset - appended.starting_offset for appended in ranges)


def test_it_is_a_writable_cluster(writer: FlussWriter) -> None:
    assert isinstance(writer, WritableCluster)
    assert not writer.remembers_writers


def test_rows_are_appended_and_their_ranges_are_what_the_log_grew_by(writer: FlussWriter, path: TablePath) -> None:
    table = writer.create_table(path, TableSpec(PLACES, 3, properties={"table.datalake.freshness": "30 s"}))
    assert (table.schema, table.bucket_count, table.freshness_ms) == (PLACES, 3, 30_000)

    first = writer.append(path, pa.table({"id": range(1_000), "name": ["x"] * 1_000}), "w", 0)
    assert records(first) == 1_000
    assert records(writer.append(path, pa.table({"id": [1]}), "w", 1)) == 1
    assert writer.append(path, PLACES.empty_table(), "w", 2) == []


def test_a_large_write_is_one_write_and_goes_to_all_buckets(writer: FlussWriter, path: TablePath) -> None:
    writer.create_table(path, TableSpec(PLACES, 2))
    log = LogWriter(writer, path, "w")
    ranges = log.append(pa.table({"id": range(40_000), "name": ["x" * 300] * 40_000}))
    assert (log.sequence, records(ranges), len(ranges)) == (1, 40_000, 2)


@contextmanager
def native_client_of(fluss: LocalFlussCluster) -> Iterator[NativeClient]:
    """One that is connected."""
    native = NativeClient(FlussConnection.parse(fluss.bootstrap_servers))
    native.create_database("written", True)
    yield native
    native.close()


class DroppingConnection:
    """pyfluss's connection; each table that it opens is gone when it is written to."""

    def __init__(self, connection: Any, drop: Callable[[], None]) -> None:
        self._connection, self._drop = connection, drop

    async def get_table(self, path: Any) -> Any:
        table = await self._connection.get_table(path)
        await asyncio.to_thread(self._drop)
        return table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("primary_key", [(), ("id",)])
def test_rows_that_a_server_refuses_are_an_error(
    fluss: LocalFlussCluster, writer: FlussWriter, path: TablePath, primary_key: tuple[str, ...]
) -> None:
    """pyfluss's `flush` alone says nothing of them."""
    table = writer.create_table(path, TableSpec(PLACES, 1, primary_key=primary_key))
    rows = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", "b"]}, schema=PLACES)
    client = FlussClient(FlussConnection.parse(fluss.bootstrap_servers))
    tablet_server = client.leader_of(path, table.table_id, BucketKey(None, 0))

    def is_gone() -> bool:
        question = pb.ListOffsetsRequest(follower_server_id=-1, offset_type=1, table_id=table.table_id, bucket_id=[0])
        return bool(client.call(tablet_server, question).buckets_resp[0].error_code)

    def drop() -> None:
        writer.drop_table(path)
        wait_for("the tablet server hears that the table is gone", is_gone)

    with native_client_of(fluss) as native:
        native._connection = DroppingConnection(native._connection, drop)
        with pytest.raises(UnknownTable):
            native.upsert(path, rows) if primary_key else native.append(path, [rows])
    client.close()


@pytest.mark.parametrize("primary_key", [(), ("name", "id")])
def test_what_was_made_anew_under_its_name_gets_its_rows_at_once(
    fluss: LocalFlussCluster, writer: FlussWriter, path: TablePath, primary_key: tuple[str, ...]
) -> None:
    """pyfluss still sends rows to the partition, or the table, of that name that another client has recreated."""
    spec = TableSpec(PLACES, 1, primary_key=primary_key, partition_keys=("name",))
    rows = pa.table({"id": [1, 2], "name": ["a", "a"]})
    write = writer.upsert if primary_key else writer.append
    writer.create_table(path, spec)
    with fluss_writer(FlussConnection.parse(fluss.bootstrap_servers)) as other:
        assert records(write(path, rows, "w", 0)) == 2
        other.drop_partition(path, "a")
        assert records(write(path, rows, "w", 1)) == 2
        other.drop_table(path)
        other.create_table(path, spec)
        assert records(write(path, rows, "w", 2)) == 2
    assert [offsets.log_end for offsets in writer.offsets(writer.table(path)).values()] == [2]


def test_of_a_key_that_comes_several_times_the_last_row_counts(writer: FlussWriter, path: TablePath) -> None:
    table = writer.create_table(path, TableSpec(PLACES, 1, primary_key=("id",)))
    ranges = writer.upsert(path, pa.table({"id": [1, 2, 1, 1], "name": ["a", "b", "c", "d"]}), "w", 0)
    assert records(ranges) == 2
    split = TieringLogSplit(path, BucketKey(None, 0), None, 0, 2, 2)
    rows = [row for batch in writer.reader(table, split).read() for row in batch.to_pylist()]
    assert [(row["id"], row["name"]) for row in rows] == [(2, "b"), (1, "d")]


class RefusingWriter:
    """pyfluss's writer of upserts and deletes, whose `refused`th change a server refuses while it takes all others."""

    def __init__(self, writer: Any, refused: int) -> None:
        self._writer, self._left = writer, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name) if name == "flush" else self._change

    def _change(self, row: tuple[Any, ...]) -> Any:
        handle = self._writer.upsert(row)
        self._left -= 1
        return self if self._left == 0 else handle

    async def wait(self) -> None:
        raise fluss_client.FlussError("Invalid schema id 2", 1)


class WrappedConnection:
    """pyfluss's connection whose tables' writers are wrapped."""

    def __init__(self, connection: Any, wrapped: Callable[[Any], Any]) -> None:
        self._connection, self._wrapped = connection, wrapped

    async def get_table(self, path: Any) -> Any:
        table = await self._connection.get_table(path)
        upserting = SimpleNamespace(create_writer=lambda: self._wrapped(table.new_upsert().create_writer()))
        appending = SimpleNamespace(create_writer=lambda: self._wrapped(table.new_append().create_writer()))
        return SimpleNamespace(new_upsert=lambda: upserting, new_append=lambda: appending, arrow_schema=table.arrow_schema)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_single_change_that_is_refused_is_an_error(fluss: LocalFlussCluster, writer: FlussWriter, path: TablePath) -> None:
    """Buckets are refused one by one, and one of them may have a single row of a large write. A server does that by itself in the moment
    in which it has not heard of a new column; here the answer is exchanged.
    """
    writer.create_table(path, TableSpec(PLACES, 4, primary_key=("id",)))
    rows = pa.RecordBatch.from_pydict({"id": list(range(400)), "name": ["a"] * 400}, schema=PLACES)
    with native_client_of(fluss) as native:
        connection = native._connection
        native._connection = WrappedConnection(connection, lambda writer: RefusingWriter(writer, 6))
        with pytest.raises(LakewardError, match="Invalid schema id"):
            native.upsert(path, rows)
        native._connection = connection
    assert records(writer.upsert(path, pa.table({"id": range(400, 20_800), "name": ["a"] * 20_400}), "w", 0)) == 20_400


def test_a_connection_whose_answers_fail_to_come_is_left(
    fluss: LocalFlussCluster, writer: FlussWriter, path: TablePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyfluss waits without end for a row whose partition is gone, and with every later flush of the connection again."""
    table = writer.create_table(path, TableSpec(PLACES, 1, primary_key=("id", "name"), partition_keys=("name",)))
    rows = pa.RecordBatch.from_pydict({"id": [1], "name": ["gone"]}, schema=PLACES)
    with native_client_of(fluss) as native:
        monkeypatch.setattr(native_client, "_FLUSH_SECONDS", 1.0)
        with pytest.raises(ClusterUnavailable, match="did not answer within 1 s"):
            native.upsert(path, rows)
        monkeypatch.undo()
        native.create_partition(table.path, {"name": "there"})
        native.upsert(path, pa.RecordBatch.from_pydict({"id": [1], "name": ["there"]}, schema=PLACES))


def test_rows_go_to_buckets_by_their_key(writer: FlussWriter, path: TablePath) -> None:
    writer.create_table(path, TableSpec(PLACES, 4, bucket_keys=("id",)))
    ranges = writer.append(path, pa.table({"id": range(1_000), "name": ["x"] * 1_000}), "w", 0)
    assert records(ranges) == 1_000
    assert len(ranges) == 4


class ForgetfulWriter:
    """pyfluss's writer of a log table, whose answer covers one row less than it was asked to write."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def write_arrow_batch(self, batch: pa.RecordBatch) -> Any:
        return self._writer.write_arrow_batch(batch.slice(1))


def test_rows_that_no_bucket_has_after_all_are_an_error(fluss: LocalFlussCluster, path: TablePath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of one batch go to several buckets, and one answer comes for it; whether that covers each of them pyfluss does not say."""
    with fluss_writer(FlussConnection.parse(fluss.bootstrap_servers)) as writer:
        writer.create_table(path, TableSpec(PLACES, 4, bucket_keys=("id",)))
        rows = pa.table({"id": range(100), "name": ["x"] * 100})
        assert records(writer.append(path, rows, "w", 0)) == 100
        monkeypatch.setattr("tiering.cluster.fluss.writing.writer.GROWTH_SECONDS", 0.3)
        native = writer._native
        native._connection = WrappedConnection(native._connection, ForgetfulWriter)
        with pytest.raises(ClusterUnavailable, match=f"1 of 100 rows are not in {path}"):
            writer.append(path, rows, "w", 1)


def test_of_a_new_table_that_gets_no_leader_it_is_said_what_helps(
    writer: FlussWriter, path: TablePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_leader(table: TableInfo) -> None:
        raise ClusterUnavailable(f"bucket 0 of {table.path} has no leader now", hint="It gets one.")

    monkeypatch.setattr("tiering.cluster.fluss.writing.writer.READY_SECONDS", 0.3)
    monkeypatch.setattr(writer, "offsets", without_leader)
    with pytest.raises(ClusterUnavailable, match=f"bucket 0 of {path} has no leader") as overlooked:
        writer.create_table(path, TableSpec(PLACES, 1))
    assert "restart Fluss's coordinator" in overlooked.value.hint


def test_upserts_and_deletes_are_logged_as_changes(writer: FlussWriter, path: TablePath) -> None:
    writer.create_table(path, TableSpec(PLACES, 1, primary_key=("id",)))
    assert records(writer.upsert(path, pa.table({"id": [1, 2], "name": ["a", "b"]}), "w", 0)) == 2
    assert records(writer.upsert(path, pa.table({"id": [1], "name": ["c"]}), "w", 1)) == 2
    assert records(writer.delete(path, pa.table({"id": [2]}), "w", 2)) == 1
    with pytest.raises(InvalidArgument, match="has a primary key"):
        writer.append(path, pa.table({"id": [1], "name": ["x"]}), "w", 3)


def test_partitions_are_made_with_their_first_row_and_can_be_dropped(writer: FlussWriter, path: TablePath) -> None:
    schema = pa.schema([*PLACES, ("region", pa.string())])
    table = writer.create_table(path, TableSpec(schema, 1, partition_keys=("region",)))
    ranges = writer.append(path, pa.table({"id": [1, 2, 3], "name": ["a"] * 3, "region": ["eu", "us", "eu"]}), "w", 0)
    names = {partition.partition_id: partition.partition_name for partition in writer.partitions(table)}
    assert {names[appended.bucket.partition_id or 0]: appended.stopping_offset for appended in ranges} == {"eu": 2, "us": 1}
    writer.drop_partition(path, "us")
    assert [partition.partition_name for partition in writer.partitions(table)] == ["eu"]
    with pytest.raises(UnknownPartition):
        writer.drop_partition(path, "us")


def test_columns_are_added_behind_the_others_and_a_repeat_does_no_harm(writer: FlussWriter, path: TablePath) -> None:
    writer.create_table(path, TableSpec(PLACES, 1))
    nested = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.list_(pa.field("element", pa.string())))])
    added = [pa.field("price", pa.decimal128(10, 2)), pa.field("seen_at", pa.timestamp("us", "UTC")), pa.field("nested", nested)]
    for _ in range(2):
        table = writer.alter_table(path, {"table.datalake.freshness": "5 min"}, additions(added))
        assert table.schema == pa.schema([*PLACES, *added])
        assert table.freshness_ms == 300_000
    rows = pa.table({"id": [1], "price": pa.array([Decimal("1.25")], pa.decimal128(10, 2))})
    assert records(writer.append(path, rows, "w", 0)) == 1
    with pytest.raises(InvalidArgument, match="NOT NULL"):
        writer.alter_table(path, {}, additions([pa.field("strict", pa.int8(), nullable=False)]))
    with pytest.raises(InvalidArgument, match="of type int64, not"):
        writer.alter_table(path, {}, additions([pa.field("id", pa.string())]))
    with pytest.raises(InvalidArgument, match="cannot alter"):
        writer.alter_table(path, {"table.log.ttl": "1 d"})
    with pytest.raises(InvalidArgument, match="does not keep"):
        writer.alter_table(path, {"iceberg.comment": "x"})


def test_what_is_wrong_is_named(writer: FlussWriter, path: TablePath) -> None:
    writer.create_table(path, TableSpec(PLACES, 1))
    with pytest.raises(AlreadyExists):
        writer.create_table(path, TableSpec(PLACES, 1))
    writer.create_table(path, TableSpec(PLACES, 1), ignore_if_exists=True)
    with pytest.raises(AlreadyExists):
        writer.create_database("written")
    with pytest.raises(UnknownDatabase):
        writer.create_table(TablePath("nowhere", "places"), TableSpec(PLACES, 1))
    with pytest.raises(UnsupportedType, match="'id' has type uint8"):
        writer.create_table(TablePath("written", "unsigned"), TableSpec(pa.schema([("id", pa.uint8())]), 1))
    with pytest.raises(InvalidArgument, match=r"table\.nonsense"):
        writer.create_table(TablePath("written", "nonsense"), TableSpec(PLACES, 1, properties={"table.nonsense": "1"}))
    with pytest.raises(InvalidData, match="'nope'"):
        writer.append(path, pa.table({"nope": [1]}), "w", 0)
    writer.drop_table(path)
    with pytest.raises(UnknownTable):
        writer.drop_table(path)


def test_the_size_of_a_round_is_kept_by_fluss_and_a_wrong_one_is_refused_here(writer: FlussWriter, path: TablePath) -> None:
    with pytest.raises(InvalidArgument, match=r"table\.datalake\.round\.bytes is 'much'"):
        writer.create_table(path, TableSpec(PLACES, 1, properties={"table.datalake.round.bytes": "much"}))
    writer.create_table(path, TableSpec(PLACES, 1, properties={"table.datalake.round.bytes": "64 mb"}))
    assert writer.table(path).round_bytes == 64 << 20


def test_a_file_is_ingested_into_fluss(fluss: LocalFlussCluster, writer: FlussWriter, path: TablePath, tmp_path: Path) -> None:
    file = tmp_path / "places.csv"
    file.write_text("id,name\n1,Aachen\n2,Bonn\n")
    words = ["ingest", str(path), str(file), "--fluss", fluss.bootstrap_servers, "--freshness", "30 s"]
    ended = CliRunner().invoke(app, [*words, "--primary-key", "id"], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    assert "2 rows upserted" in ended.output
    table = writer.table(path)
    assert (table.primary_key, table.lake_enabled, table.freshness_ms) == (("id",), True, 30_000)


def test_without_pyfluss_it_is_said_what_to_install(fluss: LocalFlussCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fluss", None)
    native = native_client.NativeClient(FlussConnection.parse(fluss.bootstrap_servers))
    with pytest.raises(SetupError, match="pyfluss") as caught:
        native.create_database("x", True)
    assert "[fluss]" in caught.value.hint
