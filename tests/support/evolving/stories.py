"""Random stories of a table whose columns change between writes, rounds and reads. A seed draws the same story again."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.evolving.stored_world import StoredEvolvingWorld
from support.evolving.world import EvolvingWorld
from support.lake_kinds.kinds import LakeKind
from support.values.schemas import paths
from tiering.errors import InvalidArgument, InvalidName
from tiering.model.schema.changes import (
    AddColumn,
    After,
    ChangeComment,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SchemaChange,
)
from tiering.model.schema.field_ids import children

PLAIN = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32(), pa.decimal128(9, 2))
NEXT_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int16(),
    pa.int16(): pa.int32(),
    pa.int32(): pa.int64(),
    pa.float32(): pa.float64(),
    pa.decimal128(9, 2): pa.decimal128(20, 2),
}
"""The next wider type. Steps are smaller than those of `WIDER_TYPES`, so that a story can widen a column several times."""
STEPS = 24
KEYS = 6


class EvolvingStory:
    """One story of a log table or a primary-key table, with an `id` that never changes: in files of the embedded cluster if `is_stored`."""

    def __init__(self, seed: int, folder: Path, kind: LakeKind, *, has_key: bool, is_stored: bool = False) -> None:
        self._random = random.Random(seed)
        columns = [
            pa.field(f"c{place}", self._type(2), nullable=self._random.random() < 0.8) for place in range(self._random.randint(1, 3))
        ]
        options = {"table.datalake.on-drop-column": "drop"} if self._random.random() < 0.3 else {}
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *columns])
        self.world: EvolvingWorld | StoredEvolvingWorld
        if is_stored:
            is_partitioned = self._random.random() < 0.5
            self.world = StoredEvolvingWorld(folder, kind, schema, has_key=has_key, options=options, is_partitioned=is_partitioned)
        else:
            self.world = EvolvingWorld(folder, kind, schema, has_key=has_key, options=options)
        self._has_key = has_key
        self._number = 0

    def play(self) -> None:
        """Plays the story. After each step the lake has the rows of the model, and `validate` proves it, at the end also without a log."""
        steps = [*[self._change, self._write] * 4, *[self.world.tier_now] * 3, *self.world.further_steps(self._random)]
        for _ in range(STEPS):
            self._random.choice(steps)()
            if self.world.tiered:
                self.world.assert_exact()
        self._write()
        self.world.tier_now()
        self.world.assert_exact()
        self.world.cut_log()
        self.world.assert_exact()

    def _write(self) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._number += 1
            key = self._random.randrange(KEYS) if self._has_key else self._number
            row = {field.name: self._value(field.type, nullable=field.nullable) for field in self.world.info.schema} | {"id": key}
            if not self._has_key:
                self.world.append(row)
            elif self._random.random() < 0.2:
                self.world.delete(key)
            else:
                self.world.upsert(row)

    def _change(self) -> None:
        with suppress(InvalidArgument, InvalidName):  # the story goes on with the columns as they were
            self.world.change(*(self._drawn_change() for _ in range(self._random.choice((1, 1, 2)))))

    def _drawn_change(self) -> SchemaChange:
        places = paths(pa.struct(list(self.world.info.schema)))
        path, field = self._random.choice([place for place in places if place[0] not in (("id",), ("region",))] or places)
        siblings = [other[-1] for other, _ in places if other[:-1] == path[:-1]]
        self._number += 1
        structs = [(), *(inner for inner, other in places if isinstance(other.type, pa.StructType))]
        names = [*(f"n{place}" for place in range(4)), "Order", "a b", 'q"t', "\U0001f600"]
        position = self._random.choice((None, After(None), After(self._random.choice(siblings))))
        match self._random.choice(("add", "drop", "rename", "widen", "move", "comment", "null")):
            case "add":
                field = pa.field(self._random.choice(names), self._type(1))
                return AddColumn(field, self._random.choice(structs), self._random.choice((None, After(None))))
            case "drop":
                return DropColumn(path)
            case "rename":
                return RenameColumn(path, self._random.choice(names))
            case "widen" if field.type in NEXT_WIDER:
                return ChangeType(path, NEXT_WIDER[field.type])
            case "comment":
                return ChangeComment(path, self._random.choice((None, 'it\'s a "comment"')))
            case "null":
                return DropNotNull(path)
        return MoveColumn(path, position or After(None))

    def _type(self, depth: int) -> pa.DataType:
        choice = self._random.random() if depth else 1.0
        if choice < 0.3:
            return pa.struct([pa.field(f"f{place}", self._type(depth - 1)) for place in range(self._random.randint(1, 3))])
        if choice < 0.4:
            return pa.list_(pa.field("element", self._type(depth - 1)))
        if choice < 0.5:
            return pa.map_(pa.string(), self._type(depth - 1))
        return self._random.choice(PLAIN)

    def _value(self, kind: pa.DataType, *, nullable: bool = True) -> Any:
        draw = self._random
        if nullable and draw.random() < 0.2:
            return None
        if isinstance(kind, pa.StructType):
            return {field.name: self._value(field.type) for field in children(kind)}
        if isinstance(kind, pa.MapType):
            return [(f"k{place}", self._value(kind.item_type)) for place in range(draw.randint(0, 2))]
        if isinstance(kind, pa.ListType):
            return [self._value(kind.value_type) for _ in range(draw.randint(0, 2))]
        if pa.types.is_integer(kind):
            return draw.randint(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
        if pa.types.is_floating(kind):
            return draw.randint(-1000, 1000) / 8
        if pa.types.is_decimal(kind):
            return Decimal(draw.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2)
        return date(2000, 1, 1) + timedelta(draw.randint(0, 9999)) if pa.types.is_date(kind) else draw.choice(("", "a", "text"))
