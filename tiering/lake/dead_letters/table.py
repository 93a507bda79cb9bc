"""The dead-letter table of a source table: the lake table `<table>__dead_letters`, in the same lake and format (see the package).

It is a clean log table of one bucket, whose offsets count its rows. It is written by the lake's own writers and committer, so each row is
in it once, whatever process dies: a commit is one compare-and-set on the table's head and on its newest commit of Lakeward. Its marker
names the records that it has (`skipped`), those of the present source table only: a recreated table has another id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import structlog

from tiering.clock import Clock, Ids
from tiering.errors import CommitOutcomeUnknown, Fenced, InvalidName, LakeUnavailable, LakewardError, TableMismatch
from tiering.instants import EPOCH, to_microseconds
from tiering.lake.base import Committable, FileRewrite, Lake, LakeView, WriterInitContext
from tiering.lake.dead_letters.letter import DeadLetter, with_letters
from tiering.lake.file_lists import ReadableLake, RowScan
from tiering.lake.layouts import Layout
from tiering.lake.maintenance import FileMerging, TableRemoval
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.rules.upkeep.small_files import MERGED_BYTES
from tiering.lake.table_options import LAYOUT
from tiering.model.tables import (
    BUCKET_COLUMN,
    OFFSET_COLUMN,
    SYSTEM_COLUMN_FIELDS,
    TIMESTAMP_COLUMN,
    BucketKey,
    SkippedRecords,
    TableInfo,
    TablePath,
    TableType,
)

_log = structlog.get_logger(__name__)

SUFFIX = "__dead_letters"
"""Ending of the name of a dead-letter table. No source table of the embedded cluster has such a name."""
ROUND_SUFFIX = "-dead-letters"
"""Ending of the round id in the marker of a dead-letter table, behind the id of the round that put the records aside."""
APPEND_ATTEMPTS = 5
"""Number of times that an append is tried if other commits come in between, or the answer of the lake is lost."""

_TIME = pa.timestamp("us", tz="UTC")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("table_id", pa.int64(), nullable=False),
    pa.field("partition_id", pa.int64()),
    pa.field("partition_name", pa.string()),
    pa.field("bucket_id", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("change_type", pa.string(), nullable=False),
    pa.field("record_time", _TIME),
    pa.field("set_aside_time", _TIME, nullable=False),
    pa.field("round_id", pa.string(), nullable=False),
    pa.field("trace", pa.string()),
    pa.field("column_name", pa.string()),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("record", pa.string(), nullable=False),
    pa.field("raw_record", pa.binary(), nullable=False),
]
SCHEMA = pa.schema(_FIELDS)
"""The columns of a dead-letter table. `record` is `DeadLetter.record_json`, and `raw_record` is `DeadLetter.raw`."""
_BUCKET = BucketKey(None, 0)
_FILES_OF = 0
"""The table id in the footers of the files. It is not the source's, so that files merge across the source tables of one name."""


def dead_letter_path(path: TablePath) -> TablePath:
    """Returns the path of the dead-letter table of the table at `path`."""
    return TablePath(path.database_name, path.table_name + SUFFIX)


def is_dead_letter_path(path: TablePath) -> bool:
    """Returns whether a table has the name of a dead-letter table. A user's own table may have it, too."""
    return path.table_name.lower().endswith(SUFFIX)


def check_new_name(path: TablePath) -> None:
    """Raises InvalidName for a new source table whose lake table would have the name of a dead-letter table."""
    if is_dead_letter_path(path):
        raise InvalidName(
            f"the table name {path.table_name!r} ends with {SUFFIX!r}, which is the name of a lake table of dead letters",
            hint="Choose another name.",
        )


def dead_letter_info(table: TableInfo) -> TableInfo:
    """Returns the dead-letter table of `table` in the form in which lakes create and write tables."""
    info = _info(table.table_id, table.path, table.lake_format, table.created_at)
    return replace(info, snapshot_retention=table.snapshot_retention, auto_compaction=table.auto_compaction)


def _info(table_id: int, path: TablePath, lake_format: str, created_at: datetime) -> TableInfo:
    return TableInfo(
        table_id=table_id,
        path=dead_letter_path(path),
        table_type=TableType.LOG,
        schema=SCHEMA,
        bucket_count=1,
        created_at=created_at,
        properties={LAYOUT.name: Layout.CLEAN.value},
        lake_enabled=True,
        lake_format=lake_format,
    )


@dataclass(frozen=True)
class PutAside:
    """The records that one round puts aside, and what identifies the round."""

    cluster_id: str
    round_id: str
    tiering_epoch: int
    letters: tuple[DeadLetter, ...]


def append(lake: Lake, table: TableInfo, aside: PutAside, clock: Clock, ids: Ids) -> None:
    """Appends the dead letters to the dead-letter table of `table`, each unless it is in it. Creates the table if there is none.

    On return the lake has all of them. Raises LakeUnavailable, TableMismatch (another table has the name), LakewardError.
    """
    info = dead_letter_info(table)
    for _ in range(APPEND_ATTEMPTS):
        view = _ensured(lake, info)
        present = recorded_letters(view, table.table_id)
        missing = [letter for letter in aside.letters if not _has(present, letter)]
        if not missing:
            return
        try:
            _commit(lake, info, view, replace(aside, letters=tuple(missing)), clock, ids)
        except (CommitOutcomeUnknown, Fenced):  # another commit came in between, or ours is in the lake: both are read again
            continue
    if all(_has(recorded_letters(_ensured(lake, info), table.table_id), letter) for letter in aside.letters):
        return
    raise LakeUnavailable(
        f"the dead letters of round {aside.round_id} could not be appended to the lake table {info.path}: "
        f"{APPEND_ATTEMPTS} commits had no effect",
        hint="The next round puts the same records aside.",
        table_path=table.path,
        round_id=aside.round_id,
    )


def recorded_letters(view: LakeView | None, table_id: int) -> SkippedRecords:
    """Returns the records of the source table `table_id` that the dead-letter table has, by its marker."""
    marker = None if view is None else view.marker
    return {} if marker is None or marker.table_id != table_id else marker.skipped


def read_letters(lake: Lake, path: TablePath, lake_format: str, columns: Sequence[str] = SCHEMA.names) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the dead-letter table of the table at `path` with these columns of SCHEMA; nothing if there is no such table.

    Rows of a former table of the same name have another `table_id`. Raises LakeUnavailable.
    """
    info = _info(0, path, lake_format, EPOCH)
    view = lake.view(info.path)
    if view is None or view.head is None or not isinstance(lake, RowScan) or not _has_columns(lake, view):
        return
    for reader in lake.row_readers(info, view, view.head):
        yield from reader.read(columns)


def drop_dead_letter_table(lake: Lake | TableRemoval, path: TablePath) -> bool:
    """Drops the dead-letter table of the table at `path` with its files; False if there is none. Safe to repeat. Raises LakeUnavailable.

    A user's own table of that name stays.
    """
    if not isinstance(lake, Lake) or not isinstance(lake, TableRemoval):
        return False
    view = lake.view(dead_letter_path(path))
    return view is not None and _has_columns(lake, view) and lake.drop_table(view.path)


def _has(present: SkippedRecords, letter: DeadLetter) -> bool:
    records = present.get(letter.bucket, {})
    return letter.offset in records and records[letter.offset] == letter.trace


def _ensured(lake: Lake, info: TableInfo) -> LakeView:
    """Returns the dead-letter table, which is created if there is none. Raises TableMismatch for a table with other columns."""
    view = lake.view(info.path)
    if view is not None and not _has_columns(lake, view):
        raise TableMismatch(
            f"the lake table {info.path} is no dead-letter table, because it has other columns",
            hint=f"Rename it: ALTER TABLE lake.{info.path} RENAME TO another name. Or set 'table.datalake.on-bad-record' to 'stop'.",
            table_path=info.path,
        )
    return lake.ensure_table(info)


def _has_columns(lake: Lake, view: LakeView) -> bool:
    """Returns whether a lake table has the columns of a dead-letter table. A user's own table of the name has others."""
    return not isinstance(lake, ReadableLake) or lake.columns(view).names[: len(SCHEMA)] == SCHEMA.names


def _commit(lake: Lake, info: TableInfo, view: LakeView, aside: PutAside, clock: Clock, ids: Ids) -> None:
    round_id, files = aside.round_id + ROUND_SUFFIX, replace(info, table_id=_FILES_OF)
    factory = lake.tiering_factory(files)
    begin = view.ranges[_BUCKET].tiered if _BUCKET in view.ranges else 0
    end = begin + len(aside.letters)
    writer = factory.create_writer(WriterInitContext(files, view.table_uuid, _BUCKET, None, round_id, ids.new_id()))
    try:
        writer.write(_rows(info.table_id, aside, begin, clock.now()))
        result = writer.complete(begin, end)
    except BaseException:
        writer.abort()
        raise
    buckets = {_BUCKET: TieredRange(view.ranges[_BUCKET].start if _BUCKET in view.ranges else 0, end)}
    marker = Marker(
        cluster_id=aside.cluster_id,
        table_id=info.table_id,
        lake_table_uuid=view.table_uuid,
        round_id=round_id,
        tiering_epoch=aside.tiering_epoch,
        base_round_id=None if view.marker is None else view.marker.round_id,
        buckets=buckets,
        skipped=with_letters(recorded_letters(view, info.table_id), aside.letters),
        proofs=advanced(view.proofs, view.ranges, buckets, [result], round_id),
    )
    committer, committable = factory.create_committer(), Committable(round_id, (result,), _merged(lake, files, view, round_id, ids))
    try:
        committer.commit(committable, view, marker)
    except CommitOutcomeUnknown:
        raise
    except BaseException:  # no request was sent
        committer.abort(committable)
        raise


def _merged(lake: Lake, info: TableInfo, view: LakeView, round_id: str, ids: Ids) -> tuple[FileRewrite, ...]:
    """Merges small files for the commit of an append, as rounds do for the source's lake table (docs/upkeep.md).

    The commit leaves out a rewrite that does not fit its base. After an error nothing is merged: a later append merges the same files.
    """
    if not info.auto_compaction or view.head is None or not isinstance(lake, FileMerging):
        return ()
    try:
        return tuple(lake.merge_small_files(info, view, {_BUCKET: None}, round_id, ids.new_id, MERGED_BYTES))
    except LakewardError as error:
        _log.warning("small files of a dead-letter table were not merged", table=str(info.path), error=error.message)
        return ()


def _rows(table_id: int, aside: PutAside, begin: int, now: datetime) -> pa.RecordBatch:
    """Returns the rows of the dead letters as a writer takes them: SCHEMA, then the system columns. The offsets count from `begin`."""
    time_us, letters = to_microseconds(now), aside.letters
    values: dict[str, list[Any]] = {
        "table_id": [table_id] * len(letters),
        "partition_id": [letter.bucket.partition_id for letter in letters],
        "partition_name": [letter.partition_name for letter in letters],
        "bucket_id": [letter.bucket.bucket_id for letter in letters],
        "offset": [letter.offset for letter in letters],
        "change_type": [letter.change_type for letter in letters],
        "record_time": [letter.record_time_us for letter in letters],
        "set_aside_time": [time_us] * len(letters),
        "round_id": [aside.round_id] * len(letters),
        "trace": [letter.trace for letter in letters],
        "column_name": [letter.column for letter in letters],
        "reason": [letter.reason for letter in letters],
        "record": [letter.record_json for letter in letters],
        "raw_record": [letter.raw for letter in letters],
        BUCKET_COLUMN: [0] * len(letters),
        OFFSET_COLUMN: list(range(begin, begin + len(letters))),
        TIMESTAMP_COLUMN: [time_us] * len(letters),
    }
    schema = pa.schema([*SCHEMA, *SYSTEM_COLUMN_FIELDS])
    return pa.RecordBatch.from_arrays([pa.array(values[field.name], field.type) for field in schema], schema=schema)
