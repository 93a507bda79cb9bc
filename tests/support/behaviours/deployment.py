"""A deployment over any backend, in one process: what a story does with its tables, and what SQL says of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.background import tick
from support.behaviours.backends import Backend, OwnedCluster
from support.running.processes import wait_for
from support.services.sys_catalog import serving
from support.values.plain_rows import plain_rows
from support.worlds.lake_world import FRESHNESS_S, InlineDeployment
from tiering.cluster.capabilities import KvSnapshotsOnDemand
from tiering.cluster.writable import TableSpec
from tiering.lake.registry import open_lake
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import additions
from tiering.model.tables import SYSTEM_COLUMNS, TableInfo, TablePath
from tiering.round.steps import actions as act
from tiering.validate.results import Level
from tiering.validate.run import validate
from tiering.wire.channel import calling

Row = dict[str, Any]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
MAX_BACKOFF_S = 301


class Deployment(InlineDeployment):
    """One story's: its database, its lake, its coordinator and the one tierer."""

    def __init__(self, folder: Path, backend: Backend) -> None:
        self.lake_format = backend.kind.format
        super().__init__(backend.lake_properties(folder))
        self.by_hand = backend.by_hand(folder)
        """The lake, as users see and change it."""
        self.clock.wall = datetime.now(UTC)  # a cluster that runs by itself has no other
        self.backend = backend
        self.database = backend.new_database()
        self.cluster: OwnedCluster = backend.open_cluster(folder, self.database, self.clock, self.lake)
        self.cluster.create_database(self.database)
        self.coordinator = self._start()
        self.writes = itertools.count()

    @property
    def owner(self) -> OwnedCluster:
        return self.cluster

    def close(self) -> None:
        super().close()
        self.backend.forget(self.database)

    def _open_lake(self) -> Any:
        return open_lake(self.lake_format, self.lake_properties)

    def make(
        self,
        name: str,
        schema: pa.Schema = SCHEMA,
        *,
        key: Sequence[str] = (),
        buckets: int = 2,
        bucket_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        in_lake: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> StoryTable:
        """A new table; with a key it is a primary-key table."""
        path = TablePath(self.database, name)
        options = {"table.datalake.enabled": str(in_lake).lower(), "table.datalake.freshness": f"{FRESHNESS_S} s", **(properties or {})}
        spec = TableSpec(schema, buckets, tuple(bucket_keys), options, tuple(key), tuple(partition_keys))
        self.cluster.create_table(path, spec)
        tick(self.coordinator)
        return StoryTable(self, path, tuple(key))

    def sys(self, table: str) -> list[Row]:
        """The rows of a system table, from the service that the catalog plugin asks."""

        async def read() -> pa.Table:
            async with serving(self.coordinator) as client:
                return await client.read(table)

        rows: list[Row] = asyncio.run(read()).to_pylist()
        return rows

    def call(self, procedure: str, /, **arguments: Any) -> list[Row]:
        """The rows of a CALL, through that service. Raises what the CALL raises."""

        async def perform() -> pa.Table:
            async with serving(self.coordinator) as client:
                with calling("the service"):
                    return (await client.call(procedure, **arguments))[1]

        rows: list[Row] = asyncio.run(perform()).to_pylist()
        return rows


@dataclass
class StoryTable:
    """One table, and the rows that it must have by now. `rows`: by key, or by place in a log table."""

    deployment: Deployment
    path: TablePath
    key: tuple[str, ...]
    rows: dict[object, Row] = field(default_factory=dict)

    @property
    def info(self) -> TableInfo:
        """The cluster's present description."""
        return self.deployment.cluster.table(self.path)

    def append(self, rows: Sequence[Row]) -> None:
        """Rows of a log table."""
        self._write(self.deployment.cluster.append, pa.Table.from_pylist(list(rows), schema=self.info.schema))
        for row in rows:
            self.rows[len(self.rows)] = row

    def upsert(self, rows: Sequence[Row]) -> None:
        """Rows of a primary-key table."""
        self._write(self.deployment.cluster.upsert, pa.Table.from_pylist(list(rows), schema=self.info.schema))
        self.rows |= {self._key(row): row for row in rows}

    def write(self, rows: Mapping[int, str | None]) -> None:
        """Writes rows of SCHEMA's columns to either kind of table."""
        (self.upsert if self.key else self.append)([{"id": number, "text": text} for number, text in rows.items()])

    def delete(self, keys: Sequence[Row]) -> None:
        """Rows of a primary-key table, whether they are there or not."""
        schema = pa.schema([self.info.schema.field(name) for name in self.key])
        self._write(self.deployment.cluster.delete, pa.Table.from_pylist(list(keys), schema=schema))
        for key in keys:
            self.rows.pop(self._key(key), None)

    def add_column(self, name: str, kind: pa.DataType) -> None:
        self.deployment.cluster.alter_table(self.path, {}, additions([pa.field(name, kind)]))

    def set_lake(self, enabled: bool) -> None:
        self.deployment.cluster.alter_table(self.path, {"table.datalake.enabled": str(enabled).lower()})
        tick(self.deployment.coordinator)

    def kv_snapshots(self) -> None:
        """Returns once each bucket has a KV snapshot of all its changes."""
        cluster = self.deployment.cluster
        if isinstance(cluster, KvSnapshotsOnDemand):
            cluster.take_kv_snapshots(self.path)
        ends = {bucket: offsets.log_end for bucket, offsets in cluster.offsets(self.info).items() if offsets.log_end}

        def have_all() -> bool:
            return {bucket: snapshot.log_offset for bucket, snapshot in cluster.kv_snapshots(self.info).items()} == ends

        wait_for(f"KV snapshots of {self.path}", have_all)

    def drop(self) -> None:
        self.deployment.cluster.drop_table(self.path)
        tick(self.deployment.coordinator)

    def tier(self) -> act.RoundOutcome:
        """A round, now; a failed table's back-off is over as well."""
        self.deployment.clock.advance(MAX_BACKOFF_S)
        tick(self.deployment.coordinator)
        return self.deployment.begin(self.info).end()

    def tiered(self) -> None:
        """Runs a round that succeeds. Then the lake equals the table for every reader."""
        outcome = self.tier()
        assert outcome.state is RoundState.SUCCEEDED, outcome.error
        self.check()

    def lake_rows(self) -> pa.Table:
        """Rows of the lake table, without Lakeward's columns."""
        rows = self.deployment.by_hand.rows(self.path)
        return rows.select([name for name in rows.column_names if name not in SYSTEM_COLUMNS])

    def check(self) -> None:
        """The lake has exactly the rows of the table, and DuckDB, which reads log and files itself, finds no difference."""
        names = self.info.schema.names
        expected = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in self.rows.values()], schema=self.info.schema)
        lake = self.lake_rows().select(names)
        assert _sorted(lake) == _sorted(expected)
        self.proved()

    def proved(self) -> None:
        results = validate(self.deployment.cluster, self.deployment.lake, self.path, Level.ROWS)
        assert results
        assert not [result for result in results if result.ok is False], results

    def status(self) -> Row:
        """Returns the table's row of sys.lake_tiering_status."""
        [row] = [row for row in self.deployment.sys("lake_tiering_status") if row["table_name"] == self.path.table_name]
        return row

    def call(self, procedure: str, /, **arguments: Any) -> Row:
        """The first row of a CALL about this table."""
        return self.deployment.call(procedure, table=str(self.path), **arguments)[0]

    def _key(self, row: Row) -> object:
        return tuple(row[name] for name in self.key)

    def _write(self, write: Any, rows: pa.Table) -> None:
        write(self.path, rows, f"story-{next(self.deployment.writes)}", 0)


def _sorted(rows: pa.Table) -> list[str]:
    """pyiceberg reads a NULL list of structs as an empty one, so they count for the same here; `proved` tells them apart."""
    return sorted(repr(row) for row in plain_rows(rows, empty_for_null=True))
