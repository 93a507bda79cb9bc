"""A whole deployment in one process, over a data folder with a real Paimon lake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from support.background import tick
from support.lakes.lake_proof import places_in_files
from support.lakes.paimon_kit import PaimonKit
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import FRESHNESS_S
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.lake.paimon.lake import PaimonLake
from tiering.model.tables import TableInfo, TablePath


class PaimonWorld(FolderWorld):
    """`kit` is the folder of the lake, and pypaimon as another reader and writer of it."""

    lake: Any

    def __init__(self, folder: Path) -> None:
        self.kit = PaimonKit(folder)
        super().__init__(folder)

    def _open_lake(self) -> PaimonLake:
        return PaimonLake(self.kit.warehouse)

    def _open_cluster(self, folder: Path) -> EmbeddedStorage:
        return EmbeddedStorage(folder, self.clock, RandomIds(), lambda table: self.lake.check_schema(table))

    def log_table(self, name: str, **options: Any) -> TableInfo:
        return self.table(name, datalake_format="paimon", **options)

    def keyed_table(self, name: str, **options: Any) -> TableInfo:
        return self.primary_key_table(name, datalake_format="paimon", **options)

    def create(self, name: str, spec: TableSpec, **more: str) -> TableInfo:
        """A table of any shape. An option `log_ttl` is `table.log.ttl`."""
        self.storage.create_database("sales", ignore_if_exists=True)
        options = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{FRESHNESS_S} s", "table.datalake.format": "paimon"}
        options |= {f"table.{name.replace('_', '.')}": value for name, value in more.items()}
        table = self.storage.create_table(TablePath("sales", name), replace(spec, properties=options))
        tick(self.coordinator)
        return table

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        """Returns the offsets that pypaimon reads, each once. For a clean table, they come from the footers of the files that pypaimon
        would read."""
        rows = self.kit.read(table)
        if "__offset" not in rows.column_names:
            splits = self.kit.by_pypaimon(table).new_read_builder().new_scan().plan().splits()
            return sorted(places_in_files(file.file_path for split in splits for file in split.files))
        return sorted(zip(rows["__bucket"].to_pylist(), rows["__offset"].to_pylist(), strict=True))

    def whole(self, table: TableInfo) -> list[tuple[int, int]]:
        return sorted((bucket, offset) for bucket, end in self.ends(table).items() for offset in range(end))

    def data_files(self, table: TableInfo) -> list[Path]:
        """The files of its rows by partition, bucket and age; without those of changes."""
        files = [file for file in self.kit.folder(table).rglob("bucket-*/*.parquet") if "-changelog-" not in file.name]
        return sorted(files, key=lambda file: (str(file.parent), file.stat().st_mtime_ns))
