"""The list of a Paimon table's files for other engines, the tables that it refuses, and the sizes in the manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

from support.lakes.paimon_kit import KeyedRounds, PaimonKit
from tiering.errors import InvalidArgument
from tiering.lake.base import LakeView
from tiering.lake.file_lists import FIELD_ID_KEY
from tiering.model.tables import ChangeType, TableInfo, TablePath, TableType

KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def parquet_files(kit: PaimonKit, table: TableInfo) -> list[Path]:
    return [file for file in kit.folder(table).glob("bucket-*/*.parquet") if "-changelog-" not in file.name]


def size(view: LakeView | None) -> tuple[int | None, int | None]:
    assert view is not None
    return view.files, view.size_bytes


def size_on_disk(kit: PaimonKit, table: TableInfo) -> tuple[int, int]:
    files = parquet_files(kit, table)
    return len(files), sum(file.stat().st_size for file in files)


def test_the_size_of_a_table_follows_its_snapshots_also_those_of_others_and_after_a_roll_back(kit: PaimonKit) -> None:
    table = kit.log_table()
    assert kit.lake.ensure_table(table).head is None
    assert size(kit.lake.view(table.path)) == (0, 0)
    for number in range(3):
        kit.tier(table, f"r{number}", range(number, number + 5))
        assert size(kit.lake.view(table.path)) == size_on_disk(kit, table) == size(kit.view(table))
    kit.foreign_commit(table)
    assert size(kit.lake.view(table.path)) == size_on_disk(kit, table)
    kit.roll_back(table, 1)
    small = size(kit.lake.view(table.path))
    assert small == size(kit.view(table))
    assert small[0] == 1
    kit.tier(table, "r9", range(50))
    again = size(kit.lake.view(table.path))
    assert again == size(kit.view(table))
    assert (again[0], again > small) == (2, True)


def test_a_manifest_that_cannot_be_read_leaves_the_size_unknown_and_the_rest_known(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", range(5))
    for manifest in (kit.folder(table) / "manifest").glob("*-m0.avro"):
        manifest.write_bytes(b"no manifest")
    view = kit.view(table)
    assert (size(view), view.head, view.records) == ((None, None), 1, 5)


def test_files_are_listed_with_their_places_and_the_rule_to_merge_them(kit: PaimonKit) -> None:
    table = TableInfo(8, TablePath("sales", "customers"), TableType.PRIMARY_KEY, KEYED, 1, kit.log_table().created_at, primary_key=("id",))
    rounds = KeyedRounds(kit, table)
    for number in range(2):
        rounds.tier(f"r{number}", [(ChangeType.INSERT, {"id": key, "name": f"{number}-{key}"}) for key in range(3)])
    view = kit.view(table)
    lists = kit.lake.file_lists(view, None)
    assert sorted(file.path for file in lists.data) == sorted(map(str, parquet_files(kit, table)))
    assert {(file.place, file.bucket, file.records) for file in lists.data} == {("", 0, 3)}
    assert lists.merge is not None
    assert lists.merge.columns == ("_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND")
    assert len(kit.lake.file_lists(view, 1).data) == 1
    columns = kit.lake.columns(view)
    assert [(field.name, (field.metadata or {})[FIELD_ID_KEY]) for field in columns][:2] == [("id", b"0"), ("name", b"1")]
    marker = kit.lake.marker_at(view, 1)
    assert marker is not None
    assert marker.round_id == "r0"
    with pytest.raises(InvalidArgument, match="has no snapshot 9"):
        kit.lake.file_lists(view, 9)


def test_each_file_has_the_columns_of_its_schema(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", range(5))
    CatalogFactory.create({"warehouse": str(kit.warehouse)}).alter_table(
        str(table.path), [SchemaChange.add_column("note", AtomicType("STRING")), SchemaChange.rename_column("name", "title")], False
    )
    [file] = kit.lake.file_lists(kit.view(table), None).data
    assert file.fields is not None
    assert file.fields.names[:2] == ["id", "name"]


def test_files_that_are_not_parquet_and_index_files_are_refused(kit: PaimonKit) -> None:
    table = kit.log_table()
    kit.tier(table, "r1", range(5))
    snapshot = kit.folder(table) / "snapshot" / "snapshot-1"
    document = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps({**document, "indexManifest": "index-manifest-1"}))
    with pytest.raises(InvalidArgument, match="has index files in snapshot 1, which may be deletion vectors"):
        kit.lake.file_lists(kit.view(table), None)
    snapshot.write_text(json.dumps(document))
    builder = kit.by_pypaimon(table).copy({"file.format": "orc"}).new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(kit.read(table))
    commit.commit(write.prepare_commit())
    with pytest.raises(InvalidArgument, match=r"\.orc is not a Parquet file in the folder of sales\.orders"):
        kit.lake.file_lists(kit.view(table), None)
