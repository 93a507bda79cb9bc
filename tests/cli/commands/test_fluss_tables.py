"""`lakeward ingest`, `tables`, `add-column` and `drop` on a Fluss cluster: through a service, and without one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.clusters.fluss_owner import opened_source
from support.running.commands import Ended, Lakeward
from support.running.fluss_deployment import FlussDeployment
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.main import main
from tiering.cli.service_cluster import writable_cluster
from tiering.cluster.fluss.source import FlussSource
from tiering.errors import UnknownTable
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import TableInfo, TablePath

DATABASE = "typed"


@pytest.fixture(scope="module")
def service(fluss: LocalFlussCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlussDeployment]:
    """A coordinator alone beside the cluster."""
    deployment = FlussDeployment(tmp_path_factory.mktemp("typed"), servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator()
        yield deployment
    finally:
        deployment.close()


@pytest.fixture(params=["--uri", "--fluss"])
def lakeward(
    request: pytest.FixtureRequest, service: FlussDeployment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakeward:
    """Runs the whole command line, pointed at the service or at the cluster itself."""
    address = service.uri if request.param == "--uri" else service.servers

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["lakeward", *arguments, request.param, address])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def path(service: FlussDeployment, request: pytest.FixtureRequest) -> Iterator[str]:
    """Path of a table that the test creates, and that is dropped after it."""
    name = TablePath(DATABASE, "t" + "".join(letter for letter in request.node.name if letter.isalnum())[-60:])
    yield str(name)
    with writable_cluster("", service.servers) as cluster:
        if any(table.path == name for table in cluster.tables(DATABASE)):
            cluster.drop_table(name)


@contextmanager
def opened(service: FlussDeployment, path: str) -> Iterator[tuple[FlussSource, TableInfo]]:
    database, _, name = path.partition(".")
    with opened_source(service.servers) as source:
        yield source, source.table(TablePath(database, name))


def log_rows(service: FlussDeployment, path: str) -> pa.Table:
    """Every record of the table's log, with its change type."""
    with opened(service, path) as (source, table):
        names = {partition.partition_id: partition.partition_name for partition in source.partitions(table)}
        batches = [
            batch
            for bucket, ends in source.offsets(table).items()
            for batch in source.reader(
                table, TieringLogSplit(table.path, bucket, names.get(bucket.partition_id or 0), 0, ends.log_end, ends.log_end)
            ).read()
        ]
    return pa.Table.from_batches(batches)


def test_a_log_table_is_made_filled_widened_listed_and_dropped(
    lakeward: Lakeward, service: FlussDeployment, path: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"
    texts = ["x" * 300] * 40_000
    pq.write_table(pa.table({"id": range(40_000), "text": texts}), file)
    ended = lakeward("ingest", path, str(file), "--buckets", "3", "--freshness", "5 min", "--option", "table.log.ttl=3 d")
    assert (ended.status, ended.err) == (0, "")
    assert "created, 40,000 rows appended" in ended.out
    rows = log_rows(service, path)
    assert sorted(rows["id"].to_pylist()) == list(range(40_000))

    assert lakeward("add-column", path, "note", "STRING").status == 0
    more = tmp_path / "more.csv"
    more.write_text("id,text,note\n40000,y,new\n")
    assert lakeward("ingest", path, str(more)).status == 0
    assert log_rows(service, path).filter(pa.compute.equal(log_rows(service, path)["id"], 40_000))["note"].to_pylist() == ["new"]

    listed = {row["table"]: row for row in json.loads(lakeward("tables", DATABASE, "--format", "json").out)}
    assert (listed[path]["bucket_count"], listed[path]["freshness_ms"], listed[path]["lake_format"]) == (3, 300_000, "iceberg")
    assert listed[path]["schema"] == "id BIGINT, text STRING, note STRING"

    ended = lakeward("drop", path, "--yes")
    assert (ended.status, f"{path} was dropped" in ended.out) == (0, True)
    with pytest.raises(UnknownTable), opened(service, path):
        pass
    assert lakeward("drop", path, "--yes").status == 2


def test_keys_are_upserted_and_deleted_and_partitions_come_on_demand(
    lakeward: Lakeward, service: FlussDeployment, path: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,region,text\n" + "".join(f"{number},{'north' if number % 2 else 'south'},a\n" for number in range(1_000)))
    words = ("--primary-key", "id,region", "--partition-by", "region", "--bucket-key", "id", "--format", "json")
    [result] = json.loads(lakeward("ingest", path, str(file), *words).out)
    assert (result["created"], result["rows"], len(result["ranges"])) == (True, 1_000, 2)
    file.write_text("id,region,text\n1,north,b\n2000,east,b\n")
    assert "2 rows upserted" in lakeward("ingest", path, str(file)).out
    file.write_text("id,region\n1,north\n3,north\n999999,north\n1,nowhere\n")
    assert "2 of 4 keys deleted" in lakeward("ingest", path, str(file), "--deletes").out
    with opened(service, path) as (source, table):
        assert sorted(partition.partition_name for partition in source.partitions(table)) == ["east", "north", "south"]
    changes = log_rows(service, path)
    assert changes.num_rows == 1_000 + 2 + 1 + 2
    [row] = [row for row in json.loads(lakeward("tables", DATABASE, "--format", "json").out) if row["table"] == path]
    assert (row["primary_key"], row["partition_keys"]) == (["id", "region"], ["region"])


def test_columns_that_a_file_adds_reach_a_primary_key_table_at_once(
    lakeward: Lakeward, service: FlussDeployment, path: str, tmp_path: Path
) -> None:
    """A tablet server that does not know the new column yet refuses its rows; pyfluss alone would lose those rows silently."""
    file = tmp_path / "rows.csv"
    file.write_text("id,text\n1,a\n2,b\n")
    assert lakeward("ingest", path, str(file), "--primary-key", "id").status == 0
    for number in range(3):
        header = ",".join(["id", "text", *(f"more{before}" for before in range(number + 1))])
        file.write_text(f"{header}\n" + "".join(f"{row},t{',new' * (number + 1)}\n" for row in range(10, 400)))
        ended = lakeward("ingest", path, str(file), "--add-columns")
        assert (ended.status, "390 rows upserted" in ended.out) == (0, True), ended.err
        changes = log_rows(service, path)
        assert changes[f"more{number}"].to_pylist().count("new") >= 390
        assert set(changes.filter(pa.compute.equal(changes[f"more{number}"], "new"))["id"].to_pylist()) == set(range(10, 400))


@pytest.mark.parametrize(
    ("words", "content", "reason"),
    [
        ((), "id,text\n1,a\n2\n", "line 3"),
        (("--no-create",), "id,text\n1,a\n", "does not exist"),
        (("--deletes",), "id,text\n1,a\n", "does not exist"),
        (("--option", "datalake.freshness=1 min"), "id,text\n1,a\n", "The nearest names are table.datalake.freshness"),
        (("--option", "iceberg.write.target-file-size=1"), "id,text\n1,a\n", "Did you mean iceberg.write.target-file-size-bytes?"),
        (("--option", "table.log.tll=1 d"), "id,text\n1,a\n", "did you mean table.log.ttl?"),
        (("--primary-key", "nope"), "id,text\n1,a\n", "nope"),
    ],
)
def test_what_is_wrong_is_said_and_no_table_is_made(
    lakeward: Lakeward, service: FlussDeployment, path: str, tmp_path: Path, words: tuple[str, ...], content: str, reason: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(content)
    ended = lakeward("ingest", path, str(file), *words)
    assert ended.status == 2, ended
    assert reason in ended.err
    with pytest.raises(Exception, match="does not exist"), opened(service, path):
        pass


def test_tables_and_columns_that_are_not_there_are_named(lakeward: Lakeward, path: str) -> None:
    for words in (("add-column", path, "note", "STRING"), ("drop", path, "--yes")):
        ended = lakeward(*words)
        assert (ended.status, path in ended.err) == (2, True), ended
    ended = lakeward("tables", "nowhere")
    assert (ended.status, "there is no database 'nowhere'" in ended.err) == (2, True)
