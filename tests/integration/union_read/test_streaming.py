"""Streaming queries of real drivers that are killed and restarted from their checkpoint: each row is in exactly one batch."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.running.cluster_of_processes import KEYED, Deployment
from support.spark.stream_driver import DriverPlan, batches, ids, run
from tiering.cli.spark.properties import CATALOG, catalog_properties, plugin_jar
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.model.tables import TablePath

MAX_RECORDS = 25
KILLS = ({"kill_within": 0}, {"kill_before": 2}, {"kill_after": 3})
"""When the driver of each run is killed; the last run ends by itself."""
VISITS = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])


@pytest.fixture(params=["data source", "catalog"])
def query(request: pytest.FixtureRequest, service: Deployment, tmp_path: Path) -> DriverPlan:
    """A query that has not begun, by either way to read a table. Its path has the name of the test."""
    name = f"{request.node.originalname}_{request.param.replace(' ', '_')}".removeprefix("test_")
    if request.param == "data source":
        return DriverPlan(str(tmp_path), options={"table": f"sales.{name}", "uri": service.uri})
    properties = catalog_properties(service.uri, plugin_jar())
    return DriverPlan(str(tmp_path), f"{CATALOG}.sales.{name}", properties=properties)


@pytest.fixture
def catalog_query(service: Deployment, tmp_path: Path) -> Callable[[str], DriverPlan]:
    """Returns queries of tables by their names in the database `sales`, through the catalog."""
    properties = catalog_properties(service.uri, plugin_jar())
    return lambda name: DriverPlan(str(tmp_path), f"{CATALOG}.sales.`{name}`", {"maxRecordsPerTrigger": str(MAX_RECORDS)}, properties)


def path_of(query: DriverPlan) -> TablePath:
    return TablePath("sales", (query.table or query.options["table"]).split(".")[-1])


def test_a_killed_query_continues_with_each_row_in_one_batch(service: Deployment, query: DriverPlan) -> None:
    path = path_of(query)
    query = replace(query, options={**query.options, "maxRecordsPerTrigger": str(MAX_RECORDS)})
    service.create(path, freshness="1 h")
    service.append(path, 0, 60)
    service.lakeward("tier", str(path))
    service.append(path, 60, 30)

    for start, kill in zip((90, 100, 110), KILLS, strict=True):
        assert run(service, query, **kill).popen.returncode == -signal.SIGKILL
        service.append(path, start, 10)
        service.lakeward("tier", str(path))
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    assert ids(query) == list(range(120))
    assert all(len(rows) <= MAX_RECORDS for rows in batches(query).values())


class Accounts:
    """A primary-key table. Each write has a text of its own."""

    def __init__(self, service: Deployment, name: str, buckets: int) -> None:
        self.path = TablePath("sales", name)
        self._service = service
        self._writes = 0
        service.create_keyed(self.path, buckets=buckets)

    def upsert(self, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Writes a row of each key, and returns the rows."""
        rows = [(number, f"write {self._writes}") for number in ids]
        batch = pa.record_batch({"id": [row[0] for row in rows], "text": [row[1] for row in rows]}, schema=KEYED)
        self._write(lambda cluster: cluster.upsert(self.path, batch, f"writer-{self._writes}", 0))
        return rows

    def delete(self, ids: Sequence[int]) -> None:
        keys = pa.record_batch({"id": list(ids)}, schema=pa.schema([KEYED.field("id")]))
        self._write(lambda cluster: cluster.delete(self.path, keys, f"writer-{self._writes}", 0))

    def _write(self, write: Callable[[RemoteEmbeddedCluster], object]) -> None:
        with self._service.cluster() as cluster:
            write(cluster)
        self._writes += 1

    def tier(self) -> None:
        self._service.lakeward("tier", str(self.path))


def test_a_killed_query_of_a_primary_key_table_has_its_lake_rows_and_each_later_write_in_one_batch(
    service: Deployment, catalog_query: Callable[[str], DriverPlan]
) -> None:
    accounts = Accounts(service, "keys", buckets=3)
    query = catalog_query("keys")
    query = replace(query, options={**query.options, "ignoreDeletes": "true"})
    superseded = accounts.upsert(range(10))
    accounts.tier()
    written = [*accounts.upsert(range(5, 70)), *superseded[:5]]
    accounts.tier()
    accounts.delete([60, 61])
    written += accounts.upsert(range(50, 60))

    for start, kill in zip((40, 0, 60), KILLS, strict=True):
        assert run(service, query, **kill).popen.returncode == -signal.SIGKILL
        written += accounts.upsert(range(start, start + 10))
        accounts.tier()
        accounts.delete([start])
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    assert sorted((row["id"], row["text"]) for rows in batches(query).values() for row in rows) == sorted(written)


def test_a_killed_query_of_a_changelog_has_each_record_of_the_log_in_one_batch(
    service: Deployment, catalog_query: Callable[[str], DriverPlan]
) -> None:
    accounts = Accounts(service, "changes", buckets=1)
    query = catalog_query("changes$changelog")
    accounts.upsert(range(50))
    accounts.tier()
    accounts.upsert(range(40, 65))
    kinds = ["+I"] * 50 + ["-U", "+U"] * 10 + ["+I"] * 15

    for kill in KILLS:
        assert run(service, query, **kill).popen.returncode == -signal.SIGKILL
        accounts.delete(range(5))
        accounts.upsert(range(5))
        kinds += ["-D"] * 5 + ["+I"] * 5
        accounts.tier()
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    read = sorted((row["_log_offset"], row["_change_type"]) for rows in batches(query).values() for row in rows)
    assert read == list(enumerate(kinds))
    assert all(len(rows) <= MAX_RECORDS for rows in batches(query).values())


def test_partitions_come_and_go_while_a_query_is_killed(service: Deployment, catalog_query: Callable[[str], DriverPlan]) -> None:
    path, numbers = TablePath("sales", "visits"), iter(range(1_000))
    query = replace(catalog_query("visits"), options={})
    service.create(path, "1 h", VISITS, 2, None, partition_keys=("region",))

    def visit(*regions: str) -> None:
        with service.cluster() as cluster:
            for region in regions:
                number = next(numbers)
                rows = pa.record_batch({"id": [number], "region": [region]}, schema=VISITS)
                cluster.append(path, rows, f"writer-{number}", 0)

    def drop(region: str) -> None:
        with service.cluster() as cluster:
            cluster.drop_partition(path, region)

    visit("north", "south", "gone")
    service.lakeward("tier", str(path))
    drop("gone")
    visit("south", "west")

    assert run(service, query, kill_within=0).popen.returncode == -signal.SIGKILL
    visit("east", "south")
    assert run(service, query, kill_after=1).popen.returncode == -signal.SIGKILL
    drop("south")
    visit("south", "north", "new")
    assert run(service, query, kill_before=2).popen.returncode == -signal.SIGKILL
    service.lakeward("tier", str(path))
    visit("new")
    driver = run(service, query)

    assert driver.popen.returncode == 0, driver.output()
    assert ids(query) == list(range(next(numbers)))
