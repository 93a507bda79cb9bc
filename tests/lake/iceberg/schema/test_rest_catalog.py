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
