"""Tables of an embedded cluster that are tiered together, a round of all of them at a time, in each layout of the lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.background import tick
from support.worlds.lake_world import FRESHNESS_S, LakeWorld
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.lake.layouts import Layout
from tiering.lake.registry import open_lake
from tiering.lake.table_options import LAYOUT
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import RenameColumn, SchemaChange, additions
from tiering.model.tables import TIMESTAMP_COLUMN, TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder
from tiering.rpc.v1 import coordinator_pb2 as pb

LAYOUTS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "iceberg": {layout: {LAYOUT.name: layout} for layout in (Layout.SYSTEM_COLUMNS, Layout.CLEAN)},
    "paimon": {layout: {LAYOUT.name: layout, "table.datalake.format": "paimon"} for layout in (Layout.SYSTEM_COLUMNS, Layout.CLEAN)},
}
"""By the format of the lake its tables' layouts, each with the table options that choose it."""

Row = dict[str, Any]


class SourceTable:
    """A table, and the rows that it has to hold."""

    def __init__(self, world: TieredWorld, layout: str, info: TableInfo) -> None:
        self.world = world
        self.layout = layout
        self.info = info
        self.rows: list[Row] = []
        """Rows of the source, in no order."""
        self._writer = LogWriter(world.storage, info.path, "writer")

    @property
    def name(self) -> str:
        return str(self.info.path)

    def append(self, rows: Sequence[Row]) -> None:
        self._writer.append(pa.Table.from_pylist(list(rows), schema=self.info.schema))
        self.rows += rows

    def upsert(self, rows: Sequence[Row]) -> None:
        self._writer.upsert(pa.Table.from_pylist(list(rows), schema=self.info.schema))
        by_key = {self._key(row): row for row in (*self.rows, *rows)}
        self.rows = list(by_key.values())

    def delete(self, rows: Sequence[Row]) -> None:
        """Rows with the keys of `rows`."""
        keys = pa.schema([self.info.schema.field(name) for name in self.info.primary_key])
        self._writer.delete(pa.Table.from_pylist([{name: row[name] for name in keys.names} for row in rows], schema=keys))
        dead = {self._key(row) for row in rows}
        self.rows = [row for row in self.rows if self._key(row) not in dead]

    def add_columns(self, *fields: pa.Field[Any]) -> None:
        """Nullable columns at the end."""
        self.info = self.world.storage.alter_table(self.info.path, {}, additions(fields))
        self.rows = [{**dict.fromkeys((field.name for field in fields), None), **row} for row in self.rows]

    def change(self, *changes: SchemaChange) -> None:
        """Changes the columns. Rows get the names of renamed columns, lose dropped ones, and have NULL in added ones."""
        self.info = self.world.storage.alter_table(self.info.path, {}, changes)
        names = {change.path[0]: change.new_name for change in changes if isinstance(change, RenameColumn)}
        renamed = [{names.get(name, name): value for name, value in row.items()} for row in self.rows]
        self.rows = [{name: row.get(name) for name in self.info.schema.names} for row in renamed]

    def order(self, order: UpkeepOrder) -> None:
        """Lets the next round of the table do this upkeep instead of tiering."""
        self.world.orders[self.info.table_id] = order

    def head(self) -> int:
        """The newest snapshot of the lake table."""
        head = self.world.view(self.info).head
        assert head is not None
        return head

    def lake_columns(self) -> pa.Schema:
        """The lake table's columns with the lake's types.

        Paimon has every type of the source; the time of a record is in milliseconds there, as Fluss has it.
        """
        if self.world.lake_format == "iceberg":
            return self.world.lake.columns(self.world.view(self.info))
        columns = Layout(self.layout).lake_schema(self.info)
        if TIMESTAMP_COLUMN not in columns.names:
            return columns
        return columns.set(columns.get_field_index(TIMESTAMP_COLUMN), pa.field(TIMESTAMP_COLUMN, pa.timestamp("ms", "UTC")))

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.info.primary_key)


class TieredWorld(LakeWorld):
    """Embedded cluster, coordinator and inline rounds in one folder, and a lake of a format."""

    def __init__(self, folder: Path, lake_format: str = "iceberg") -> None:
        super().__init__(folder)
        self.lake_format = lake_format
        if lake_format != "iceberg":
            self.lake = open_lake(lake_format, self.lake_properties)
        self._assignment: pb.LakeTieringHeartbeatResponse | None = None
        self._tables: dict[int, TableInfo] = {}
        self.orders: dict[int, UpkeepOrder] = {}
        """The upkeep that the next round of a table does, by table id."""

    def _open_cluster(self, folder: Path) -> EmbeddedStorage:
        return EmbeddedStorage(folder, self.clock, RandomIds(), lambda table: self.lake.check_schema(table))

    def make(self, layout: str, name: str, schema: pa.Schema, buckets: int, spec: Mapping[str, tuple[str, ...]]) -> SourceTable:
        """A new table that is tiered, in a database of its layout. `spec`: keys of `TableSpec`."""
        path = TablePath(layout.replace("-", "_"), name)
        self.storage.create_database(path.database_name, ignore_if_exists=True)
        options = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{FRESHNESS_S} s", **LAYOUTS[self.lake_format][layout]}
        info = self.storage.create_table(path, TableSpec(schema, buckets, properties=options, **spec))
        tick(self.coordinator)
        self._tables[info.table_id] = info
        return SourceTable(self, layout, info)

    def tier_all(self) -> None:
        """A round of every table."""
        self.due()
        while (answer := self.beat(request_table=True)).HasField("tiering_table"):
            self._assignment = answer
            table_id = answer.tiering_table.table_id
            upkeep = {"upkeep": self.orders.pop(table_id)} if table_id in self.orders else {}
            outcome = self.begin(self._tables[table_id], **upkeep).end()
            assert outcome.state in (RoundState.SUCCEEDED, RoundState.EMPTY), outcome

    @property
    def warehouse(self) -> str:
        """The lake's folder."""
        return self.lake_properties["warehouse"].removeprefix("file://")

    def _request_table(self, table: TableInfo) -> pb.LakeTieringHeartbeatResponse:
        assert self._assignment is not None
        return self._assignment


@dataclass(frozen=True)
class Tables:
    """Makes tables of one layout."""

    world: TieredWorld
    layout: str

    def make(self, name: str, schema: pa.Schema, buckets: int = 2, **spec: tuple[str, ...]) -> SourceTable:
        """Creates a table as `TieredWorld.make` does."""
        return self.world.make(self.layout, name, schema, buckets, spec)
