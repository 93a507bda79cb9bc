"""The lakes that the conformance suite runs on, each with what a test must do to it from outside. A new format gets its entry here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pypaimon import CatalogFactory

from support.lakes.lake_kit import ObservedCatalog
from support.lakes.lake_proof import places_by_footers, places_in_files
from support.lakes.stored_files import file_system_of, pypaimon_options
from support.lakes.swept_lake import SweptMemoryLake
from tiering.lake.base import Lake, LakeCommitter, LakeTieringFactory, LakeView
from tiering.lake.catalog_properties import storage_properties
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.lake.iceberg.factory import IcebergTieringFactory
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.layouts import Layout
from tiering.lake.paimon.commit.committer import PaimonCommitter, publish
from tiering.lake.paimon.factory import PaimonTieringFactory
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.opening import warehouse_folder, warehouse_in_s3
from tiering.lake.paimon.storage.s3 import S3Storage
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.lake.table_options import LAYOUT
from tiering.lake.writing.sent_rounds import SentRounds
from tiering.model.tables import TableInfo


class LakeUnderTest(ABC):
    """One lake. `lake` is the process's own; `another_process` opens it again, as a second driver would."""

    lake: Lake
    factories_travel = True
    """Whether a factory pickles, as it must for executors in other processes."""
    holds_primary_keys = True
    """Whether primary-key tables can be tiered to it."""

    @abstractmethod
    def another_process(self) -> Lake: ...

    @abstractmethod
    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        """(bucket, offset) of every row that a reader of the head sees, sorted. Not by Lakeward's own code, if that can be."""

    def names(self, table: TableInfo) -> dict[int, str]:
        """`name` by `id` of every row that a reader of the head sees; of lakes that hold primary-key tables."""
        raise NotImplementedError

    @abstractmethod
    def foreign_commit(self, table: TableInfo) -> None:
        """Commits to the table as another writer, without a row more or less."""

    @abstractmethod
    def faulty_committer(self, factory: LakeTieringFactory, *, lands: bool) -> LakeCommitter:
        """A committer whose one request gets no answer. `lands`: whether the request itself arrives."""


class IcebergUnderTest(LakeUnderTest):
    """Tables in a folder, the catalog in SQLite."""

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        self._properties = local_lake_properties(folder) if properties is None else dict(properties)
        self.lake = IcebergLake(self._properties)

    def another_process(self) -> Lake:
        return IcebergLake(self._properties)

    def _opened(self) -> Catalog:
        return load_catalog("lake", **self._properties)

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        rows = self._opened().load_table(str(table.path)).scan(selected_fields=("__bucket", "__offset")).to_arrow().to_pylist()
        return sorted((row["__bucket"], row["__offset"]) for row in rows)

    def names(self, table: TableInfo) -> dict[int, str]:
        rows = self._opened().load_table(str(table.path)).scan().to_arrow().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["name"] for row in rows}

    def foreign_commit(self, table: TableInfo) -> None:
        iceberg = self._opened().load_table(str(table.path))
        iceberg.append(pa.Table.from_batches([], schema=iceberg.scan().to_arrow().schema))

    def faulty_committer(self, factory: LakeTieringFactory, *, lands: bool) -> LakeCommitter:
        assert isinstance(factory, IcebergTieringFactory)
        catalog: Any = ObservedCatalog(factory.catalog, ConnectionError("no answer"), lands=lands)
        return replace(factory, catalog=catalog).create_committer()


class InS3UnderTest(IcebergUnderTest):
    """Tables in S3, by a catalog that other tests had before: what they left in it goes first."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        super().__init__(folder, properties)
        catalog = self._opened()
        for namespace in catalog.list_namespaces():
            for table in catalog.list_tables(namespace):
                catalog.drop_table(table)


class CleanLake(IcebergLake):
    """Makes tables with the layout clean."""

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        clean = replace(table, properties={LAYOUT.name: Layout.CLEAN, **table.properties})
        return super().ensure_table(clean, may_create=may_create)


class CleanUnderTest(IcebergUnderTest):
    """Tables without system columns: offsets stand in the footers of their files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lake = CleanLake(self._properties)

    def another_process(self) -> Lake:
        return CleanLake(self._properties)

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        return sorted(places_by_footers(self._opened().load_table(str(table.path))))


class HadoopUnderTest(IcebergUnderTest):
    """Tables in a folder, without any catalog but the names of their metadata files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"type": "hadoop", "warehouse": str(folder / "warehouse")})

    def _opened(self) -> Catalog:
        return open_catalog(self._properties)  # pyiceberg has no such catalog


class HdfsUnderTest(HadoopUnderTest):
    """A hadoop catalog on HDFS. `folder`: below the root of the HDFS at `name_node`."""

    def __init__(self, name_node: str, folder: str) -> None:
        IcebergUnderTest.__init__(self, Path(folder), {"type": "hadoop", "warehouse": f"hdfs://{name_node}/{folder}"})


class PaimonUnderTest(LakeUnderTest):
    """Paimon tables in a folder, read by pypaimon."""

    def __init__(self, folder: Path) -> None:
        self._properties = local_lake_properties(folder)
        self.lake = open_lake("paimon", self._properties)

    def another_process(self) -> Lake:
        return open_lake("paimon", self._properties)

    def _table(self, table: TableInfo) -> Any:
        return CatalogFactory.create(pypaimon_options(self._properties)).get_table(str(table.path))

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        builder = self._table(table).new_read_builder().with_projection(["__bucket", "__offset"])
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
        return sorted((row["__bucket"], row["__offset"]) for row in rows)

    def names(self, table: TableInfo) -> dict[int, str]:
        builder = self._table(table).new_read_builder()
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["name"] for row in rows}

    def foreign_commit(self, table: TableInfo) -> None:
        builder = self._table(table).copy({"snapshot.ignore-empty-commit": "false"}).new_batch_write_builder()
        builder.new_commit().commit([])

    def faulty_committer(self, factory: LakeTieringFactory, *, lands: bool) -> LakeCommitter:
        assert isinstance(factory, PaimonTieringFactory)

        def publisher(*request: Any) -> None:
            if lands:
                publish(*request)
            raise ConnectionError("no answer")

        return PaimonCommitter(factory.state.root, SentRounds(), publisher, factory.state.storage)


class PaimonInS3UnderTest(PaimonUnderTest):
    """A Paimon lake in S3."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self.lake = self.another_process()


class CleanPaimonLake(PaimonLake):
    """Makes tables with the layout clean."""

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        clean = replace(table, properties={LAYOUT.name: Layout.CLEAN, **table.properties})
        return super().ensure_table(clean, may_create=may_create)


class CleanPaimonUnderTest(PaimonUnderTest):
    """Paimon tables without system columns: offsets stand in the footers of their files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lake = self.another_process()

    def another_process(self) -> Lake:
        return CleanPaimonLake(warehouse_folder(self._properties))

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        splits = self._table(table).new_read_builder().new_scan().plan().splits()
        return sorted(places_in_files((file.file_path for split in splits for file in split.files), file_system_of(self._properties)))


class CleanPaimonInS3UnderTest(CleanPaimonUnderTest):
    """A clean Paimon lake in S3."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self.lake = self.another_process()

    def another_process(self) -> Lake:
        return CleanPaimonLake(warehouse_in_s3(self._properties), S3Storage.of(storage_properties(self._properties)))


class MemoryUnderTest(LakeUnderTest):
    """The simulator's lake. It lives in this process alone."""

    factories_travel = False
    holds_primary_keys = False

    def __init__(self, *, tag_moves_in_the_commit: bool = True) -> None:
        self._lake = SweptMemoryLake()
        self._lake.tag_moves_in_the_commit = tag_moves_in_the_commit
        self._lake.now = lambda: datetime.now().astimezone()
        self.lake = self._lake

    def another_process(self) -> Lake:
        return self._lake

    def offsets(self, table: TableInfo) -> list[tuple[int, int]]:
        ranges = self._lake.rows(table.path)
        return sorted((bucket.bucket_id, offset) for bucket, start, stop, _ in ranges for offset in range(start, stop))

    def foreign_commit(self, table: TableInfo) -> None:
        self._lake.foreign_commit(table.path)

    def faulty_committer(self, factory: LakeTieringFactory, *, lands: bool) -> LakeCommitter:
        self._lake.faults = iter(["answer lost" if lands else "lost", *["ok"] * 100]).__next__
        return factory.create_committer()


LAKES: Mapping[str, Callable[[Path], LakeUnderTest]] = {
    "iceberg": IcebergUnderTest,
    "iceberg, clean layout": CleanUnderTest,
    "iceberg, hadoop catalog": HadoopUnderTest,
    "paimon": PaimonUnderTest,
    "paimon, clean layout": CleanPaimonUnderTest,
    "memory": lambda _: MemoryUnderTest(),
    "memory, whose tag follows the commit": lambda _: MemoryUnderTest(tag_moves_in_the_commit=False),
}
