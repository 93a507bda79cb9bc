"""Twelve tables as a person on call finds them in the morning: each with a problem of its own, or healthy, on one running service.

| table | how it stands |
| --- | --- |
| flights | a log table, healthy |
| hotels | a primary-key table, healthy; a user's lease on its KV snapshots is about to end |
| planes | its lake is disabled |
| rides | was tiered, and then dropped |
| orders | was late, because a user paused it over its deadline |
| invoices | paused, and late |
| sensors | slow: a tierer has been at it for a while, and is not far |
| archive | in its backlog, which a tierer was working through when it died; paused since |
| weather | its lake table was made by hand, with another column |
| returns | its lake table was rolled back |
| clicks | its log has a record that no state can take in |
| payments | fails for ever, since a file stands where its folder in the lake was; late |
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from support.clusters.older_version import TWICE, older_write
from support.running.cluster_of_processes import SCHEMA, Deployment
from support.running.processes import wait_for
from support.stories.scripted_tierer import ScriptedTierer
from sys_tables.catalog_client import SystemCatalog
from tiering.cli.processes.data_folder import open_data_folder
from tiering.client import LakewardClient
from tiering.clock import RandomIds, SystemClock
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.errors import BucketStopped
from tiering.model.names import table_path
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath

TIMEOUT_MS = 6_000
HOTELS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
CLICKS = pa.schema([*HOTELS, pa.field("tags", pa.map_(pa.string(), pa.int32()))])
TABLES = ("archive", "clicks", "flights", "hotels", "invoices", "orders", "payments", "planes", "returns", "rides", "sensors", "weather")
COUNT = 300


def path(name: str) -> TablePath:
    """Returns the path of one of the tables."""
    return table_path("demo", name)


class TwelveTables(Deployment):
    """The service with these tables. `start` makes all of it; `close` ends it."""

    dead: ScriptedTierer
    slow: ScriptedTierer
    payments_folder: Path

    def start(self) -> None:
        """Each table takes its turn, since a scripted tierer takes what is due."""
        self._stop_a_bucket()
        self.start_coordinator("--service-timeout-ms", str(TIMEOUT_MS))
        self._catalog = SystemCatalog(self.uri)
        self._leave_a_backlog()
        self._be_slow()
        self.start_tierer("tierer-b")
        self._disable_and_drop()
        self._break_lake_tables()
        self._lease_snapshots()
        self._pause()
        self._wait_for_all()

    def call(self, procedure: str, **arguments: str | int | bool | None) -> list[dict[str, object]]:
        """A CALL without Spark."""
        return self._catalog.call(procedure, **arguments)

    def close(self) -> None:
        for tierer in (getattr(self, name, None) for name in ("dead", "slow")):
            if tierer is not None:
                tierer.close()
        super().close()

    def _stop_a_bucket(self) -> None:
        """clicks: before the service starts, as an older version would have left it."""
        storage = EmbeddedStorage(open_data_folder(self.data.root).cluster, SystemClock(), RandomIds())
        storage.create_database("demo")
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}
        storage.create_table(path("clicks"), TableSpec(CLICKS, 1, (), properties, ("id",)))

        def rows(text: str, tags: list[tuple[str, int]]) -> pa.Table:
            return pa.Table.from_pylist([{"id": number, "text": text, "tags": tags} for number in range(3)], schema=CLICKS)

        storage.upsert(path("clicks"), rows("good", [("k", 1)]), "test", 0)
        older_write(storage, path("clicks"), rows("poison", TWICE).slice(0, 1), 0, applied=False)
        with pytest.raises(BucketStopped):
            storage.upsert(path("clicks"), rows("later", []), "test", 1)
        storage.close()

    def _leave_a_backlog(self) -> None:
        """archive: assigned, planned, and its tierer is gone."""
        self.create(path("archive"), buckets=2)
        self.append(path("archive"), 0, 2 * COUNT)
        self.dead = ScriptedTierer(self.uri, "tierer-a")
        self._take(self.dead, "archive")
        self.dead.close()
        self.call("pause_tiering", table="demo.archive", reason="until we know why its tierer dies")

    def _be_slow(self) -> None:
        """sensors: its tierer lives, and is a tenth into its round."""
        self.create(path("sensors"), buckets=1)
        self.append(path("sensors"), 0, COUNT)
        self.slow = ScriptedTierer(self.uri, "tierer-c")
        self._take(self.slow, "sensors")
        self.slow.report(COUNT // 10, COUNT)
        self.slow.live_on()

    def _take(self, tierer: ScriptedTierer, name: str) -> None:
        with self.cluster() as cluster:
            table = cluster.table(path(name))
            ends = {bucket: bounds.log_end for bucket, bounds in cluster.offsets(table).items()}
        tierer.take(table.table_id)
        tierer.plan(ends)

    def _disable_and_drop(self) -> None:
        """planes, rides and flights, which is as it should be."""
        with self.cluster() as cluster:
            cluster.create_table(path("planes"), TableSpec(SCHEMA, 1, properties={"table.datalake.enabled": "false"}))
        for name in ("flights", "rides", "returns"):
            self.create(path(name), freshness="1 h", buckets=2)
            self.append(path(name), 0, COUNT)
            self.call("tier_table", table=f"demo.{name}")
        self.drop(path("rides"))

    def _break_lake_tables(self) -> None:
        """weather, returns and payments."""
        lake = load_catalog("lake", **self.data.lake_properties)
        lake.create_table(str(path("weather")), pa.schema([pa.field("id", pa.string())]))
        first = lake.load_table(str(path("returns"))).current_snapshot()
        assert first is not None
        self.append(path("returns"), COUNT, COUNT)
        self.call("tier_table", table="demo.returns")
        lake.load_table(str(path("returns"))).manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
        for name in ("weather", "payments"):
            self.create(path(name), buckets=1)
            self.append(path(name), 0, COUNT, pieces=1)
        self.wait_tiered(path("payments"))
        self.payments_folder = Path(lake.load_table(str(path("payments"))).location().removeprefix("file://")) / "data"
        self.payments_folder.rename(self.payments_folder.with_name("moved"))
        self.payments_folder.write_text("a file where a folder has to be")
        self.append(path("payments"), COUNT, COUNT, pieces=1)

    def mend_payments(self) -> None:
        """By hand, as the error says where."""
        self.payments_folder.unlink()
        self.payments_folder.with_name("moved").rename(self.payments_folder)

    def _lease_snapshots(self) -> None:
        """hotels."""
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}
        with self.cluster() as cluster:
            cluster.create_table(path("hotels"), TableSpec(HOTELS, 1, (), properties, ("id",)))
            cluster.upsert(path("hotels"), pa.table({"id": range(20), "text": ["free"] * 20}, schema=HOTELS), "test", 0)
            cluster.take_kv_snapshots(path("hotels"))
        self.call("acquire_kv_snapshot_lease", lease_id="nightly-export", table="demo.hotels", ttl_ms=600_000)
        self.call("tier_table", table="demo.hotels")

    def _pause(self) -> None:
        """orders is paused until it is late, and invoices for good."""
        self.create(path("orders"), freshness="1 h")
        self.call("pause_tiering", table="demo.orders", reason="a backfill")
        self.append(path("orders"), 0, COUNT)
        self.create(path("invoices"), buckets=1)
        self.call("pause_tiering", table="demo.invoices", reason="the auditors are in")
        self.append(path("invoices"), 0, COUNT, pieces=1)
        self.call("set_freshness", table="demo.orders", freshness="1 s")
        wait_for("orders is late", lambda: (self.status(path("orders")).lag_ms or 0) > 3_000)
        self.call("resume_tiering", table="demo.orders")

    def _wait_for_all(self) -> None:
        """Until each table stands as it should, and the dead tierer was missed."""
        for name in ("weather", "clicks", "returns"):
            self.call("tier_table", table=f"demo.{name}", wait=False)
        self.wait_tiered(path("orders"))
        self.call("set_freshness", table="demo.orders", freshness="1 h")
        for name, error_class in (("weather", "SchemaDrift"), ("returns", "LakeRolledBack"), ("clicks", "BucketStopped")):
            wait_for(f"{name} fails", lambda name=name, error=error_class: self.status(path(name)).error_class == error)  # type: ignore[misc]
        wait_for("payments fails again", lambda: self.status(path("payments")).consecutive_failures > 2)
        wait_for("the dead tierer is missed", lambda: self.status(path("archive")).status == "Failed")

    def statuses(self) -> dict[str, TableStatus]:
        """Returns the statuses of all tables, by name."""
        with LakewardClient(self.uri) as client:
            return {status.table_name: status for status in client.list_tiering_statuses()}
