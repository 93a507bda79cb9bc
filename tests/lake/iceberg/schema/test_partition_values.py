"""Partitioned lake tables: files under the right values, hundreds of partitions in one commit, markers of thousands."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo

from support.lakes.lake_kit import bucket
from tiering.errors import DataCorrupt, InvalidData
from tiering.lake.base import Committable, LakeView, WriteResult, WriterInitContext
from tiering.lake.marker import PATH_KEY, PLAIN_KEY, ZSTD_KEY, TieredRange, encode
from tiering.lake.rules.base_check import check_base
from tiering.model.tables import BucketKey, TableInfo

SCHEMA = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
    ]
)
KEYS = ("region", "day", "shard")
Values = tuple[str, date, int]


def partitioned(kit: Any, **more: Any) -> TableInfo:
    return kit.table(schema=SCHEMA, partition_keys=KEYS, bucket_count=1, **more)


def rows(kit: Any, table: TableInfo, values: Values, count: int, key: BucketKey) -> pa.RecordBatch:
    system = kit.rows(kit.table(), key, 0, count)
    columns = [pa.array([value] * count, kind.type) for value, kind in zip(values, SCHEMA, strict=False)]
    columns += [pa.array(range(count), pa.int64()), *(system.column(name) for name in ("__bucket", "__offset", "__timestamp"))]
    return pa.RecordBatch.from_arrays(columns, schema=table.lake_schema())


def name_of(values: Values) -> str:
    return "$".join(str(value) for value in values)


def write(kit: Any, table: TableInfo, view: LakeView, partition_id: int, values: Values, count: int) -> WriteResult:
    key = BucketKey(partition_id, 0)
    factory = kit.lake.tiering_factory(table)
    writer = factory.create_writer(WriterInitContext(table, view.table_uuid, key, name_of(values), "round", "n"))
    writer.write(rows(kit, table, values, count, key))
    return writer.complete(0, count)


def commit(kit: Any, table: TableInfo, results: list[WriteResult]) -> Any:
    prepared = kit.prepare(table, "round", {})
    marker = replace(prepared.marker, buckets={result.bucket: TieredRange(0, result.reached_offset) for result in results})
    committer = prepared.committer()
    committer.commit(Committable("round", tuple(results)), prepared.base, marker)
    return kit.catalog().load_table(str(table.path))


PARTITIONS: list[Values] = [
    ("north", date(2024, 2, 29), 0),
    ("north", date(1969, 12, 31), -(2**31)),
    ("south-1", date(1, 1, 1), 2**31 - 1),
    ("007", date(9999, 12, 31), 7),
]


def test_partition_values_have_the_type_of_their_column_and_find_their_rows(kit: Any) -> None:
    table = partitioned(kit)
    view = kit.lake.ensure_table(table)
    results = [write(kit, table, view, number, values, number + 1) for number, values in enumerate(PARTITIONS)]
    iceberg = commit(kit, table, results)
    partitions = [entry["partition"] for entry in iceberg.inspect.files().to_pylist()]
    wanted = [dict(zip((*KEYS, "__bucket"), (*values, 0), strict=True)) for values in PARTITIONS]
    assert sorted(partitions, key=str) == sorted(wanted, key=str)
    for number, (region, day, shard) in enumerate(PARTITIONS):
        for condition in (
            EqualTo("day", day.isoformat()),
            EqualTo("shard", shard),
            And(EqualTo("region", region), EqualTo("day", day.isoformat())),
        ):
            scan = iceberg.scan(row_filter=condition)
            assert len(list(scan.plan_files())) == 1, condition
            assert scan.to_arrow().num_rows == number + 1
    assert iceberg.scan(row_filter="region = 'north'").to_arrow().num_rows == 3


@pytest.mark.parametrize(
    "name",
    [
        None,
        "north$2024-01-31",
        *("north$20240131$1", "north$2024-1-31$1", "north$2024-W05-3$1", "north$2024-02-30$1"),
        *(f"north$2024-01-31${number}" for number in ("01", "+1", "1_0", "2147483648", " 1", "\u0663")),
    ],
)
def test_a_name_that_is_not_written_as_fluss_does_it_is_refused(kit: Any, name: str | None) -> None:
    """`01` would be a partition beside `1`, and a reader that looks for 1 finds the rows of both or of one."""
    table = partitioned(kit)
    view = kit.lake.ensure_table(table)
    with pytest.raises(InvalidData):
        kit.lake.tiering_factory(table).create_writer(WriterInitContext(table, view.table_uuid, BucketKey(1, 0), name, "round", "n"))


@pytest.mark.parametrize("wrong", [("south", date(2024, 2, 29), 0), ("north", date(2024, 3, 1), 0), ("north", date(2024, 2, 29), 1)])
def test_rows_of_another_partition_are_refused(kit: Any, wrong: Values) -> None:
    table = partitioned(kit)
    view = kit.lake.ensure_table(table)
    key = BucketKey(1, 0)
    context = WriterInitContext(table, view.table_uuid, key, name_of(PARTITIONS[0]), "round", "n")
    with pytest.raises(DataCorrupt, match=r"not north|not 2024-02-29|not 0"):
        kit.lake.tiering_factory(table).create_writer(context).write(rows(kit, table, wrong, 3, key))


def test_a_partition_column_and_a_bucket_key_together_are_laid_out_as_fluss_does_it(kit: Any) -> None:
    table = kit.table(schema=SCHEMA, partition_keys=("region",), bucket_keys=("id",), bucket_count=3)
    metadata = kit.lake.ensure_table(table).handle.metadata
    assert [(field.name, str(field.transform)) for field in metadata.spec().fields] == [("region", "identity"), ("id_bucket", "bucket[3]")]


def test_hundreds_of_partitions_come_with_one_commit(kit: Any) -> None:
    table = partitioned(kit)
    view = kit.lake.ensure_table(table)
    days = [("north", date(2024, 1, 1) + timedelta(days=number), number) for number in range(300)]
    iceberg = commit(kit, table, [write(kit, table, view, number, values, 2) for number, values in enumerate(days)])
    after = kit.view(table)
    assert (after.records, after.files, len(after.snapshots), len(after.marker.buckets)) == (600, 300, 1, 300)
    scan = iceberg.scan(row_filter=EqualTo("day", days[123][1].isoformat()))
    assert len(list(scan.plan_files())) == 1
    assert scan.to_arrow()["shard"].to_pylist() == [123, 123]


@pytest.mark.parametrize(("partitions", "key"), [(60, PLAIN_KEY), (2_000, ZSTD_KEY), (20_000, PATH_KEY)])
def test_a_marker_of_many_partitions_goes_through_a_real_commit(kit: Any, partitions: int, key: str) -> None:
    """Four buckets a partition, offsets as they are after a while. The largest is a file of its own."""
    table = kit.table(schema=SCHEMA, partition_keys=KEYS, bucket_count=4)
    numbers = random.Random(7)
    buckets = {
        BucketKey(partition, number): TieredRange(0, numbers.randrange(10**4 if key == PLAIN_KEY else 10**8))
        for partition in range(partitions)
        for number in range(4 if key != PLAIN_KEY else 1)
    }
    prepared = kit.prepare(table, "round", {})
    marker = replace(prepared.marker, buckets=buckets)
    encoded = encode(marker)
    prepared.committer().commit(prepared.committable, prepared.base, marker)
    view = kit.view(table)
    summary = view.handle.metadata.snapshot_by_id(view.head).summary.additional_properties
    assert view.marker == marker
    assert key in summary
    assert check_base(view, kit.known(table, view)).marker == marker
    size = len(encoded.overflow or "".join(encoded.properties.values()))
    assert size < len(buckets) * 12 + 1_000, f"{size} bytes for {len(buckets)} buckets"


def test_a_marker_file_lies_outside_of_the_table(kit: Any) -> None:
    """Outside of the table, an engine's orphan clean-up does not delete the file."""
    table = partitioned(kit)
    prepared = kit.prepare(table, "round", {})
    numbers = random.Random(7)
    buckets = {BucketKey(partition, 0): TieredRange(0, numbers.randrange(2**40)) for partition in range(60_000)}
    prepared.committer().commit(prepared.committable, prepared.base, replace(prepared.marker, buckets=buckets))
    (file,) = kit.folder.rglob("*.marker")
    assert file.parent == kit.folder / "lake/.lakeward" / prepared.base.table_uuid
    assert bucket(0) not in kit.view(table).marker.buckets
