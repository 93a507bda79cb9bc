"""A coordinator and tierers as real processes beside a real Fluss cluster, and what tests do with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from support.clusters.fluss_owner import CLUSTER_ID, opened_source
from support.clusters.fluss_tables import FlussTables
from support.lakes.lake_proof import assert_every_offset_once
from support.running.cluster_of_processes import SCHEMA, Deployment, rows
from support.running.processes import Process
from tiering.client import LakewardClient
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TableInfo, TablePath

LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1s"}
BY_HAND = {**LAKE, "table.datalake.freshness": "12h"}
"""Options of a table whose rounds run only by `lakeward tier`."""


@dataclass
class FlussDeployment(Deployment):
    """Processes on `folder` for the cluster at `servers`. By default its coordinator is the only one that tiers."""

    servers: str = ""
    mode: str = "exclusive"

    @property
    def fluss_options(self) -> tuple[str, ...]:
        """Options with which the service also starts where a failed test left tables that were tiered into another lake."""
        return ("--fluss", self.servers, "--fluss-cluster-id", CLUSTER_ID, "--fluss-mode", self.mode, "--create-lake-tables")

    def start_coordinator(self, *options: str, port: int = 0, crash_point: str | None = None, **env: str) -> Process:
        return super().start_coordinator(*self.fluss_options, *options, port=port, crash_point=crash_point, **env)

    def restart_coordinator(self) -> None:
        """A SIGTERM, and a new one on the same port."""
        port = self.port
        self.coordinator.close()
        self.start_coordinator(port=port)

    def write(self, tables: FlussTables, table: TableInfo, start: int, count: int, pieces: int = 3) -> None:
        """Rows `start .. start+count-1` into a log table, in batches that several buckets share."""
        batches = [batch for piece in range(pieces) for batch in _piece(start, count, piece, pieces).to_batches()]
        for batch in batches:
            tables.append(table, [batch])
        self.appended_at = datetime.now(UTC)

    def wrote(self) -> None:
        """Says that rows were written otherwise: an older look at the log does not count any more."""
        self.appended_at = datetime.now(UTC)

    def visible_tables(self) -> Mapping[TablePath, int]:
        """Ids of the tables that the coordinator has now, by path."""
        with LakewardClient(self.uri) as client:
            return {TablePath(status.database_name, status.table_name): status.table_id for status in client.list_tiering_statuses()}

    def assert_exact(self, path: TablePath, count: int, lake_properties: Mapping[str, str] | None = None) -> None:
        with opened_source(self.servers) as source:
            ends = {bucket.bucket_id: log.log_end for bucket, log in source.offsets(source.table(path)).items()}
        in_lake = assert_every_offset_once(lake_properties or self.data.lake_properties, path, ends)
        assert sorted(in_lake["id"].to_pylist()) == list(range(count))

    def recorded(self, path: TablePath) -> RecordedLakeSnapshot | None:
        """Returns the cluster's record of the lake table."""
        with opened_source(self.servers) as source:
            return source.lake_snapshot(source.table(path))


@dataclass
class StandbyDeployment(FlussDeployment):
    """Coordinators with folders of their own, one state store and one lake."""

    state: str = ""
    options: tuple[str, ...] = ()

    def start_member(self, name: str, port: int = 0, **env: str) -> Process:
        """Starts a coordinator; does not wait."""
        self.data.root.mkdir(exist_ok=True)
        lake = [part for item in self.data.lake_properties.items() for part in ("--lake-property", "=".join(item))]
        folder = ("--data", str(self.folder / name), "--port", str(port or self.held_port()), "--service-timeout-ms", "3000")
        return self._start("coordinator", *folder, *self.fluss_options, *self.options, *lake, env={"LAKEWARD_STATE": self.state, **env})

    def start_both(self) -> tuple[Process, Process]:
        """The leader and the standby; `uri` is that of both."""
        leader = self.start_member("first")
        first = leader.wait_ready()
        standby = self.start_member("second")
        self.uri = f"{first},{standby.wait_standing_by()}"
        return leader, standby


def _piece(start: int, count: int, piece: int, pieces: int) -> pa.Table:
    first, last = start + piece * count // pieces, start + (piece + 1) * count // pieces
    return rows(first, last - first)


def make_orders(tables: FlussTables, name: str, buckets: int = 3, **properties: str) -> TableInfo:
    """A lake-enabled log table of (id, text). A property `log_ttl` is `table.log.ttl`."""
    more = {f"table.{key.replace('_', '.')}": value for key, value in properties.items()}
    return tables.create(name, SCHEMA, buckets=buckets, properties={**LAKE, **more})
