"""How the columns of a lake table follow those of its source table, by field id. Pure, for the lakes of all formats.

A lake table numbers its fields itself. A property of the table (`COLUMN_IDS`) records which field of the source each of them holds. It is
written with the table and with each commit that changes its columns, so it always describes the columns beside it. With it a renamed column
is renamed, a dropped one is dropped or kept as a nullable column, and a name that is used again becomes another column. A lake table of an
older version, or of another tiering service, has no such property: its fields are those with the first names of the source's fields.

Both sides are Arrow schemas whose fields have ids (`tiering.model.schema.field_ids`): those of the source, and those of the lake table. The
system columns are in neither of them.
"""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

import pyarrow as pa

from tiering.errors import SchemaDrift, SourceChanged
from tiering.lake.column_names import folded_name
from tiering.model.schema.changes import FieldPath, can_widen
from tiering.model.schema.field_ids import (
    COMMENT,
    FIELD_ID,
    FIRST_NAME,
    all_fields,
    children,
    comment,
    field_id,
    first_name,
    with_children,
    with_inner,
    with_metadata,
    without_field_ids,
)
from tiering.model.tables import TableInfo

COLUMN_IDS = "lakeward.column-ids"
"""Name of the lake table's property, whose value is `ColumnIds.text`."""
_TEXT = re.compile(r"(?P<schema>\d+)/(?P<source>\d+)/(?P<table>\d+);(?P<runs>[^;]*)(;(?P<names>\{.*\}))?", re.ASCII | re.DOTALL)
_RUN = re.compile(r"(\d+):(\d+)(?:\*(\d+))?", re.ASCII)

LakeType = Callable[[pa.DataType], pa.DataType]
"""Returns the type in which a lake format holds the values of a source's type without nested fields."""
HoldsType = Callable[[pa.DataType, pa.DataType], bool]
"""Whether a lake table's type, without nested fields, holds the values of a `LakeType` as it is."""


@dataclass(frozen=True)
class ColumnIds:
    """The fields of a lake table: pairs of a source's and a lake's field id, in the order that the source's fields had.

    `schema_id` is the id of the lake table's schema with which the pairs were written. `source_schema_id` is the `TableInfo.schema_id` of
    the source then, and `table_id` its table id: the ids say nothing about the columns of a table that was created again.
    """

    schema_id: int
    pairs: tuple[tuple[int, int], ...]
    source_schema_id: int = 0
    proof_names: Mapping[int, str] = dataclass_field(default_factory=dict)
    """The names of lake fields in checksums of rows (`proof_columns`), by field id, unless it is their present name."""
    table_id: int = 0

    @cached_property
    def lake_ids(self) -> Mapping[int, int]:
        """The lake's ids by the source's ids."""
        return dict(self.pairs)

    def text(self) -> str:
        """Returns the value of the property, such as `0/3/7;1:1*12,14:20;{"20": "qty"}`.

        The schema ids are 0 and 3, and the table id is 7. The fields are twelve fields from 1 on, and the field 14 as 20, whose name in
        checksums is `qty`.
        """
        runs: list[list[int]] = []
        for source, lake in self.pairs:
            if runs and (source, lake) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
                runs[-1][2] += 1
            else:
                runs.append([source, lake, 1])
        pairs = ",".join(f"{source}:{lake}" + (f"*{count}" if count > 1 else "") for source, lake, count in runs)
        names = {str(number): name for number, name in self.proof_names.items()}
        return f"{self.schema_id}/{self.source_schema_id}/{self.table_id};{pairs}" + (f";{json.dumps(names)}" if names else "")

    @staticmethod
    def parse(text: str) -> ColumnIds:
        """Returns the ids whose `text` this is. Raises SchemaDrift for any other text."""
        match = _TEXT.fullmatch(text)
        matches = [_RUN.fullmatch(run) for run in match["runs"].split(",")] if match is not None and match["runs"] else []
        if match is None or None in matches:
            raise _unreadable(text)
        pairs: list[tuple[int, int]] = []
        for run in matches:
            source, lake, count = (int(part or 1) for part in run.groups())  # type: ignore[union-attr]  # checked above
            pairs += [(source + place, lake + place) for place in range(count)]
        try:
            names = {int(number): str(name) for number, name in json.loads(match["names"] or "{}").items()}
        except ValueError as error:
            raise _unreadable(text) from error
        return ColumnIds(int(match["schema"]), tuple(pairs), int(match["source"]), names, int(match["table"]))

    def check_source(self, table: TableInfo) -> None:
        """Raises SourceChanged if the lake table already follows a newer schema of the source than that of `table`."""
        if table.schema_id < self.source_schema_id:
            raise SourceChanged(
                f"the lake table {table.path} follows the columns of the source's schema {self.source_schema_id}, but this round was "
                f"planned with its schema {table.schema_id}",
                table_path=table.path,
            )


def _unreadable(text: str) -> SchemaDrift:
    return SchemaDrift(
        f"the property {COLUMN_IDS} of the lake table is {text[:60]!r}, which cannot be read",
        hint="Remove the property from the lake table: ALTER TABLE ... UNSET TBLPROPERTIES. Its columns are then found by their names, and "
        "the next round writes the property again. The rows stay in the log until then.",
    )


def ids_of_table(recorded: ColumnIds | None, table: TableInfo) -> ColumnIds | None:
    """Returns the recorded ids; None if they are those of another table of this name."""
    return None if recorded is None or recorded.table_id != table.table_id else recorded


def same_fields(table: TableInfo, lake: pa.Schema) -> ColumnIds:
    """Returns the ids of a new lake table, whose columns were created from those of the source and have the same names and order."""
    pairs = zip(_ids(table.schema), _ids(lake), strict=True)
    return ColumnIds(0, tuple(pairs), table.schema_id, table_id=table.table_id)


@dataclass(frozen=True)
class FollowedColumns:
    """The columns that a lake table shall have.

    `columns` have the lake's field ids; new fields have the next ones. `pairs` and `proof_names` are for the property. `changes` says in
    words what differs from the present columns; empty = nothing. `misfit` is the path of the first field that the lake table cannot
    follow, with the difference as a text whose subject is the lake table; None = it can. `extras` are the paths of fields that only the
    lake table has, and that no source field was.
    """

    columns: pa.Schema
    pairs: tuple[tuple[int, int], ...]
    proof_names: Mapping[int, str]
    changes: tuple[str, ...]
    misfit: tuple[str, str] | None
    extras: tuple[str, ...]


def followed_columns(
    source: pa.Schema,
    lake: pa.Schema,
    recorded: ColumnIds | None,
    last_lake_id: int,
    lake_type: LakeType,
    *,
    keep_dropped: bool = True,
    recorded_lake: pa.Schema | None = None,
    holds_type: HoldsType = operator.eq,
    kept_ids: Collection[int] = (),
) -> FollowedColumns:
    """Returns the columns that the lake table shall have after `source`. A type that `holds_type` accepts stays as it is.

    `recorded_lake`: the lake's columns in the schema `recorded.schema_id`, if that is still known: a difference of the present columns from
    them is the work of another writer. With `keep_dropped` a column that the source dropped stays, nullable, under its name, or under
    another one if the source has a new column of that name. The columns `kept_ids` stay in any case.
    """
    matches = matched_fields(source, lake, recorded)
    own_ids = set() if recorded is None else {lake_id for _, lake_id in recorded.pairs}
    follower = _Follower(matches, own_ids, last_lake_id, lake_type, holds_type, keep_dropped, kept_ids)
    if recorded is not None:
        follower.check_dropped(source, lake, recorded)
        follower.check_renamed(lake, recorded_lake)
        follower.follows_order = _has_new_order(source, recorded)
    columns = pa.schema(follower.fields(list(source), list(lake), ()))
    names = _proof_names(lake, columns, {} if recorded is None else recorded.proof_names)
    return FollowedColumns(
        columns, _pairs(source, columns, recorded), names, tuple(follower.changes), follower.misfit, tuple(follower.extras)
    )


def lake_columns_of_source(source: pa.Schema, lake: pa.Schema, recorded: ColumnIds | None) -> pa.Schema:
    """Returns the lake's columns with the field ids of the source, so that `converted_rows` turns rows of the lake into rows of the source.

    A field that only the lake has gets an id that no field of the source has. If the source has no ids, the result has none.
    """
    if not _ids(source):
        return pa.schema([without_field_ids(field) for field in lake])
    numbers = {lake_id: source_id for source_id, lake_id in recorded.pairs} if recorded else {}
    matches = matched_fields(source, lake, recorded)
    numbers |= {matches[path]: number for path, number in _paths(source) if path in matches}
    unused = itertools.count(max([*_ids(source), *numbers.values()]) + 1)
    return pa.schema([_renumbered(field, numbers, unused) for field in lake])


def source_in_lake_ids(source: pa.Schema, lake: pa.Schema, recorded: ColumnIds | None) -> pa.Schema:
    """Returns the source's columns with the field ids of the lake. A field that the lake table does not have yet has no id."""
    matches = matched_fields(source, lake, recorded)

    def renumbered(field: pa.Field[Any], parent: FieldPath) -> pa.Field[Any]:
        path = (*parent, field.name)
        number = matches.get(path)
        return with_metadata(with_inner(field, lambda inner: renumbered(inner, path)), {FIELD_ID: None if number is None else str(number)})

    return pa.schema([renumbered(field, ()) for field in source])


def proof_columns(lake: pa.Schema, recorded: ColumnIds | None) -> pa.Schema:
    """Returns the lake's columns with the names that seed the checksums of rows (`lake.proof.row_checksum`).

    The name of a field in checksums never changes, so that a file that was written before a column was renamed has the same checksum
    afterwards. Two fields of a table never have the same one.
    """
    names = {} if recorded is None else recorded.proof_names
    return pa.schema([_named_for_proof(field, names) for field in lake]) if names else lake


def _named_for_proof(field: pa.Field[Any], names: Mapping[int, str]) -> pa.Field[Any]:
    number = field_id(field)
    name = field.name if number is None else names.get(number, field.name)
    return with_inner(field, lambda inner: _named_for_proof(inner, names)).with_name(name)


def _proof_names(before: pa.Schema, after: pa.Schema, recorded: Mapping[int, str]) -> Mapping[int, str]:
    """Returns the names for the property. A new field whose name another field has in checksums gets one with its id."""
    present = _names(after)
    names = {**_names(before), **recorded}
    used = set(names.values())
    for number, name in present.items():
        names.setdefault(number, f"{name}#{number}" if name in used else name)
    return {number: name for number, name in names.items() if number in recorded or present.get(number, name) != name}


def _names(kind: pa.Schema | pa.DataType) -> dict[int, str]:
    """Returns the names of columns and of fields of structs by field id."""
    own = {field_id(field) or 0: field.name for field in children(kind) if isinstance(kind, pa.Schema | pa.StructType)}
    return own | {number: name for field in children(kind) for number, name in _names(field.type).items()}


def versions_of_source(
    source: pa.Schema, lake: pa.Schema, recorded: ColumnIds | None, versions: Mapping[int, pa.Schema]
) -> Mapping[int, pa.Schema]:
    """Returns the columns of former schemas of the lake table, which have the lake's ids, with the ids that `lake_columns_of_source` gives
    to the present columns `lake`. The source has ids.
    """
    columns = lake_columns_of_source(source, lake, recorded)
    numbers = {field_id(field) or 0: field_id(same) or 0 for field, same in zip(all_fields(lake), all_fields(columns), strict=True)}
    unused = itertools.count(1 + max([*_ids(source), *numbers.values()]))
    return {number: pa.schema([_renumbered(column, numbers, unused) for column in version]) for number, version in versions.items()}


def matched_fields(source: pa.Schema, lake: pa.Schema, recorded: ColumnIds | None) -> Mapping[FieldPath, int]:
    """Returns the lake's field id for the path of each source field that the lake has.

    With `recorded` ids these decide. Else a field is found by its first name, or by its name; of two fields of the source with the same
    first name, the older one has it.
    """
    matches: dict[FieldPath, int] = {}

    def match(fields: Sequence[pa.Field[Any]], lake_fields: Sequence[pa.Field[Any]], parent: FieldPath) -> None:
        by_id = {field_id(field): field for field in lake_fields}
        by_name = {field.name: field for field in lake_fields}
        for field in sorted(fields, key=lambda field: field_id(field) or 0):
            if recorded is not None:
                lake_field = by_id.get(recorded.lake_ids.get(field_id(field) or 0))
            else:
                lake_field = by_name.pop(first_name(field), None) or by_name.pop(field.name, None)
            if lake_field is not None and (number := field_id(lake_field)) is not None:
                matches[*parent, field.name] = number
                match(children(field.type), children(lake_field.type), (*parent, field.name))

    match(list(source), list(lake), ())
    return matches


class _Follower:
    """Makes the lake's columns from those of the source, and notes what differs."""

    def __init__(
        self,
        matches: Mapping[FieldPath, int],
        own_ids: Collection[int],
        last_lake_id: int,
        lake_type: LakeType,
        holds_type: HoldsType,
        keep_dropped: bool,
        kept_ids: Collection[int],
    ) -> None:
        self._matches = matches
        self._own_ids = own_ids
        self._next_id = itertools.count(last_lake_id + 1)
        self._lake_type = lake_type
        self._holds_type = holds_type
        self._keep_dropped = keep_dropped
        self._kept_ids = kept_ids
        self.follows_order = False
        self.changes: list[str] = []
        self.extras: list[str] = []
        self.misfit: tuple[str, str] | None = None

    def check_dropped(self, source: pa.Schema, lake: pa.Schema, recorded: ColumnIds) -> None:
        """Notes a field that was recorded and that another writer dropped from the lake table."""
        present, lake_ids = set(_ids(lake)), recorded.lake_ids
        for path, number in _paths(source):
            if number in lake_ids and lake_ids[number] not in present:
                self._note_misfit(path, f"lacks the column {_text(path)!r}, which it had before: it was dropped")

    def check_renamed(self, lake: pa.Schema, recorded_lake: pa.Schema | None) -> None:
        """Notes a field that another writer renamed."""
        former = {} if recorded_lake is None else {field_id(field): field.name for field in all_fields(recorded_lake)}
        for field in all_fields(lake):
            before = former.get(field_id(field), field.name)
            if field_id(field) in self._own_ids and before != field.name:
                self._note_misfit((before,), f"has the column {before!r} renamed to {field.name!r}")

    def fields(self, source: Sequence[pa.Field[Any]], lake: Sequence[pa.Field[Any]], parent: FieldPath) -> list[pa.Field[Any]]:
        """Returns the fields that a struct of the lake, or the lake table, shall have."""
        by_id = {field_id(field): field for field in lake}
        target: list[pa.Field[Any]] = []
        for field in source:
            former = by_id.pop(self._matches.get((*parent, field.name)), None)
            target.append(self._added(field, parent) if former is None else self._followed(field, former, parent))
        kept = [field for field in (self._dropped(field, source, lake, parent) for field in by_id.values()) if field is not None]
        return self._ordered(target, kept, lake, parent)

    def _added(self, field: pa.Field[Any], parent: FieldPath) -> pa.Field[Any]:
        path = (*parent, field.name)
        if not field.nullable:
            self._note_misfit(
                path, f"lacks the column {_text(path)!r}, which cannot be added: it is NOT NULL, and the rows before it have no value"
            )
        self.changes.append(f"add {_text(path)}")
        return self._new(field)

    def _new(self, field: pa.Field[Any]) -> pa.Field[Any]:
        """Returns a new field with a new id; the fields in it are nullable as at the source."""
        entries = {FIELD_ID: str(next(self._next_id)), FIRST_NAME: None, COMMENT: comment(field)}
        return with_metadata(field.with_type(self._new_type(field.type)), entries)

    def _new_type(self, kind: pa.DataType) -> pa.DataType:
        return with_children(kind, [self._new(field) for field in children(kind)]) if kind.num_fields else self._lake_type(kind)

    def _followed(self, field: pa.Field[Any], former: pa.Field[Any], parent: FieldPath) -> pa.Field[Any]:
        path = (*parent, field.name)
        if field.name != former.name:
            self.changes.append(f"rename {_text((*parent, former.name))} to {field.name}")
        if field.nullable and not former.nullable:
            self.changes.append(f"make {_text(path)} nullable")
        if COMMENT in (field.metadata or {}) and comment(field) != comment(former):
            self.changes.append(f"change the comment of {_text(path)}")
            former = with_metadata(former, {COMMENT: comment(field)})
        kind = self._followed_type(field.type, former.type, path)
        return former.with_name(field.name).with_type(kind).with_nullable(former.nullable or field.nullable)

    def _followed_type(self, kind: pa.DataType, former: pa.DataType, path: FieldPath) -> pa.DataType:
        if kind.num_fields and former.num_fields and kind.id == former.id:
            return with_children(former, self.fields(children(kind), children(former), path))
        target_type = kind if kind.num_fields else self._lake_type(kind)
        if target_type == former or (not kind.num_fields and self._holds_type(former, target_type)):
            return former
        if kind.num_fields or not can_widen(former, target_type):
            self._note_misfit(path, f"has the column {_text(path)!r} as {former}; the source table has it as {target_type}")
            return former
        self.changes.append(f"change {_text(path)} from {former} to {target_type}")
        return target_type

    def _dropped(
        self, field: pa.Field[Any], source: Sequence[pa.Field[Any]], lake: Sequence[pa.Field[Any]], parent: FieldPath
    ) -> pa.Field[Any] | None:
        """Returns a field that the source does not have, as it stays in the lake; None = it is dropped there, too."""
        path = (*parent, field.name)
        if field_id(field) not in self._own_ids:
            self.extras.append(_text(path))
            return field
        if not self._keep_dropped and field_id(field) not in self._kept_ids:
            self.changes.append(f"drop {_text(path)}")
            return None
        names = {folded_name(other.name) for other in source}
        name = field.name
        if folded_name(name) in names:
            names |= {folded_name(other.name) for other in lake}
            while folded_name(name) in names:
                name += f"_dropped_{field_id(field)}"
            self.changes.append(f"rename {_text(path)} to {name}")
        if not field.nullable:
            self.changes.append(f"make {_text((*parent, name))} nullable")
        return field.with_name(name).with_nullable(True)

    def _ordered(
        self, target: list[pa.Field[Any]], kept: list[pa.Field[Any]], lake: Sequence[pa.Field[Any]], parent: FieldPath
    ) -> list[pa.Field[Any]]:
        """Returns the fields of the source, then the dropped ones. The columns of the table keep an order that its users gave them."""
        places = {field_id(field): place for place, field in enumerate(lake)}
        present = [places[field_id(field)] for field in target if field_id(field) in places]
        target_ids = [field_id(field) for field in (*target, *kept)]
        staying = frozenset(target_ids)
        now = [field_id(field) for field in lake if field_id(field) in staying]
        if not parent and not self.follows_order and present != sorted(present):
            return sorted((*target, *kept), key=lambda field: places.get(field_id(field), len(places)))
        if now != [number for number in target_ids if number in places]:
            self.changes.append(f"reorder the fields of {_text(parent)}" if parent else "reorder the columns")
        return [*target, *kept]

    def _note_misfit(self, path: FieldPath, difference: str) -> None:
        self.misfit = self.misfit or (_text(path), difference)


def _has_new_order(source: pa.Schema, recorded: ColumnIds) -> bool:
    """Whether the order of the source's columns differs from that with which the ids were recorded."""
    columns = dict.fromkeys(field_id(field) for field in source)
    before = dict.fromkeys(number for number, _ in recorded.pairs if number in columns)
    return [number for number in columns if number in before] != [*before]


def _paths(kind: pa.Schema | pa.DataType, parent: FieldPath = ()) -> Iterator[tuple[FieldPath, int]]:
    """Yields the path and the id of each field, first the fields of one level, then those nested in them."""
    for field in children(kind):
        if (number := field_id(field)) is not None:
            yield (*parent, field.name), number
    for field in children(kind):
        yield from _paths(field.type, (*parent, field.name))


def _ids(kind: pa.Schema | pa.DataType) -> list[int]:
    return [number for _, number in _paths(kind)]


def _pairs(source: pa.Schema, columns: pa.Schema, recorded: ColumnIds | None) -> tuple[tuple[int, int], ...]:
    """Returns the ids for the property: those of the source's fields, and those of dropped fields that the lake keeps."""
    numbers = dict(_paths(columns))
    pairs = {number: numbers[path] for path, number in _paths(source) if path in numbers}
    present = set(numbers.values()) - set(pairs.values())
    kept = {} if recorded is None else {source_id: lake_id for source_id, lake_id in recorded.pairs if lake_id in present}
    return (*pairs.items(), *((source_id, lake_id) for source_id, lake_id in kept.items() if source_id not in pairs))


def _renumbered(field: pa.Field[Any], numbers: Mapping[int, int], unused: Iterator[int]) -> pa.Field[Any]:
    number = numbers.get(field_id(field) or 0) or next(unused)
    return with_metadata(with_inner(field, lambda inner: _renumbered(inner, numbers, unused)), {FIELD_ID: str(number)})


def _text(path: FieldPath) -> str:
    return ".".join(path)
