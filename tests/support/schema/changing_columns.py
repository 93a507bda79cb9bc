"""A model of a table's columns through all their changes: fields are objects that keep their identity, and rows name their values by it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa

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

Value = Any
"""A flat value; a list; or for a struct, the values of its fields by identity."""

_WIDER = {"int8": "int16", "int16": "int32", "int32": "int64", "float": "double", "decimal9": "decimal20"}
_FLAT: dict[str, pa.DataType] = {
    **{name: pa.type_for_alias(name) for name in ("int8", "int16", "int32", "int64", "float", "double", "string")},
    "decimal9": pa.decimal128(9, 2),
    "decimal20": pa.decimal128(20, 2),
}
_identities = count()


@dataclass
class Field:
    """A column or a field within one. `kind` is a flat type, `struct` or `list`; a list has one child, its element."""

    name: str
    kind: str
    children: list[Field] = field(default_factory=list)
    nullable: bool = True
    identity: int = field(default_factory=lambda: next(_identities))

    @property
    def type(self) -> pa.DataType:
        if self.kind == "struct":
            return pa.struct([child.arrow for child in self.children])
        return pa.list_(self.children[0].arrow) if self.kind == "list" else _FLAT[self.kind]

    @property
    def arrow(self) -> pa.Field[Any]:
        return pa.field(self.name, self.type, self.nullable)

    def value(self, chance: random.Random) -> Value:
        """A value that fits the present type, and each wider one."""
        if self.nullable and chance.random() < 0.2:
            return None
        if self.kind == "struct":
            return {child.identity: child.value(chance) for child in self.children}
        if self.kind == "list":
            return [self.children[0].value(chance) for _ in range(chance.randrange(3))]
        if self.kind == "string":
            return chance.choice(["", "a", "📦"])
        if self.kind.startswith("decimal"):
            return Decimal(chance.randrange(-(10**9) + 1, 10**9)).scaleb(-2)
        return chance.randrange(-128, 128) / (2 if self.kind in ("float", "double") else 1)

    def shown(self, value: Value) -> Value:
        """The value as readers see it with the present names."""
        if value is None:
            return None
        if self.kind == "struct":
            return {child.name: child.shown(value.get(child.identity)) for child in self.children}
        if self.kind == "list":
            return [self.children[0].shown(item) for item in value]
        return float(value) if self.kind in ("float", "double") else int(value) if self.kind.startswith("int") else value


class Columns:
    """The columns of a table. `fixed` ones are keys."""

    def __init__(self, columns: list[Field], fixed: set[str]) -> None:
        self.fields = columns
        self.fixed = fixed
        self.created = {column.identity for column in columns}

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.arrow for column in self.fields])

    def copy(self) -> Columns:
        return copy.deepcopy(self)

    def shown(self, row: dict[int, Value]) -> dict[str, Value]:
        return {column.name: column.shown(row.get(column.identity)) for column in self.fields}

    def change(self, chance: random.Random) -> SchemaChange:
        """Changes the columns at random, and returns the change."""
        changes = [self._added, self._dropped, self._renamed, self._widened, self._commented, self._nullable, self._moved]
        while True:
            if (change := chance.choice(changes)(chance)) is not None:
                return change

    def _structs(self) -> Iterator[tuple[tuple[str, ...], list[Field]]]:
        """The paths and fields of the table and of all structs."""
        yield (), self.fields
        waiting = [((column.name,), column) for column in self.fields]
        while waiting:
            path, owner = waiting.pop()
            if owner.kind == "struct":
                yield path, owner.children
            waiting += [((*path, child.name if owner.kind == "struct" else "element"), child) for child in owner.children]

    def _chosen(self, chance: random.Random) -> tuple[tuple[str, ...], list[Field], Field]:
        """The path of a struct, its fields, and one of them that is no key."""
        path, fields = chance.choice(list(self._structs()))
        free = [child for child in fields if path or child.name not in self.fixed]
        return self._chosen(chance) if not free else (path, fields, chance.choice(free))

    def _position(self, chance: random.Random, others: list[Field]) -> tuple[After, int]:
        place = chance.randrange(len(others) + 1)
        return After(others[place - 1].name if place else None), place

    def _added(self, chance: random.Random) -> SchemaChange | None:
        path, fields = chance.choice(list(self._structs()))
        new = random_field(chance, depth=len(path))
        if len(fields) > 7:
            return None
        if chance.random() < 0.5:
            fields.append(new)
            return AddColumn(new.arrow, path)
        position, place = self._position(chance, fields)
        fields.insert(place, new)
        return AddColumn(new.arrow, path, position)

    def _dropped(self, chance: random.Random) -> SchemaChange | None:
        path, fields, chosen = self._chosen(chance)
        if len(fields) == 1:
            return None
        fields.remove(chosen)
        return DropColumn((*path, chosen.name))

    def _renamed(self, chance: random.Random) -> SchemaChange:
        path, _, chosen = self._chosen(chance)
        former, chosen.name = chosen.name, new_name()
        return RenameColumn((*path, former), chosen.name)

    def _widened(self, chance: random.Random) -> SchemaChange | None:
        path, _, chosen = self._chosen(chance)
        path = (*path, chosen.name)
        while chosen.kind == "list":
            path, chosen = (*path, "element"), chosen.children[0]
        if chosen.kind not in _WIDER:
            return None
        chosen.kind = _WIDER[chosen.kind]
        return ChangeType(path, chosen.type)

    def _commented(self, chance: random.Random) -> SchemaChange:
        path, fields = chance.choice(list(self._structs()))
        return ChangeComment((*path, chance.choice(fields).name), chance.choice(["new", None]))

    def _nullable(self, chance: random.Random) -> SchemaChange:
        path, _, chosen = self._chosen(chance)
        chosen.nullable = True
        return DropNotNull((*path, chosen.name))

    def _moved(self, chance: random.Random) -> SchemaChange:
        path, fields = chance.choice(list(self._structs()))
        chosen = chance.choice(fields)
        fields.remove(chosen)
        position, place = self._position(chance, fields)
        fields.insert(place, chosen)
        return MoveColumn((*path, chosen.name), position)


def new_name() -> str:
    return f"f{next(_identities)}"


def random_field(chance: random.Random, depth: int = 0) -> Field:
    """A nullable field of any type."""
    kind = chance.choice([*_FLAT, *(["struct", "list"] * 2 if depth < 3 else [])])
    children = []
    if kind == "struct":
        children = [random_field(chance, depth + 1) for _ in range(chance.randrange(1, 3))]
    elif kind == "list":
        children = [random_field(chance, depth + 1)]
        children[0].name = "element"
    return Field(new_name(), kind, children)
