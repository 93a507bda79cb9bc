"""Rounds of a Paimon table whose source's columns change: reads, merges of small files and `validate` see all rows at each step."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.evolving.world import EvolvingWorld
from support.lake_kinds.kinds import PAIMON, PAIMON_CLEAN, LakeKind
from tiering.model.schema.changes import AddColumn, After, ChangeComment, ChangeType, DropColumn, MoveColumn, RenameColumn, SchemaChange

PLACE = pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.int32())])
ORDERS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("qty", pa.int32()), pa.field("place", PLACE), pa.field("visits", pa.list_(PLACE))]
)
STEPS: list[list[SchemaChange]] = [
    [RenameColumn(("qty",), "pieces")],
    [DropColumn(("place", "city")), AddColumn(pa.field("street", pa.string()), ("place",))],
    [AddColumn(pa.field("qty", pa.string()), position=After("id")), ChangeComment(("pieces",), "number of pieces")],
    [ChangeType(("pieces",), pa.int64()), ChangeType(("visits", "element", "zip"), pa.int64())],
    [DropColumn(("pieces",)), RenameColumn(("visits", "element", "city"), "town")],
    [AddColumn(pa.field("pieces", pa.date32())), MoveColumn(("place",), After(None))],
]


def rows_of(world: EvolvingWorld, number: int) -> dict[str, object]:
    """A row with a value in each field, as far as the present columns have it."""

    def value(kind: pa.DataType) -> object:
        if isinstance(kind, pa.StructType):
            return {field.name: value(field.type) for field in kind}
        if isinstance(kind, pa.ListType):
            return [value(kind.value_type), None]
        return str(number) if kind == pa.string() else None if kind == pa.date32() else number

    return {field.name: value(field.type) for field in world.info.schema}


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "keyed"])
@pytest.mark.parametrize("on_drop", ["keep", "drop"])
@pytest.mark.parametrize("kind", [PAIMON, PAIMON_CLEAN], ids=lambda kind: kind.name)
def test_rounds_follow_every_change(tmp_path: Path, kind: LakeKind, on_drop: str, has_key: bool) -> None:
    world = EvolvingWorld(tmp_path, kind, ORDERS, has_key=has_key, options={"table.datalake.on-drop-column": on_drop})
    for number, changes in enumerate([[], *STEPS]):
        if changes:
            world.change(*changes)
            world.assert_exact()
        for key in (number, number + 1) if has_key else (2 * number, 2 * number + 1):
            world.upsert(rows_of(world, key)) if has_key else world.append(rows_of(world, key))
        world.tier_now()
        world.assert_exact()
