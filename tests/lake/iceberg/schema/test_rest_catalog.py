"""Columns change in a lake whose catalog answers by REST. Such a catalog numbers the fields of a new table itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LakeKind
from support.running.rest_catalog import rest_catalog
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.lake.fluss.options import lake_of_fluss
from tiering.model.schema.changes import AddColumn, After, ChangeType, DropColumn, MoveColumn, RenameColumn, SchemaChange
from tiering.model.tables import TableInfo

PLACE = pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.int32())])
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("place", PLACE), pa.field("qty", pa.int32())])


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("rest")
    with rest_catalog(folder) as uri:
        lake = {"datalake.iceberg.type": "rest", "datalake.iceberg.uri": uri, "datalake.iceberg.warehouse": str(folder / "lake")}
        yield dict(lake_of_fluss({"datalake.format": "iceberg", **lake}).properties)


@pytest.fixture(params=[ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, properties: dict[str, str], tmp_path: Path) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    world = LakeWorld(tmp_path, kind=kind, lake_properties=properties)
    yield world
    world.close()


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary_key"])
def test_the_lake_follows_by_the_ids_that_the_catalog_gave(world: LakeWorld, tmp_path: Path, *, has_key: bool) -> None:
    name = f"places_of_{tmp_path.name.replace('-', '_')}"  # the catalog is shared
    make = world.primary_key_table if has_key else world.table
    table = make(name, buckets=2, schema=SCHEMA, **({"key": ("id",)} if has_key else {}))

    def write_and_tier(table: TableInfo, *added: dict[str, Any]) -> None:
        write = world.storage.upsert if has_key else world.storage.append
        write(table.path, pa.Table.from_pylist(list(added), schema=pa.schema(list(table.schema))), "w", table.schema_id)
        world.clock.advance(60)
        assert world.tier(table).error is None
        assert not faults(check(world, table))

    def change(*changes: SchemaChange) -> TableInfo:
        return world.storage.alter_table(table.path, {}, changes)

    write_and_tier(table, {"id": 1, "place": {"city": "a", "zip": 1}, "qty": 1}, {"id": 2, "place": None, "qty": None})
    changed = change(
        RenameColumn(("place", "city"), "town"),
        AddColumn(pa.field("land", pa.string()), ("place",)),
        RenameColumn(("qty",), "amount"),
        ChangeType(("amount",), pa.int64()),
        MoveColumn(("amount",), After(None)),
    )
    write_and_tier(changed, {"amount": 2**40, "id": 3, "place": {"town": "b", "zip": 2, "land": "c"}})
    changed = change(DropColumn(("place", "zip")), RenameColumn(("place",), "where"), AddColumn(pa.field("place", pa.int32())))
    write_and_tier(changed, {"amount": 4, "id": 4, "where": {"town": "d", "land": None}, "place": 9})

    lake = {row["id"]: row for row in world.iceberg(table).scan().to_arrow().to_pylist()}
    kept = [(key, row["amount"], row["where"], row["place"]) for key, row in sorted(lake.items())]
    assert kept == [
        (1, 1, {"town": "a", "zip": 1, "land": None}, None),
        (2, None, None, None),
        (3, 2**40, {"town": "b", "zip": 2, "land": "c"}, None),
        (4, 4, {"town": "d", "zip": None, "land": None}, 9),
    ]


@pytest.mark.parametrize("world", [ICEBERG_CLEAN], indirect=True, ids=["clean"])
def test_the_partition_of_readers_changes_in_such_a_catalog(world: LakeWorld, tmp_path: Path) -> None:
    name = f"parts_of_{tmp_path.name.replace('-', '_')}"
    table = world.table(name, buckets=2, schema=SCHEMA, **{"datalake.partition": "bucket(4, id), qty"})
    texts = ["bucket(4, id), qty", "none", "truncate(10, id)", "bucket(4, id), qty", "qty, truncate(10, id)"]
    for number, text in enumerate(texts):
        world.storage.set_table_option(table.path, "table.datalake.partition", text)
        rows = [{"id": key, "place": None, "qty": key % 3 or None} for key in range(number * 50, number * 50 + 50)]
        world.storage.append(table.path, pa.Table.from_pylist(rows, schema=pa.schema(list(table.schema))), "w", number)
        world.clock.advance(60)
        assert world.tier(world.storage.table(table.path)).error is None
        assert not faults(check(world, table))
    iceberg = world.iceberg(table)
    assert sorted(iceberg.scan().to_arrow()["id"].to_pylist()) == list(range(250))
    assert [(field.name, str(field.transform)) for field in iceberg.spec().fields] == [("qty", "identity"), ("id_trunc_10", "truncate[10]")]
    assert {task.file.spec_id for task in iceberg.scan().plan_files()} == {0, 1, 2, 3}, "an equal former spec is taken again"
    world.storage.alter_table(table.path, {}, [RenameColumn(("qty",), "amount"), DropColumn(("place",))])
    assert world.storage.table(table.path).properties["table.datalake.partition"] == "amount, truncate(10, id)"
    rows = [{"id": 250, "amount": 7}]
    changed = world.storage.table(table.path)
    world.storage.append(table.path, pa.Table.from_pylist(rows, schema=pa.schema(list(changed.schema))), "w", 9)
    assert world.tier(changed).error is None
    assert not faults(check(world, changed))
    assert world.iceberg(table).spec().spec_id == iceberg.spec().spec_id
