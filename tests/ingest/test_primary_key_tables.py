"""`lakeward ingest` of primary-key tables: files of rows are upserted, files of keys deleted, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.changelog import SIGNS
from support.clusters.embedded import PATH, LoopbackServer, scan_all
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import InvalidArgument, InvalidData, UnknownTable, UnsupportedType
from tiering.ingest.load import IngestOptions, ingest_files
from tiering.model.tables import TableInfo

PLANES = "tail,year,model\nN1,2004,A320\nN2,NA,B737\nN1,2005,A321\n"
KEY_TAIL = IngestOptions(primary_key=("tail",), buckets=2)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LoopbackServer]:
    with EmbeddedStorage(tmp_path / "cluster") as storage:
        server = LoopbackServer(storage)
        yield server
        server.stop()


@pytest.fixture
def cluster(server: LoopbackServer) -> Iterator[RemoteEmbeddedCluster]:
    with RemoteEmbeddedCluster(server.uri) as remote:
        yield remote


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def logged(cluster: RemoteEmbeddedCluster, table: TableInfo) -> list[tuple[str, str, int | None]]:
    rows = scan_all(cluster, table).sort_by([("tail", "ascending"), ("__offset", "ascending")]).to_pylist()
    return [(SIGNS[row["__change_type"]], row["tail"], row["year"]) for row in rows]


def test_rows_are_upserted_and_keys_deleted(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    result = ingest_files(cluster, PATH, [str(written(tmp_path, "planes.csv", PLANES))], KEY_TAIL)
    assert (result.table.primary_key, result.table.bucket_keys, result.rows, result.records) == (("tail",), ("tail",), 3, 2)
    again = ingest_files(cluster, PATH, [str(written(tmp_path, "more.csv", "tail,year,model\nN2,1999,B737\nN3,2001,C\n"))])
    assert (again.created, again.rows, again.records) == (False, 2, 3)
    gone = ingest_files(cluster, PATH, [str(written(tmp_path, "gone.csv", "tail\nN1\nN9\n"))], IngestOptions(deletes=True))
    assert (gone.rows, gone.records, gone.deletes) == (2, 1, True)
    assert logged(cluster, result.table) == [
        ("+I", "N1", 2005),
        ("-D", "N1", 2005),
        ("+I", "N2", None),
        ("-U", "N2", None),
        ("+U", "N2", 1999),
        ("+I", "N3", 2001),
    ]


def test_a_repeated_run_changes_nothing(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    file = written(tmp_path, "planes.csv", PLANES)
    first = ingest_files(cluster, PATH, [str(file)], KEY_TAIL)
    assert ingest_files(cluster, PATH, [str(file)], IngestOptions(writer_id=first.writer_id)).ranges == first.ranges
    assert len(logged(cluster, first.table)) == 2


def test_a_partitioned_primary_key_table(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    file = written(tmp_path, "planes.csv", "year,tail\n2004,N1\n2005,N1\n2004,N2\n")
    options = IngestOptions(primary_key=("year", "tail"), partition_by=("year",))
    table = ingest_files(cluster, PATH, [str(file)], options).table
    assert (table.bucket_keys, [partition.partition_name for partition in cluster.partitions(table)]) == (("tail",), ["2004", "2005"])
    ingest_files(cluster, PATH, [str(written(tmp_path, "gone.ndjson", '{"tail": "N1", "year": 2005}\n'))], IngestOptions(deletes=True))
    assert logged(cluster, table) == [("+I", "N1", 2004), ("+I", "N1", 2005), ("-D", "N1", 2005), ("+I", "N2", 2004)]


@pytest.mark.parametrize(
    ("text", "options", "error", "reason"),
    [
        ("tail,year\nN1,1\n,2\n", IngestOptions(primary_key=("tail",)), InvalidData, "line 3: column 'tail'"),
        ("tail,year\nN1,1.5\n", IngestOptions(primary_key=("year",)), UnsupportedType, "'year' of type double cannot be part of"),
        ("tail,new\nN1,true\n", IngestOptions(primary_key=("new",)), UnsupportedType, "'new' of type bool cannot be part of"),
        ("tail,new\nN1,true\n", IngestOptions(bucket_keys=("new",)), UnsupportedType, "'new' of type bool cannot be a bucket key"),
        ("tail,year\nN1,1\n", IngestOptions(primary_key=("town",)), InvalidArgument, "'town' is not a column"),
        ("tail,year\nN1,1\n", IngestOptions(primary_key=("tail",), partition_by=("year",)), InvalidArgument, "'year' is not part of"),
        ("tail\nN1\n", IngestOptions(deletes=True), UnknownTable, "sales.orders"),
    ],
)
def test_a_table_that_cannot_be_is_not_made(
    cluster: RemoteEmbeddedCluster, tmp_path: Path, text: str, options: IngestOptions, error: type[Exception], reason: str
) -> None:
    cluster.create_database("sales")
    with pytest.raises(error, match=reason):
        ingest_files(cluster, PATH, [str(written(tmp_path, "planes.csv", text))], options)
    assert cluster.tables() == []


def test_what_does_not_fit_the_table_is_refused_whole(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    table = ingest_files(cluster, PATH, [str(written(tmp_path, "planes.csv", PLANES))], KEY_TAIL).table
    before = logged(cluster, table)
    for text, options, reason in (
        ("tail,year\nN1,2004\n", IngestOptions(deletes=True), ": 'year' is not a key column of sales.orders"),
        ("year\n2004\n", IngestOptions(deletes=True), ": 'year' is not a key column of sales.orders"),
        ("tail\nN1\n\nN2\n", IngestOptions(deletes=True), "line 3: column 'tail': a value is missing"),
        ("tail,year,model\nN3,1,a\n,1,a\n", IngestOptions(), "line 3: column 'tail': a value is missing"),
        ("tail,year,model,seats\nN1,1,a,7\n", IngestOptions(), ": the table has no column 'seats'"),
    ):
        with pytest.raises(InvalidData, match=reason) as refused:
            ingest_files(cluster, PATH, [str(written(tmp_path, "bad.csv", text))], options)
        assert str(tmp_path / "bad.csv") in refused.value.message
    with pytest.raises(InvalidArgument, match="exists with the primary key = "):
        ingest_files(cluster, PATH, [str(written(tmp_path, "planes.csv", PLANES))], IngestOptions(primary_key=("model",)))
    assert logged(cluster, table) == before


def test_a_file_of_keys_has_all_key_columns_and_no_others(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    options = IngestOptions(primary_key=("tail", "year"))
    table = ingest_files(cluster, PATH, [str(written(tmp_path, "planes.csv", "tail,year,model\nN1,2004,A\nN1,2005,B\n"))], options).table
    before = logged(cluster, table)
    for name, text, reason in (
        ("lack.csv", "tail\nN1\n", "lack.csv: the key column 'year' of sales.orders is missing"),
        ("lack.ndjson", '{"tail": "N1"}\n', "lack.ndjson: the key column 'year' of sales.orders is missing"),
        ("more.csv", "tail,year,model\nN1,2004,A\n", "more.csv, line 1: 'model' is not a key column of sales.orders"),
    ):
        with pytest.raises(InvalidData, match=reason) as refused:
            ingest_files(cluster, PATH, [str(written(tmp_path, name, text))], IngestOptions(deletes=True))
        assert refused.value.hint.startswith("Keys are exactly: tail, year.")
    assert logged(cluster, table) == before
    unknown = ingest_files(
        cluster, PATH, [str(written(tmp_path, "unknown.csv", "year,tail\n1999,N1\n2004,N9\n"))], IngestOptions(deletes=True)
    )
    assert (unknown.rows, unknown.records, dict(unknown.ranges)) == (2, 0, {})
    gone = ingest_files(cluster, PATH, [str(written(tmp_path, "gone.csv", "year,tail\n2004,N1\n"))], IngestOptions(deletes=True))
    assert (gone.rows, gone.records) == (1, 1)


def test_keys_are_not_deleted_from_a_log_table(cluster: RemoteEmbeddedCluster, tmp_path: Path) -> None:
    ingest_files(cluster, PATH, [str(written(tmp_path, "planes.csv", PLANES))])
    with pytest.raises(InvalidArgument, match="is a log table"):
        ingest_files(cluster, PATH, [str(written(tmp_path, "gone.csv", "tail\nN1\n"))], IngestOptions(deletes=True))
