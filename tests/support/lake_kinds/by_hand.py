"""Changes of a lake table by a user beside Lakeward, in each format with its own means."""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, ancestors_of
from pyiceberg.types import StringType
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

from support.lakes.stored_files import file_system_of, is_in_s3, path_in, pypaimon_options
from tiering.lake.base import FLUSS_COMMIT_USER_KEY
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.model.tables import TablePath

_REMOVED = 1
"""The kind of an entry in a Paimon manifest that takes a file out."""


class LakeByHand(ABC):
    """A lake as another program sees it. Nothing is remembered between calls."""

    @abstractmethod
    def tables(self, database: str) -> list[str]: ...

    @abstractmethod
    def rows(self, path: TablePath) -> pa.Table:
        """Returns the rows that readers of the head see."""

    @abstractmethod
    def data_files(self, path: TablePath) -> list[Path]:
        """Returns the files that have these rows."""

    @abstractmethod
    def snapshots(self, path: TablePath) -> list[int]:
        """The snapshots in the order of their commits."""

    @abstractmethod
    def line(self, path: TablePath) -> list[int]:
        """The head and its ancestors that are kept, oldest first."""

    def former_head(self, path: TablePath) -> int | None:
        """Returns the target of a roll-back: the newest ancestor of the head; None = there is none."""
        line = self.line(path)
        return line[-2] if len(line) > 1 else None

    def head(self, path: TablePath) -> int:
        """The newest of them."""
        return self.snapshots(path)[-1]

    @abstractmethod
    def drop(self, path: TablePath) -> None: ...

    @abstractmethod
    def rename(self, path: TablePath, name: str) -> None:
        """Another name in the same database."""

    @abstractmethod
    def append(self, path: TablePath, rows: pa.Table, properties: Mapping[str, str]) -> None:
        """Rows of the table's columns, as far as it has them. `properties`: of the new snapshot."""

    @abstractmethod
    def empty(self, path: TablePath) -> None:
        """A snapshot without any row."""

    @abstractmethod
    def overwrite(self, path: TablePath, rows: pa.Table) -> None:
        """These rows in the place of all others, in other files, without a property of ours."""

    def rewrite(self, path: TablePath) -> None:
        """Moves the same rows to other files: a compaction."""
        self.overwrite(path, self.rows(path))

    @abstractmethod
    def take_out(self, path: TablePath, name: str) -> None:
        """A data file is in the table no more; it stays in its folder."""

    @abstractmethod
    def put_in(self, path: TablePath, source: TablePath, name: str, instead_of: str) -> Path:
        """A copy of a data file of `source`, under its own name, takes the place of one of the table's: its partition and bucket."""

    @abstractmethod
    def roll_back(self, path: TablePath, snapshot_id: int) -> None: ...

    @abstractmethod
    def expire(self, path: TablePath) -> None:
        """Expires all snapshots that may expire: in Paimon all but the head, even if they are protected."""

    def maintain(self, path: TablePath) -> None:
        """Does ordinary maintenance: two compactions, then all unprotected snapshots expire."""
        self.rewrite(path)
        self.rewrite(path)
        self.expire_unkept(path)

    def expire_unkept(self, path: TablePath) -> None:
        """Expires snapshots as the format's own expiry does."""
        self.expire(path)

    @abstractmethod
    def forget_history(self, path: TablePath) -> None:
        """Nothing tells any more from which snapshots that expired the head descends."""

    @abstractmethod
    def add_text_column(self, path: TablePath, name: str) -> None: ...

    @abstractmethod
    def drop_column(self, path: TablePath, name: str) -> None: ...

    @abstractmethod
    def rename_column(self, path: TablePath, name: str, renamed: str) -> None: ...

    @abstractmethod
    def create(self, path: TablePath, columns: pa.Schema) -> None:
        """Creates a user's own table."""

    @abstractmethod
    def delete(self, path: TablePath, column: str, value: int) -> None:
        """All rows that have that value."""

    def exists(self, path: TablePath) -> bool:
        return path.table_name in self.tables(path.database_name)


class IcebergByHand(LakeByHand):
    """By pyiceberg."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)

    def _catalog(self) -> Catalog:
        is_hadoop = self._properties.get("type") == "hadoop"  # of which pyiceberg has no catalog
        return open_catalog(self._properties) if is_hadoop else load_catalog("lake", **self._properties)

    def _load(self, path: TablePath) -> Table:
        return self._catalog().load_table(str(path))

    def tables(self, database: str) -> list[str]:
        catalog = self._catalog()
        return sorted(name for _, name in catalog.list_tables(database)) if catalog.namespace_exists(database) else []

    def rows(self, path: TablePath) -> pa.Table:
        return self._load(path).scan().to_arrow()

    def data_files(self, path: TablePath) -> list[Path]:
        return [Path(urlparse(task.file.file_path).path) for task in self._load(path).scan().plan_files()]

    def snapshots(self, path: TablePath) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self._load(path).metadata.snapshots]

    def line(self, path: TablePath) -> list[int]:
        metadata = self._load(path).metadata
        return [snapshot.snapshot_id for snapshot in ancestors_of(metadata.current_snapshot(), metadata)][::-1]

    def former_head(self, path: TablePath) -> int | None:
        """Passes by what took rows out: pyiceberg rewrites in two snapshots, and the table is empty between them."""
        metadata = self._load(path).metadata
        former = list(ancestors_of(metadata.current_snapshot(), metadata))[1:]
        return next((row.snapshot_id for row in former if row.summary is None or row.summary.operation is not Operation.DELETE), None)

    def drop(self, path: TablePath) -> None:
        self._catalog().drop_table(str(path))

    def rename(self, path: TablePath, name: str) -> None:
        self._catalog().rename_table(str(path), f"{path.database_name}.{name}")

    def append(self, path: TablePath, rows: pa.Table, properties: Mapping[str, str]) -> None:
        loaded = self._load(path)
        loaded.append(_in_columns(rows, loaded.schema().as_arrow()), snapshot_properties=dict(properties))

    def empty(self, path: TablePath) -> None:
        self._load(path).delete()

    def overwrite(self, path: TablePath, rows: pa.Table) -> None:
        self._load(path).overwrite(rows)

    def take_out(self, path: TablePath, name: str) -> None:
        loaded = self._load(path)
        with loaded.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
            overwrite.delete_data_file(self._file(path, name))

    def put_in(self, path: TablePath, source: TablePath, name: str, instead_of: str) -> Path:
        loaded, theirs, own = self._load(path), self._file(source, name), self._file(path, instead_of)
        folder = own.file_path.rpartition("/")[0]
        copy = Path(shutil.copy(urlparse(theirs.file_path).path, Path(urlparse(folder).path) / name))
        moved = DataFile.from_args(
            content=theirs.content,
            file_path=f"{folder}/{name}",
            file_format=theirs.file_format,
            partition=own.partition,
            record_count=theirs.record_count,
            file_size_in_bytes=theirs.file_size_in_bytes,
            split_offsets=theirs.split_offsets,
        )
        moved.spec_id = own.spec_id
        with loaded.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
            overwrite.delete_data_file(own)
            overwrite.append_data_file(moved)
        return copy

    def _file(self, path: TablePath, name: str) -> DataFile:
        [file] = [task.file for task in self._load(path).scan().plan_files() if task.file.file_path.endswith(f"/{name}")]
        return file

    def roll_back(self, path: TablePath, snapshot_id: int) -> None:
        self._load(path).manage_snapshots().rollback_to_snapshot(snapshot_id).commit()

    def expire(self, path: TablePath) -> None:
        self._load(path).maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()

    def forget_history(self, path: TablePath) -> None:
        """The metadata files that the newest one names are deleted."""
        loaded = self._load(path)
        for entry in loaded.metadata.metadata_log:
            if loaded.io.new_input(entry.metadata_file).exists():
                loaded.io.delete(entry.metadata_file)

    def expire_these(self, path: TablePath, snapshot_ids: Collection[int]) -> None:
        """Metadata alone: files stay."""
        self._load(path).maintenance.expire_snapshots().by_ids(list(snapshot_ids)).commit()

    def add_text_column(self, path: TablePath, name: str) -> None:
        with self._load(path).update_schema() as update:
            update.add_column(name, StringType())

    def drop_column(self, path: TablePath, name: str) -> None:
        with self._load(path).update_schema() as update:
            update.delete_column(name)

    def rename_column(self, path: TablePath, name: str, renamed: str) -> None:
        with self._load(path).update_schema() as update:
            update.rename_column(name, renamed)

    def create(self, path: TablePath, columns: pa.Schema) -> None:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(path.database_name)
        catalog.create_table(str(path), columns)

    def delete(self, path: TablePath, column: str, value: int) -> None:
        self._load(path).delete(EqualTo(column, value))


class PaimonByHand(LakeByHand):
    """By pypaimon, and by what Paimon's own commands do to the files of a table's folder."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse = warehouse

    def _catalog(self) -> Any:
        return CatalogFactory.create({"warehouse": str(self._warehouse)})

    def _load(self, path: TablePath) -> Any:
        return self._catalog().get_table(str(path))

    def folder(self, path: TablePath) -> Path:
        return self._warehouse / f"{path.database_name}.db" / path.table_name

    def tables(self, database: str) -> list[str]:
        folder = self._warehouse / f"{database}.db"
        return sorted({file.parts[-3] for file in folder.glob("*/schema/schema-*")})  # without one a folder is no table

    def rows(self, path: TablePath) -> pa.Table:
        builder = self._load(path).new_read_builder()
        return cast(pa.Table, builder.new_read().to_arrow(builder.new_scan().plan().splits()))

    def data_files(self, path: TablePath) -> list[Path]:
        splits = self._load(path).new_read_builder().new_scan().plan().splits()
        return [Path(urlparse(file.file_path).path) for split in splits for file in split.files]

    def snapshots(self, path: TablePath) -> list[int]:
        return sorted(int(file.name.rpartition("-")[2]) for file in (self.folder(path) / "snapshot").glob("snapshot-*"))

    def line(self, path: TablePath) -> list[int]:
        return self.snapshots(path)

    def drop(self, path: TablePath) -> None:
        self._catalog().drop_table(str(path), False)

    def rename(self, path: TablePath, name: str) -> None:
        self.folder(path).rename(self.folder(path).with_name(name))

    def append(self, path: TablePath, rows: pa.Table, properties: Mapping[str, str]) -> None:
        self._write(path, rows, overwrite=False)
        self._describe_head(path, properties)

    def empty(self, path: TablePath) -> None:
        self._load(path).new_batch_write_builder().new_commit().truncate_table()

    def overwrite(self, path: TablePath, rows: pa.Table) -> None:
        self._write(path, rows, overwrite=True)

    def take_out(self, path: TablePath, name: str) -> None:
        self._commit(path, [replace(self._entry(path, name), kind=_REMOVED)])

    def put_in(self, path: TablePath, source: TablePath, name: str, instead_of: str) -> Path:
        theirs, own = self._entry(source, name), self._entry(path, instead_of)
        files = {file.name: file for place in (source, path) for file in self.data_files(place)}
        copy = Path(shutil.copy(files[name], files[instead_of].with_name(name)))
        moved = replace(theirs, partition=own.partition, bucket=own.bucket, total_buckets=own.total_buckets)
        self._commit(path, [replace(own, kind=_REMOVED), moved])
        return copy

    def _entry(self, path: TablePath, name: str) -> Any:
        view = PaimonLake(self._warehouse).view(path)
        assert view is not None
        loaded = cast(LoadedTable, view.handle)
        assert loaded.head is not None
        [entry] = [entry for entry in Manifests(loaded).live_entries(loaded.head) if entry.file.file_name == name]
        return entry

    def _commit(self, path: TablePath, entries: list[Any]) -> None:
        commit = self._load(path).new_batch_write_builder().new_commit().file_store_commit
        commit._try_commit("OVERWRITE", 1, lambda _: entries, changelog_entries=[])

    def roll_back(self, path: TablePath, snapshot_id: int) -> None:
        """LATEST first, then the newer snapshots go; their ids come again."""
        folder = self.folder(path) / "snapshot"
        (folder / "LATEST").write_text(str(snapshot_id))
        for newer in self.snapshots(path):
            if newer > snapshot_id:
                (folder / f"snapshot-{newer}").unlink()

    def expire(self, path: TablePath) -> None:
        self.expire_before(path, self.head(path))

    def expire_unkept(self, path: TablePath) -> None:
        """Consumers keep their next snapshot, and what came after it."""
        consumers = (self.folder(path) / "consumer").glob("consumer-*")
        self.expire_before(path, min((json.loads(file.read_text())["nextSnapshot"] for file in consumers), default=self.head(path)))

    def forget_history(self, path: TablePath) -> None:
        """Snapshots alone tell it."""

    def expire_before(self, path: TablePath, kept: int) -> None:
        """The oldest go first, then EARLIEST is written."""
        folder = self.folder(path) / "snapshot"
        for snapshot_id in self.snapshots(path):
            if snapshot_id < kept:
                (folder / f"snapshot-{snapshot_id}").unlink()
        (folder / "EARLIEST").write_text(str(kept))

    def add_text_column(self, path: TablePath, name: str) -> None:
        self._alter(path, SchemaChange.add_column(name, AtomicType("STRING")))

    def drop_column(self, path: TablePath, name: str) -> None:
        self._alter(path, SchemaChange.drop_column(name))

    def rename_column(self, path: TablePath, name: str, renamed: str) -> None:
        self._alter(path, SchemaChange.rename_column(name, renamed))

    def create(self, path: TablePath, columns: pa.Schema) -> None:
        catalog = self._catalog()
        catalog.create_database(path.database_name, True)
        catalog.create_table(str(path), Schema.from_pyarrow_schema(columns), False)

    def delete(self, path: TablePath, column: str, value: int) -> None:
        rows = self.rows(path)
        self._write(path, rows.filter(pc.not_equal(rows[column], value)), overwrite=True)

    def _alter(self, path: TablePath, change: Any) -> None:
        self._catalog().alter_table(str(path), [change], False)

    def _write(self, path: TablePath, rows: pa.Table, *, overwrite: bool) -> None:
        table = self._load(path)
        builder = table.new_batch_write_builder()
        if overwrite:
            builder = builder.overwrite()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(_in_columns(rows, rows.schema if overwrite else self.rows(path).schema))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def _describe_head(self, path: TablePath, properties: Mapping[str, str]) -> None:
        """The head's snapshot file, made anew with these properties."""
        file = self.folder(path) / "snapshot" / f"snapshot-{self.snapshots(path)[-1]}"
        document = json.loads(file.read_text())
        document["properties"] = {name: value for name, value in properties.items() if name != FLUSS_COMMIT_USER_KEY}
        document["commitUser"] = properties.get(FLUSS_COMMIT_USER_KEY, document["commitUser"])
        written = file.with_name("written")
        written.write_text(json.dumps(document))
        os.replace(written, file)


class PaimonInS3ByHand(PaimonByHand):
    """A Paimon table in S3, as far as pypaimon supports it: reading, dropping, and commits."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(Path(path_in(properties["warehouse"])))
        self._options = pypaimon_options(properties)
        self._files = file_system_of(properties)

    def _catalog(self) -> Any:
        return CatalogFactory.create(self._options)

    def tables(self, database: str) -> list[str]:
        selector = FileSelector(str(self._warehouse / f"{database}.db"), recursive=True, allow_not_found=True)
        return sorted({Path(info.path).parts[-3] for info in self._files.get_file_info(selector) if "/schema/schema-" in info.path})

    def data_files(self, path: TablePath) -> list[Path]:
        """Paths of the store."""
        splits = self._load(path).new_read_builder().new_scan().plan().splits()
        return [Path(path_in(file.file_path)) for split in splits for file in split.files]

    def snapshots(self, path: TablePath) -> list[int]:
        selector = FileSelector(str(self.folder(path) / "snapshot"), allow_not_found=True)
        names = [info.base_name for info in self._files.get_file_info(selector)]
        return sorted(int(name.rpartition("-")[2]) for name in names if name.startswith("snapshot-"))


def lake_by_hand(lake_format: str, properties: Mapping[str, str]) -> LakeByHand:
    """The lake of these properties."""
    if lake_format != "paimon":
        return IcebergByHand(properties)
    if is_in_s3(properties):
        return PaimonInS3ByHand(properties)
    return PaimonByHand(Path(urlparse(properties["warehouse"]).path))


def _in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows.to_pylist(), schema=schema)
