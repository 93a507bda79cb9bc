"""The Python clients beside a service that means no good: an InvalidAnswer, soon, and little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from support.services.hostile import TABLE, HostileCatalog, answers, hostile_service, stream_of
from sys_tables.catalog_client import SystemCatalog
from tiering.client import LakewardClient, system_tables
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.errors import InvalidAnswer, LakewardError
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType

Service = tuple[str, HostileCatalog]
PATH = TablePath("d", "t")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with hostile_service() as server:
        yield server


@pytest.mark.parametrize("answer", [name for name in answers() if not name.startswith("too many")])
def test_an_answer_that_is_no_table_is_an_error_of_the_tree(answer: str, service: Service) -> None:
    uri, catalog = service
    catalog.answer = answer
    tracemalloc.start()
    with SystemCatalog(uri) as client, pytest.raises(InvalidAnswer):
        client.read(TABLE)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("answer", ["bytes without end", "too many bytes", "too many rows"])
def test_an_answer_has_bounds(answer: str, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_tables, "MAX_BYTES", 2 << 20)
    monkeypatch.setattr(system_tables, "MAX_ROWS", 1_000)
    uri, catalog = service
    catalog.answer = answer
    with SystemCatalog(uri) as client, pytest.raises(InvalidAnswer, match="more than"):
        client.read(TABLE)


@pytest.mark.parametrize("answer", ["huge trailers", "trailers that are no error", "ids that are arguments"])
def test_trailers_of_any_kind_are_an_error_of_the_tree(answer: str, service: Service) -> None:
    uri, catalog = service
    catalog.answer = answer
    with SystemCatalog(uri) as client, pytest.raises(LakewardError):
        client.read(TABLE)


@pytest.mark.parametrize(
    "column",
    [
        pa.FixedSizeListArray.from_arrays(pa.nulls(2**31 - 1), 2**31 - 1),
        pa.ListArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), pa.nulls(2**31 - 1)),
        pa.array(["a"]).dictionary_encode(),
        pa.array([1], pa.int64()).view(pa.duration("us")),
    ],
    ids=["fixed size list", "list", "dictionary", "duration"],
)
def test_a_column_that_no_system_table_has_is_refused_before_it_is_made(column: pa.Array) -> None:
    stream = stream_of(pa.RecordBatch.from_arrays([column], names=["c"]))
    if pa.types.is_duration(column.type):
        assert system_tables.decoded(stream).num_rows == 1
        return
    with pytest.raises(InvalidAnswer):
        system_tables.decoded(stream)


def test_what_system_tables_have_is_decoded_as_it_is() -> None:
    struct = pa.struct([("name", pa.string()), ("required", pa.bool_())])
    columns = {
        "lists": pa.array([["a", None], None, []], pa.list_(pa.string())),
        "maps": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "structs": pa.array([[{"name": "x", "required": True}], None, []], pa.list_(struct)),
        "moments": pa.array([datetime(2026, 3, 1, tzinfo=UTC), None, None], pa.timestamp("us", tz="UTC")),
        "nulls": pa.nulls(3),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    assert system_tables.decoded(stream_of(batch)).equals(pa.Table.from_batches([batch]))
    assert system_tables.decoded(stream_of(batch.slice(0, 0))).num_rows == 0


def table() -> TableInfo:
    return TableInfo(
        table_id=1,
        path=PATH,
        table_type=TableType.LOG,
        schema=pa.schema([]),
        bucket_count=1,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
        partition_keys=("day",),
    )


def statuses(uri: str) -> object:
    with LakewardClient(uri) as client:
        return client.list_tiering_statuses()


def leases(uri: str) -> object:
    with LakewardClient(uri) as client:
        return client.list_kv_snapshot_leases()


def tables(uri: str) -> object:
    with RemoteEmbeddedCluster(uri) as cluster:
        return cluster.tables()


def partitions(uri: str) -> object:
    with RemoteEmbeddedCluster(uri) as cluster:
        return cluster.partitions(table())


def segments(uri: str) -> object:
    with RemoteEmbeddedCluster(uri) as cluster:
        return cluster.reader(table(), TieringLogSplit(PATH, BucketKey(None, 0), None, 0, 10, 0))


@pytest.mark.parametrize("listing", [statuses, leases, tables, partitions, segments])
def test_a_listing_that_never_ends_is_an_error(listing: Callable[[str], object], service: Service) -> None:
    with pytest.raises(InvalidAnswer, match="never ends"):
        listing(service[0])


def test_a_time_that_cannot_be_is_an_error_of_the_tree(service: Service) -> None:
    with RemoteEmbeddedCluster(service[0]) as cluster, pytest.raises(InvalidAnswer, match="cannot be read"):
        cluster.table(PATH)
