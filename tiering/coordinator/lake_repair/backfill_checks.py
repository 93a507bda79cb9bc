"""Whether `CALL sys.backfill_table` may copy the rows of a lake table into the lake table of a log table. Pure.

All functions raise InvalidArgument that names both tables and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tiering.errors import InvalidArgument
from tiering.lake.base import LakeView
from tiering.lake.column_names import folded_name
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.backfilled_rows import Backfill, ConditionColumn
from tiering.model.schema.field_ids import without_metadata
from tiering.model.tables import SYSTEM_COLUMNS, BucketKey, BucketOffsets, TableInfo, TablePath

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_SYNONYMS: Mapping[pa.DataType, pa.DataType] = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def check_columns(table: TableInfo, source: TablePath, columns: pa.Schema) -> None:
    """Checks that the lake table `source` with these columns has the rows of `table`, by name. Values are checked while they are copied."""
    folded = {folded_name(name): name for name in columns.names}
    for field in table.schema:
        if field.name in columns.names:
            if not _fits(columns.field(field.name).type, field.type):
                kinds = f"{columns.field(field.name).type}, and in {table.path} {field.type}"
                raise _refusal(table, source, f"the column {field.name!r} has the type {kinds}", "Cast it in a copy of the table.")
        elif (other := folded.get(folded_name(field.name))) is not None:
            raise _refusal(table, source, f"the column {other!r} is named {field.name!r} in {table.path}", "Rename it.")
        elif not field.nullable:
            raise _refusal(table, source, f"it lacks the column {field.name!r}, which is NOT NULL in {table.path}", "Add it.")
    further = [name for name in columns.names if name not in table.schema.names and name not in SYSTEM_COLUMNS]
    if further:
        names = ", ".join(map(repr, further))
        raise _refusal(table, source, f"{table.path} lacks its column {names}", "Add it with ALTER TABLE, or copy the table without it.")


def _fits(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a lake column can be values of a source column: unchanged, or widened. The lake has no 8- and 16-bit integers."""
    stored, kind = _SYNONYMS.get(stored, stored), _SYNONYMS.get(kind, kind)
    if stored in _INTEGERS and kind in _INTEGERS:
        return _INTEGERS.index(stored) <= _INTEGERS.index(kind) or stored == pa.int32()
    if isinstance(stored, pa.Decimal128Type) and isinstance(kind, pa.Decimal128Type):
        return bool(stored.scale == kind.scale and stored.precision <= kind.precision)
    if isinstance(stored, pa.TimestampType) and isinstance(kind, pa.TimestampType):
        return (stored.tz is None) == (kind.tz is None)
    return (stored, kind) == (pa.float32(), pa.float64()) or _plain(stored).equals(_plain(kind))


def _plain(kind: pa.DataType) -> pa.Schema:
    return without_metadata(pa.schema([pa.field("value", kind)]))


def check_other_rows(
    table: TableInfo, source: LakeView, ranges: Mapping[BucketKey, TieredRange], log: Mapping[BucketKey, BucketOffsets], cluster_id: str
) -> None:
    """Checks that a lake table that was tiered from the same table has none of the rows that are or will be in its lake table.

    `ranges` are those of the present lake table.
    """
    marker = source.marker
    if marker is None or (marker.cluster_id, marker.table_id) != (cluster_id, table.table_id):
        return
    for bucket, tiered in marker.buckets.items():
        if bucket in ranges:
            begin = ranges[bucket].start
        elif bucket in log:
            begin = log[bucket].log_start
        else:
            continue  # its partition was dropped
        if tiered.tiered > (first := max(begin, tiered.start)):
            offsets = f"the offsets {first} to {tiered.tiered - 1} of bucket {bucket}"
            why = f"it was tiered from {table.path}, and has {offsets}, which are or will be in the lake table, too"
            raise _refusal(table, source.path, why, "Copy only its older rows to another lake table, and backfill that one.")


def copied_before(
    table: TableInfo, marker: Marker | None, source: LakeView, condition: str | None, columns: Sequence[ConditionColumn]
) -> Backfill | None:
    """Returns the backfill that copied the same rows of the head of `source`; None if there was none. `columns`: those of the condition.

    Without conditions, another snapshot of the same lake table would bring most of its rows a second time.
    """
    backfills = copied_from(marker, source)
    for backfill in backfills:
        is_same = (backfill.source_snapshot_id, backfill.condition) == (source.head_identity, condition)
        if is_same and (not backfill.condition_columns or _identities(backfill.condition_columns) == _identities(columns)):
            return backfill
    for backfill in backfills:
        if backfill.condition is None or condition is None:
            copied = f"{backfill.sums.rows} rows of its snapshot {backfill.source_snapshot_id} were copied before"
            raise _refusal(table, source.path, copied, "Copy only the rows that came later to another lake table, and backfill that one.")
    return None


def _identities(columns: Sequence[ConditionColumn]) -> list[tuple[str, int | None]]:
    return [(column.name, column.field_id) for column in columns]


def copied_from(marker: Marker | None, source: LakeView) -> list[Backfill]:
    """Returns the backfills from any snapshot of the lake table `source`."""
    return [] if marker is None else [backfill for backfill in marker.backfills if backfill.source_uuid == source.table_uuid]


def _refusal(table: TableInfo, source: TablePath, why: str, hint: str) -> InvalidArgument:
    return InvalidArgument(
        f"the rows of the lake table {source} cannot be copied into the lake table of {table.path}: {why}",
        hint=f"{hint} Nothing was copied.",
        table_path=table.path,
    )
