"""Paimon's Java library reads a Paimon table after each kind of change of its source's columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.evolving.world import EvolvingWorld
from support.lake_kinds.kinds import PAIMON, PAIMON_CLEAN, LakeKind
from support.readers.environment import TEST_SECONDS
from support.readers.paimon_java import JavaReader
from support.readers.questions import Question
from tiering.model.schema.changes import AddColumn, After, ChangeComment, ChangeType, DropColumn, DropNotNull, MoveColumn, RenameColumn

pytestmark = [pytest.mark.timeout(TEST_SECONDS), pytest.mark.soak]
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("qty", pa.int32(), nullable=False),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("ratio", pa.float32()),
        pa.field("text", pa.string()),
    ]
)
CHANGES = [
    AddColumn(pa.field("note", pa.string()), position=After("id")),
    RenameColumn(("text",), "title"),
    ChangeType(("qty",), pa.int64()),
    ChangeType(("price",), pa.decimal128(20, 2)),
    ChangeType(("ratio",), pa.float64()),
    ChangeComment(("qty",), "pieces"),
    DropNotNull(("qty",)),
    MoveColumn(("price",), After(None)),
    DropColumn(("title",)),
    AddColumn(pa.field("title", pa.int32())),
]


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "keyed"])
@pytest.mark.parametrize("kind", [PAIMON, PAIMON_CLEAN], ids=lambda kind: kind.name)
def test_java_reads_the_table_after_each_change(tmp_path: Path, kind: LakeKind, has_key: bool) -> None:
    world = EvolvingWorld(tmp_path, kind, COLUMNS, has_key=has_key)
    reader = JavaReader(world.lake_properties["warehouse"])
    for number, change in enumerate([None, *CHANGES]):
        if change is not None:
            world.change(change)
        row = {"id": number, "qty": number, "title": number if change is CHANGES[-1] else None}
        write = world.upsert if has_key else world.append
        write({name: value for name, value in row.items() if name in world.info.schema.names})
        world.tier_now()
        names = tuple(world.info.schema.names)
        [answer] = reader.answers([Question(str(world.path), names)])
        assert isinstance(answer, pa.Table), answer
        assert sorted(answer.to_pylist(), key=lambda row: row["id"]) == sorted(world.rows, key=lambda row: row["id"])
