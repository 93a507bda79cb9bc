"""The engine `duckdb` on a data folder, which it only reads. It needs no Spark and no service."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.query.reading import statement_view_of
from tiering.cli.processes.data_folder import DataFolder, read_data_folder
from tiering.cli.sql.engine import Result, errors_of_statements
from tiering.cli.sql.fresh_reads import reads_of_folder
from tiering.clock import SystemClock
from tiering.cluster.registry import cluster_kind, kind_in
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.status.offline_view import offline_view
from tiering.lake.base import Lake
from tiering.lake.catalog_properties import with_default_catalog
from tiering.lake.registry import lake_opener
from tiering.model.tables import DEFAULT_LAKE_FORMAT, TablePath
from tiering.union_read.plan import LakeOpener
from tiering.validate.child import ClusterValidation


class DuckDbEngine:
    """Runs statements on a data folder. Raises SetupError if there is no data folder, or for a folder of another version."""

    def __init__(self, data: Path, lake_format: str, lake_properties: Mapping[str, str]) -> None:
        folder = read_data_folder(data)
        properties = with_default_catalog(lake_properties, folder.read_only_lake_properties)

        validation = ClusterValidation(kind_in(folder.cluster), folder.cluster, lake_format, properties)

        with ExitStack() as opened:
            store = SqlStore.for_reading(folder.store_file)
            opened.callback(store.close)
            cluster = cluster_kind(kind_in(folder.cluster)).open_read_only(folder.cluster)
            opened.callback(cluster.close)
            self._opened = opened.pop_all()
        clock, open_lake = SystemClock(), _opener(folder, properties)
        source = OfflineSource(
            read_view=lambda: statement_view_of(offline_view(store, cluster, clock, open_lake)),
            open_lake=open_lake,
            open_read=reads_of_folder(store, cluster, open_lake),
            lake_format=lake_format,
            validate=lambda call: validation.run(call.path, call.level, call.snapshot_id),
            start_command=f"lakeward up --data {folder.root}",
        )
        self._engine = OfflineEngine(source)

    def execute(self, statement: str) -> Result:
        """Runs a statement, see `Engine.execute`."""
        with errors_of_statements():
            answer = self._engine.execute(statement)
        return Result(answer.columns, answer.rows)

    def close(self) -> None:
        """Closes the files of the data folder."""
        self._opened.close()


class NoLakeTables:
    """The lake of a data folder whose catalog does not exist yet."""

    format = DEFAULT_LAKE_FORMAT

    def view(self, path: TablePath) -> None:
        """Returns None: no table is in the lake."""


def _opener(folder: DataFolder, properties: Mapping[str, str]) -> LakeOpener:
    """Returns the opener of the lakes. A missing catalog of the default lake has no tables; a reader does not create it."""
    opened = lake_opener(properties)
    is_default = properties.get("uri") == folder.read_only_lake_properties["uri"]

    def open_lake(lake_format: str) -> Lake:
        if is_default and lake_format == DEFAULT_LAKE_FORMAT and not folder.has_lake_catalog:
            return cast(Lake, NoLakeTables())
        return opened(lake_format)

    return open_lake
