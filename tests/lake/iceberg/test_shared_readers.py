"""Manifests are read the same with readers that files share, and a reader is built once for files of one schema."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.typedef import Record
from pyiceberg.utils.lazydict import LazyDict

from support.lakes.lake_kit import LakeKit, bucket
from tiering.library_guards import avro_readers
from tiering.model.tables import TableInfo


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The schemas for which a reader was built, in order."""
    schemas = list[object]()
    resolve = avro_readers.resolve_reader

    def counting(schema: Any, *arguments: Any) -> Any:
        schemas.append(schema)
        return resolve(schema, *arguments)

    monkeypatch.setattr(avro_readers, "resolve_reader", counting)
    monkeypatch.setattr(avro_readers, "_readers", type(avro_readers._readers)())
    return schemas


def entries(kit: LakeKit, table: TableInfo) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
    loaded = kit.catalog().load_table(str(table.path))
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    io = PyArrowFileIO()
    return [(manifest, manifest.fetch_manifest_entry(io)) for manifest in snapshot.manifests(io)]


def described(listed: list[tuple[ManifestFile, list[ManifestEntry]]]) -> list[list[object]]:
    """The values of all fields; those of maps as pairs."""
    return [values(record) for manifest, entries in listed for entry in entries for record in (manifest, entry, entry.data_file)]


def values(record: Record) -> list[object]:
    return [
        dict(value.items()) if isinstance(value, LazyDict) else repr(value) for value in record._data if not isinstance(value, DataFile)
    ]


@pytest.fixture
def tables(kit: LakeKit) -> list[TableInfo]:
    """Two tables with one layout and one with another, each after some rounds."""
    layouts = {"first": 2, "second": 2, "third": 1}
    results = [kit.table(name, table_id=number, bucket_count=count) for number, (name, count) in enumerate(layouts.items(), 1)]
    for table in results:
        for number in range(1, 4):
            kit.tier(table, f"{table.path.table_name}{number}", {bucket(index): number * 10 for index in range(table.bucket_count)})
    return results


def test_entries_are_the_same_as_with_a_reader_for_each_file(
    kit: LakeKit, tables: list[TableInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = [described(entries(kit, table)) for table in tables for _ in range(2)]
    monkeypatch.setattr(AvroFile, "__enter__", avro_readers._build_and_enter)
    assert shared == [described(entries(kit, table)) for table in tables for _ in range(2)]
    assert all(shared)


def test_a_reader_is_built_once_for_files_of_one_schema(kit: LakeKit, tables: list[TableInfo], built: list[object]) -> None:
    entries(kit, tables[0])
    assert built
    built.clear()
    entries(kit, tables[0])
    entries(kit, tables[1])
    assert not built


def test_few_readers_are_remembered(kit: LakeKit, tables: list[TableInfo], built: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_readers, "REMEMBERED", 1)
    expected = described(entries(kit, tables[0]))
    assert described(entries(kit, tables[0])) == expected
    assert len(built) >= 4
    assert len(avro_readers._readers) == 1


def test_the_reader_of_a_very_long_schema_is_not_remembered(
    kit: LakeKit, tables: list[TableInfo], built: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_readers, "LONGEST_SCHEMA", 10)
    entries(kit, tables[0])
    assert built
    assert not avro_readers._readers
