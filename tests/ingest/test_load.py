"""Ingest: a file into a table, whole or not at all, over a real service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.clusters.embedded import scan_all, served
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import AppendedRange, Rows
from tiering.errors import InvalidArgument, InvalidData, InvalidName, ServiceUnreachable, UnknownDatabase, UnknownTable, UnsupportedType
from tiering.ingest.load import IngestOptions, ingest_files
from tiering.model.tables import BucketKey, TablePath

PATH = TablePath("nyc", "trips")
CSV = "id,city,when\n1,A,2013-01-01T10:00:00Z\n2,NA,2013-01-02T10:00:00Z\n3,C,NA\n"


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[EmbeddedStorage]:
    with EmbeddedStorage(tmp_path / "cluster") as opened:
        yield opened


@pytest.fixture
def cluster(storage: EmbeddedStorage) -> Iterator[RemoteEmbeddedCluster]:
    with served(storage) as remote:
        yield remote


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    file = tmp_path / "trips.csv"
    file.write_text(CSV)
    return file


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Enough rows for several appends."""
    file = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"n": range(1_000_000), "m": range(1_000_000)}), file)
    return file


def test_a_new_table_gets_the_files_columns_and_the_options(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    result = ingest_files(cluster, PATH, [str(csv)], IngestOptions(buckets=2, bucket_keys=("id",), freshness="30 s"))

    table = cluster.table(PATH)
    assert result.table == table
    assert (result.created, result.rows) == (True, 3)
    assert table.schema == pa.schema([pa.field("id", pa.int64(), False), ("city", pa.string()), ("when", pa.timestamp("us", "UTC"))])
    assert (table.bucket_count, table.bucket_keys, table.lake_enabled, table.freshness_ms) == (2, ("id",), True, 30_000)
    assert sorted(scan_all(cluster, table)["id"].to_pylist()) == [1, 2, 3]
    assert sum(stop - start for start, stop in result.ranges.values()) == 3


def test_a_table_may_be_made_without_a_lake(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    assert not ingest_files(cluster, PATH, [str(csv)], IngestOptions(lake=False)).table.lake_enabled


SALES = "id,region,year,day\n1,eu,2023,2024-01-31\n2,us,2023,2024-01-31\n3,eu,2024,2024-02-01\n"


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_a_new_table_is_partitioned_by_the_columns_named(cluster: RemoteEmbeddedCluster, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"sales.{ending}"
    rows = [{"id": 1, "region": "eu", "year": 2023}, {"id": 2, "region": "us", "year": 2023}, {"id": 3, "region": "eu", "year": 2024}]
    if ending == "csv":
        file.write_text(SALES)
    elif ending == "ndjson":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)

    options = IngestOptions(buckets=2, partition_by=("region", "year"))
    result = ingest_files(cluster, PATH, [str(file)], options)

    table = cluster.table(PATH)
    assert table.partition_keys == ("region", "year")
    assert table.schema.field("year") == pa.field("year", pa.int32(), nullable=False)
    partitions = cluster.partitions(table)
    assert {partition.partition_name for partition in partitions} == {"eu$2023", "us$2023", "eu$2024"}
    assert {bucket.partition_id for bucket in result.ranges} == {partition.partition_id for partition in partitions}
    assert ingest_files(cluster, PATH, [str(file)], options).rows == 3
    assert sorted(scan_all(cluster, table)["id"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    with pytest.raises(InvalidArgument, match="partition columns"):
        ingest_files(cluster, PATH, [str(file)], IngestOptions(partition_by=("region",)))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("9,a$b,1,2024-01-31", r"line 5: .*'region'.*a\$b"),
        ("9,NA,1,2024-01-31", "line 5: .*'region'"),
        ("9,eu,3000000000,2024-01-31", "line 5: .*'year'"),
    ],
)
def test_a_value_that_cannot_name_a_partition_is_found_before_a_row_is_published(
    cluster: RemoteEmbeddedCluster, tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "sales.csv"
    file.write_text(SALES + line + "\n")
    with pytest.raises(InvalidData, match=reason):
        ingest_files(cluster, PATH, [str(file)], IngestOptions(partition_by=("region", "year")))
    assert cluster.tables() == []


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_columns_that_the_table_lacks_are_added_only_if_told_to(
    cluster: RemoteEmbeddedCluster, tmp_path: Path, csv: Path, ending: str
) -> None:
    before = ingest_files(cluster, PATH, [str(csv)]).table
    rows = [{"id": 4, "tip": 1.5, "city": "D", "when": "2013-01-01T10:00:00Z", "note": "2013-01-01"}]
    file = tmp_path / f"more.{ending}"
    if ending == "csv":
        file.write_text(",".join(rows[0]) + "\n" + ",".join(map(str, rows[0].values())) + "\n")
    elif ending == "ndjson":
        file.write_text(json.dumps(rows[0]) + "\n")
    else:
        table = pa.Table.from_pylist(rows)
        columns = {name: table[name] for name in table.column_names}
        columns["when"], columns["note"] = table["when"].cast(pa.timestamp("us", "UTC")), table["note"].cast(pa.date32())
        pq.write_table(pa.table(columns), file)

    with pytest.raises(InvalidData, match="no column 'tip'"):
        ingest_files(cluster, PATH, [str(file)])
    assert cluster.table(PATH) == before

    result = ingest_files(cluster, PATH, [str(file)], IngestOptions(add_columns=True, writer_id="again"))
    ingest_files(cluster, PATH, [str(file)], IngestOptions(add_columns=True, writer_id="again"))
    ingest_files(cluster, PATH, [str(csv)])  # an older file goes on without them

    assert result.table.schema == pa.schema([*before.schema, ("tip", pa.float64()), ("note", pa.date32())])
    assert result.table.added_columns == ("tip", "note")
    rows = scan_all(cluster, cluster.table(PATH))
    assert rows["id"].to_pylist() == [1, 2, 3, 4, 1, 2, 3]
    assert rows["tip"].to_pylist() == [None, None, None, 1.5, None, None, None]
    assert rows["note"].to_pylist() == [None, None, None, date(2013, 1, 1), None, None, None]


def test_a_broken_file_adds_no_column(cluster: RemoteEmbeddedCluster, tmp_path: Path, csv: Path) -> None:
    before = ingest_files(cluster, PATH, [str(csv)]).table
    file = tmp_path / "more.csv"
    file.write_text("id,city,when,tip\n4,D,NA,1.5\nx,D,NA,1.5\n")
    with pytest.raises(InvalidData, match="line 3"):
        ingest_files(cluster, PATH, [str(file)], IngestOptions(add_columns=True))
    assert cluster.table(PATH) == before


def test_a_second_file_is_appended_to_the_table_as_it_is(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    ingest_files(cluster, PATH, [str(csv)])
    csv.write_text("when,id,city\n2014-01-01T00:00:00Z,4,D\n")

    result = ingest_files(cluster, PATH, [str(csv)])

    assert (result.created, result.ranges) == (False, {BucketKey(None, 0): (3, 4)})
    assert scan_all(cluster, result.table)["id"].to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (IngestOptions(buckets=3), "buckets = 1, not 3"),
        (IngestOptions(bucket_keys=("id",)), "bucket keys"),
        (IngestOptions(lake=False), "lake enabled = True, not False"),
        (IngestOptions(freshness="1 s"), "freshness = 3 min, not 1 s"),
    ],
)
def test_options_that_contradict_an_existing_table_are_refused(
    cluster: RemoteEmbeddedCluster, csv: Path, options: IngestOptions, reason: str
) -> None:
    table = ingest_files(cluster, PATH, [str(csv)]).table
    with pytest.raises(InvalidArgument, match=reason):
        ingest_files(cluster, PATH, [str(csv)], options)
    assert scan_all(cluster, table).num_rows == 3


def test_the_same_options_again_are_fine(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    options = IngestOptions(buckets=2, bucket_keys=("id",), freshness="60 s", lake=True)
    for _ in range(2):
        table = ingest_files(cluster, PATH, [str(csv)], options).table
    assert scan_all(cluster, table).num_rows == 6


def test_without_create_a_missing_table_is_an_error(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    with pytest.raises(UnknownDatabase):
        ingest_files(cluster, PATH, [str(csv)], IngestOptions(create=False))
    cluster.create_database("nyc")
    with pytest.raises(UnknownTable):
        ingest_files(cluster, PATH, [str(csv)], IngestOptions(create=False))
    assert cluster.tables() == []


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        (CSV + "4,D\n", IngestOptions(), InvalidData),
        (CSV, IngestOptions(freshness="soon"), InvalidArgument),
        (CSV, IngestOptions(bucket_keys=("nothing",)), InvalidArgument),
        (CSV, IngestOptions(bucket_keys=("city",)), InvalidData),
        (CSV, IngestOptions(buckets=0), InvalidArgument),
        (CSV, IngestOptions(partition_by=("nothing",)), InvalidArgument),
        (CSV, IngestOptions(partition_by=("city",)), InvalidData),
        ("x,flag\n1.5,true\n", IngestOptions(partition_by=("flag",)), UnsupportedType),
        ("x,flag\n1.5,true\n", IngestOptions(bucket_keys=("x",)), UnsupportedType),
    ],
)
def test_nothing_is_published_when_something_is_wrong(
    cluster: RemoteEmbeddedCluster, csv: Path, text: str, options: IngestOptions, error: type[Exception]
) -> None:
    csv.write_text(text)
    with pytest.raises(error):
        ingest_files(cluster, PATH, [str(csv)], options)
    assert cluster.tables() == []


def test_a_broken_row_at_the_end_leaves_an_existing_table_as_it_was(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    table = ingest_files(cluster, PATH, [str(csv)]).table
    csv.write_text(CSV + "four,D,NA\n")
    with pytest.raises(InvalidData, match="line 5: column 'id': 'four'"):
        ingest_files(cluster, PATH, [str(csv)])
    assert scan_all(cluster, table).num_rows == 3


@pytest.mark.parametrize("name", ["../x", "a b", "'; DROP", "x" * 201])
def test_bad_names_are_refused_before_the_file_is_touched(cluster: RemoteEmbeddedCluster, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidName):
        ingest_files(cluster, TablePath("nyc", name), [str(tmp_path / "missing.csv")])
    with pytest.raises(InvalidName):
        ingest_files(cluster, TablePath(name, "trips"), [str(tmp_path / "missing.csv")])


def test_progress_grows_to_the_number_of_rows(cluster: RemoteEmbeddedCluster, numbers: Path) -> None:
    calls: list[tuple[int, int]] = []
    ingest_files(cluster, PATH, [str(numbers)], progress=lambda rows, total: calls.append((rows, total)))
    assert calls == sorted(calls)
    assert len(calls) > 1
    assert calls[-1] == (1_000_000, 1_000_000)


def test_a_file_without_rows_makes_an_empty_table_of_the_columns_that_are_named(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    csv.write_text("id,city\n")
    with pytest.raises(InvalidData, match="has no rows, so the types of its columns are unknown"):
        ingest_files(cluster, PATH, [str(csv)])
    assert cluster.databases() == []
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    result = ingest_files(cluster, PATH, [str(csv)], IngestOptions(schema=schema))
    assert (result.rows, result.batches, result.ranges) == (0, 0, {})
    assert cluster.offsets(result.table)[BucketKey(None, 0)].log_end == 0


class Interrupted:
    """A cluster whose service goes away after some appends; the last one landed, its answer was lost."""

    def __init__(self, cluster: RemoteEmbeddedCluster, appends: int) -> None:
        self._cluster = cluster
        self._left = appends

    def __getattr__(self, name: str) -> object:
        return getattr(self._cluster, name)

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        ranges = self._cluster.append(path, rows, writer_id, sequence)
        self._left -= 1
        if self._left == 0:
            raise ServiceUnreachable("gone", hint="Start it.")
        return ranges


@pytest.mark.parametrize("appends", [1, 3])
def test_an_interrupted_ingest_goes_on_under_its_writer_id(cluster: RemoteEmbeddedCluster, numbers: Path, appends: int) -> None:
    with pytest.raises(ServiceUnreachable) as error:
        ingest_files(Interrupted(cluster, appends), PATH, [str(numbers)])  # type: ignore[arg-type]
    writer_id = error.value.hint.split("--writer-id ")[1].split()[0]

    result = ingest_files(cluster, PATH, [str(numbers)], IngestOptions(writer_id=writer_id))

    rows = scan_all(cluster, result.table)
    assert rows["n"].to_pylist() == list(range(1_000_000))


def test_a_new_table_gets_the_options_that_are_named(cluster: RemoteEmbeddedCluster, csv: Path) -> None:
    options = IngestOptions(table_options={"table.log.ttl": "7 d", "table.datalake.freshness": "1 min"})
    assert ingest_files(cluster, PATH, [str(csv)], options).table.properties.items() >= options.table_options.items()
    with pytest.raises(InvalidArgument, match="exists already, and --option is only for a new table") as raised:
        ingest_files(cluster, PATH, [str(csv)], options)
    assert f"lakeward set-option {PATH} NAME=VALUE" in raised.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (IngestOptions(table_options={"table.colour": "red"}), "unknown table option 'table.colour'"),
        (IngestOptions(table_options={"datalake.freshnes": "1 min"}), "there is no table option 'datalake.freshnes'"),
        (IngestOptions(table_options={"tabel.log.ttl": "7 d"}), "there is no table option 'tabel.log.ttl'"),
        (IngestOptions(table_options={"table.log.ttl": "soon"}), "'soon' is not a valid value of table.log.ttl"),
        (IngestOptions(table_options={"iceberg.write.data.path": "/x"}), "iceberg.write.data.path"),
        (IngestOptions(table_options={"table.datalake.enabled": "false"}, lake=True), "--lake and --option table.datalake.enabled"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_made(
    cluster: RemoteEmbeddedCluster, csv: Path, options: IngestOptions, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ingest_files(cluster, PATH, [str(csv)], options)
    assert cluster.databases() == []


def test_several_files_are_one_load_that_can_be_repeated(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("n\n" + "".join(f"{number * 1_000 + row}\n" for row in range(1_000)))
    with pytest.raises(ServiceUnreachable) as error:
        ingest_files(Interrupted(cluster, 2), PATH, [f"{tmp_path}/*.csv"])  # type: ignore[arg-type]
    assert "2000 rows" not in error.value.hint
    assert "At least 1000 of 3000 rows were written" in error.value.hint
    writer_id = error.value.hint.split("--writer-id ")[1].split()[0]
    result = ingest_files(cluster, PATH, [f"{tmp_path}/*.csv"], IngestOptions(writer_id=writer_id))
    assert scan_all(cluster, result.table)["n"].to_pylist() == list(range(3_000))


def test_a_schema_and_types_make_the_columns_of_a_new_table_and_agree_with_one_that_exists(
    cluster: RemoteEmbeddedCluster, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    file.write_text("zip,id\n00501,1\n")
    schema = pa.schema([("id", pa.int32()), ("zip", pa.string())])
    table = ingest_files(cluster, PATH, [str(file)], IngestOptions(schema=schema, primary_key=("id",))).table
    assert table.schema == pa.schema([pa.field("id", pa.int32(), nullable=False), ("zip", pa.string())])
    ingest_files(cluster, PATH, [str(file)], IngestOptions(schema=schema))
    with pytest.raises(InvalidArgument, match="has the column 'id' as int32, not int64"):
        ingest_files(cluster, PATH, [str(file)], IngestOptions(types={"id": pa.int64()}))
    file.write_text("zip,id,tip,n\n00501,1,0.50,007\n")
    options = IngestOptions(add_columns=True, types={"tip": pa.float64()})
    result = ingest_files(cluster, PATH, [str(file)], options)
    assert result.table.schema == pa.schema([*table.schema, ("tip", pa.float64()), ("n", pa.string())])
    assert set(result.text_reasons) == {"n"}


def test_a_partition_column_has_the_type_that_is_named(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,year\n1,2024\n")
    options = IngestOptions(partition_by=("year",), types={"year": pa.string()})
    assert ingest_files(cluster, PATH, [str(file)], options).table.schema.field("year") == pa.field("year", pa.string(), nullable=False)
