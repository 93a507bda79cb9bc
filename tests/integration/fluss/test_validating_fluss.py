"""Validation of a Fluss cluster's tables: by the service, and with no service running, over the cluster's own servers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from typer.testing import CliRunner

from support.clusters.fluss_owner import CLUSTER_ID, opened_source
from support.clusters.fluss_tables import FlussTables
from support.running.fluss_deployment import LAKE, FlussDeployment
from support.running.processes import wait_for
from support.worlds.validated import faults, local, read, replace_column, rewrite, untold
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.main import app
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.errors import LakewardError
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TableInfo
from tiering.procedures.validate_table import CheckResult
from tiering.validate.results import Level
from tiering.validate.run import validate

ROWS = 6_000
KEYS = 200
LONG = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
REGIONS = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string())])
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])


class Tiered:
    """A log table most of whose log lies in remote segments, a partitioned one, and a primary-key table, all of them in the lake."""

    def __init__(self, deployment: FlussDeployment, cluster: LocalFlussCluster, tables: FlussTables) -> None:
        self.deployment, self.cluster, self.tables = deployment, cluster, tables
        texts = random.Random(5)
        batches = [
            pa.RecordBatch.from_pydict({"id": range(n, n + 500), "text": [texts.randbytes(60).hex() for _ in range(500)]}, schema=LONG)
            for n in range(0, ROWS, 500)
        ]
        self.log = tables.create("checked_log", LONG, buckets=1, properties=LAKE)
        tables.append(self.log, batches)
        self.cut = tables.create("checked_cut", LONG, buckets=1, properties={**LAKE, "table.log.ttl": "1s"})
        tables.append(self.cut, batches)
        self.regions = tables.create("checked_regions", REGIONS, buckets=2, partition_keys=["region"], properties=LAKE)
        for region in ("north", "south"):
            tables.add_partition(self.regions, {"region": region})
            tables.append(self.regions, [pa.RecordBatch.from_pydict({"id": range(50), "region": [region] * 50}, schema=REGIONS)])
        self.keyed = tables.create("checked_keys", KEYED, ["id"], buckets=2, properties=LAKE)
        tables.upsert(self.keyed, ({"id": number, "text": "first"} for number in range(KEYS)))
        deployment.wrote()
        self._wait()
        tables.upsert(self.keyed, ({"id": number, "text": "second"} for number in range(0, KEYS, 2)))
        tables.delete(self.keyed, ({"id": number} for number in range(0, KEYS, 10)))
        deployment.wrote()
        self._wait()

    @property
    def all(self) -> Sequence[TableInfo]:
        return (self.log, self.regions, self.keyed, self.cut)

    def _wait(self) -> None:
        for table in self.all:
            self.deployment.wait_tiered(table.path)

    def files(self, table: TableInfo) -> list[Path]:
        """Returns the live data files of a table, the largest first."""
        catalog = load_catalog("lake", **self.deployment.data.lake_properties)
        scanned = catalog.load_table((table.path.database_name, table.path.table_name)).scan().plan_files()
        return sorted((local(task.file.file_path) for task in scanned), key=lambda file: -read(file).num_rows)

    def log_start(self, table: TableInfo) -> int:
        """Where the log of a table with one bucket begins now."""
        with opened_source(self.deployment.servers) as source:
            [bounds] = source.offsets(source.table(table.path)).values()
        return bounds.log_start

    def check(self, table: TableInfo, level: Level = Level.ROWS) -> list[CheckResult]:
        with opened_source(self.deployment.servers) as source:
            return list(validate(source, IcebergLake(self.deployment.data.lake_properties), table.path, level))


@pytest.fixture(scope="module")
def tiered(fluss: LocalFlussCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    """The tables, tiered; coordinator and tierer go on running."""
    tables = FlussTables(fluss.bootstrap_servers)
    deployment = FlussDeployment(tmp_path_factory.mktemp("validated"), servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator()
        deployment.start_tierer("first")
        tiered = Tiered(deployment, fluss, tables)
        yield tiered
        for table in tiered.all:
            tables.drop(table)
    finally:
        deployment.close()
        tables.close()


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["validate", *arguments])
    return result.exit_code, str(result.exception) + result.exception.hint if isinstance(result.exception, LakewardError) else result.output


def test_the_service_proves_tables_of_both_kinds(tiered: Tiered) -> None:
    for table in (tiered.log, tiered.keyed):
        printed = tiered.deployment.lakeward("validate", str(table.path), "--level", "rows", "--format", "csv")
        assert "false" not in printed
        assert "values" in printed


def test_what_lies_in_remote_segments_is_compared_as_well(tiered: Tiered) -> None:
    with opened_source(tiered.deployment.servers) as source:
        [bounds] = source.offsets(source.table(tiered.log.path)).values()
    assert (bounds.log_start, bounds.log_end) == (0, ROWS)
    remote = tiered.cluster.folder / "remote"
    assert [file for file in remote.rglob("*.log") if f"checked_log-{tiered.log.table_id}" in str(file)]
    [values] = [result for result in tiered.check(tiered.log) if result.check == "values"]
    assert values.expected == values.actual
    assert str(values.expected).startswith(f"{ROWS} rows")


@pytest.mark.soak
def test_what_retention_cut_off_the_log_is_said_and_the_rest_is_compared(tiered: Tiered) -> None:
    wait_for("Fluss removes what is in the lake", lambda: tiered.log_start(tiered.cut))
    results = tiered.check(tiered.cut)
    assert not faults(results)
    [(check, scope, details)] = untold(results)
    assert (check, scope) == ("values", "0")
    assert "the log no longer holds offsets 0 to" in str(details)
    [compared] = [result for result in results if result.check == "values" and result.ok]
    assert compared.expected == compared.actual


PLACES = ("log_start_offset", "log_end_offset", "lake_offset", "log_only_records", "both_records", "lake_only_records")


def places(tiered: Tiered, table: TableInfo, folder: Path) -> list[tuple[int | None, ...]]:
    """Where the records of its buckets are, as the service says and, at the same time, DuckDB on the data folder."""
    tiered.deployment.lakeward("export-status", str(folder / "status.json"), "--format", "json", "--force")
    exported: Mapping[str, Any] = json.loads((folder / "status.json").read_text())
    rows = [row for row in exported["tables"]["tiering_buckets"]["rows"] if row["table_name"] == table.path.table_name]
    live = [tuple(row[name] for name in PLACES) for row in sorted(rows, key=lambda row: row["bucket_id"])]
    engine = DuckDbEngine(tiered.deployment.data.root, "iceberg", tiered.deployment.data.lake_properties)
    words = f"SELECT {', '.join(PLACES)} FROM sys.tiering_buckets WHERE table_name = '{table.path.table_name}' ORDER BY bucket_id"
    offline = [tuple(row) for row in engine.execute(words).rows]
    engine.close()
    assert offline == live
    return live


def test_the_buckets_say_which_records_only_log_or_lake_have(tiered: Tiered, tmp_path: Path) -> None:
    """Old segments of the log may be remote. The lake table of a primary-key table has rows and no records."""
    with opened_source(tiered.deployment.servers) as source:
        wait_for(
            "Fluss removes what is in the lake", lambda: min(o.log_start for o in source.offsets(source.table(tiered.cut.path)).values())
        )
    [(start, end, lake, *cut)] = places(tiered, tiered.cut, tmp_path)
    assert start is not None
    assert (end, lake, cut) == (ROWS, ROWS, [0, ROWS - start, start])
    assert places(tiered, tiered.log, tmp_path) == [(0, ROWS, ROWS, 0, ROWS, 0)]
    for start, end, lake, *keyed in places(tiered, tiered.keyed, tmp_path):
        assert (start, lake, keyed) == (0, end, [0, end, None])
    path = str(tiered.log.path)  # of which the next records stay in the log alone
    tiered.deployment.lakeward("set-freshness", path, "1 h")
    tiered.tables.append(tiered.log, [pa.RecordBatch.from_pydict({"id": range(ROWS, ROWS + 7), "text": ["late"] * 7}, schema=LONG)])
    wait_for("the coordinator looks at the log", lambda: places(tiered, tiered.log, tmp_path) == [(0, ROWS + 7, ROWS, 7, ROWS, 0)])
    tiered.deployment.lakeward("set-freshness", path, "1 s")
    tiered.deployment.wrote()
    tiered.deployment.wait_tiered(tiered.log.path)


@pytest.mark.parametrize("level", list(Level))
def test_each_level_proves_each_table_over_the_clusters_servers(tiered: Tiered, level: Level) -> None:
    for table in (tiered.log, tiered.regions, tiered.keyed):
        results = tiered.check(table, level)
        assert [result for result in results if result.ok is not True] == []
        assert {result.check for result in results} >= {"base", "files", "rows"}


@contextmanager
def damaged(file: Path) -> Iterator[Path]:
    """The file, as it was again afterwards."""
    content = file.read_bytes()
    try:
        yield file
    finally:
        file.write_bytes(content)


def test_a_row_of_a_log_table_that_is_lost_doubled_or_changed_is_named(tiered: Tiered) -> None:
    with damaged(tiered.files(tiered.log)[0]) as file:
        rows = read(file)
        first = rows["__offset"][0].as_py()
        rewrite(file, rows.slice(1))
        assert ("offsets", "0", f"bucket 0: offset {first} is missing") in faults(tiered.check(tiered.log, Level.OFFSETS))
        assert ("rows", "0", "1 row missing") in faults(tiered.check(tiered.log, Level.COUNTS))
        rewrite(file, pa.concat_tables([rows, rows.slice(0, 1)]))
        assert ("offsets", "0", f"bucket 0: offset {first} occurs 2 times") in faults(tiered.check(tiered.log, Level.OFFSETS))
        rewrite(file, rows)
        replace_column(file, "text", ["wrong", *rows["text"].to_pylist()[1:]])
        details = f"bucket 0: offset {first} has other values in the lake than in the log, in text"
        assert faults(tiered.check(tiered.log)) == [("values", "0", details)]
    assert not faults(tiered.check(tiered.log))


def test_a_row_of_a_partition_that_is_lost_is_named_with_its_partition(tiered: Tiered) -> None:
    [file, *_] = [file for file in tiered.files(tiered.regions) if "region=south" in str(file)]
    bucket = read(file)["__bucket"][0].as_py()
    with damaged(file):
        rewrite(file, read(file).slice(1))
        assert {scope for _, scope, _ in faults(tiered.check(tiered.regions))} == {f"south/{bucket}"}


def test_a_key_that_is_lost_stale_or_changed_is_named(tiered: Tiered) -> None:
    with damaged(tiered.files(tiered.keyed)[0]) as file:
        rows = read(file)
        bucket = rows["__bucket"][0].as_py()
        for change in (rows.slice(1), pa.concat_tables([rows, rows.slice(rows.num_rows - 1)])):
            rewrite(file, change)
            assert {scope for _, scope, _ in faults(tiered.check(tiered.keyed, Level.OFFSETS))} == {str(bucket)}
        rewrite(file, rows)
        replace_column(file, "text", ["wrong"] * rows.num_rows)
        [(check, scope, details)] = faults(tiered.check(tiered.keyed))
        assert (check, scope) == ("values", str(bucket))
        assert "has other values in the lake" in str(details)


def test_a_file_that_is_gone_is_named_also_by_the_service(tiered: Tiered) -> None:
    with damaged(tiered.files(tiered.log)[0]) as file:
        file.unlink()
        printed = tiered.deployment.lakeward("validate", str(tiered.log.path), "--format", "csv", status=1)
    assert str(file) in printed
    assert "1 file of the snapshot not there" in printed


def test_no_service_is_needed_but_the_clusters_own_servers(tiered: Tiered) -> None:
    """The last one: it stops coordinator and tierer."""
    tiered.deployment.close()
    root, servers = tiered.deployment.data.root, tiered.deployment.servers
    named = ("--fluss", servers, "--fluss-cluster-id", CLUSTER_ID, "--fluss-mode", "exclusive")
    lake = [word for name, value in tiered.deployment.data.lake_properties.items() for word in ("--lake-property", f"{name}={value}")]
    openings = (("--data", str(root)), ("--data", str(root), "--fluss", servers), (*named, *lake))
    for table, words in zip((tiered.log, tiered.regions, tiered.keyed), openings, strict=True):
        status, printed = run(str(table.path), "--level", "rows", "--format", "csv", *words)
        assert (status, "false" in printed) == (0, False), printed
    with damaged(tiered.files(tiered.log)[0]) as file:
        rewrite(file, read(file).slice(1))
        assert run(str(tiered.log.path), *named, *lake)[0] == 1
    status, printed = run(str(tiered.log.path), *named)
    assert status != 0
    assert "no option names its lake" in printed
    status, printed = run(str(tiered.log.path), *named[:2], "--fluss-cluster-id", "another", "--fluss-mode", "exclusive", *lake)
    assert (status, "ClusterMismatch" in printed) == (1, True), printed
    with HeldPort() as unused:
        status, printed = run(str(tiered.log.path), "--fluss", unused.address, *named[2:], *lake)
    assert status != 0
    assert f"no Fluss server answers at {unused.address}" in printed
    assert "It needs no service of Lakeward" in printed
