"""Finds the newest change of each key of a scope: in the log, and in a KV snapshot if the log was cut.

A KV snapshot holds the last row of each key below its offset. A key without a change in the log since the log begins has that row, provided
that the snapshot is not older than the log's beginning. If a key changed between the end of the lake copy and the offset of a newer
snapshot, its state is unknown, and it goes to the table `unclear`.

A scope is one bucket, or all buckets of a partition if rows do not show theirs: in a clean table with several bucket keys, another program
may have put rows of all buckets into one file. A key is in one bucket only, so the rows of all buckets are compared with the newest changes
of all their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiering.errors import KvSnapshotGone, LakewardError, LogTruncated, SourceChanged
from tiering.lake.column_names import RESERVED_PREFIX
from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import BUCKET_COLUMN, CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SNAPSHOT_OFFSET, TIMESTAMP_COLUMN, ChangeType
from tiering.validate.clean_footers import OURS_COLUMN
from tiering.validate.engine import Engine, Scope
from tiering.validate.lake_view import PLACE_COLUMN
from tiering.validate.subject import BucketRange

DELETED = int(ChangeType.DELETE)
AT, TIME = f"{RESERVED_PREFIX}at", f"{RESERVED_PREFIX}time"
CHANGE, DIGEST = f"{RESERVED_PREFIX}change", f"{RESERVED_PREFIX}digest"
BEFORE_START = f"{RESERVED_PREFIX}before_start"
"""Columns of the table `newest`: offset, time, change type, hash of the user's columns, and whether the first round began behind the
offset."""


def key_scopes(engine: Engine, bucket_ranges: Iterable[BucketRange]) -> tuple[Scope, ...]:
    """Returns the scopes of these buckets, and of dropped partitions whose rows do not show their bucket."""
    bucket_ranges = tuple(bucket_ranges)
    mixed: Sequence[str] = ()
    if not engine.layout.has_row_offsets:
        mixed = [place for (place,) in engine.rows(f"SELECT DISTINCT {PLACE_COLUMN} FROM lake WHERE {BUCKET_COLUMN} IS NULL ORDER BY 1")]
    single = [
        Scope(bucket_range.place[0], bucket_range.place[1], (bucket_range,))
        for bucket_range in bucket_ranges
        if bucket_range.place[0] not in mixed
    ]
    whole = [Scope(place, None, tuple(bucket_range for bucket_range in bucket_ranges if bucket_range.place[0] == place)) for place in mixed]
    return (*single, *whole)


@dataclass(frozen=True)
class NewestChanges:
    """Contents of the tables `newest` and `unclear` for one scope.

    `problem`: why keys that were last changed before the log begins are not in `newest`; None = all keys of the scope are in the tables.
    """

    problem: str | None = None
    unclear_keys: int = 0


def fold(engine: Engine, scope: Scope) -> NewestChanges:
    """Creates the tables `newest` and `unclear`.

    `newest`: offset, time, change type and hash of the user's columns of each key's newest change. A row of a KV snapshot has
    SNAPSHOT_OFFSET for its offset. `__before_start`: the change was made before the KV snapshot with which the first round of the bucket
    began. `unclear`: keys whose state at the end of the lake copy is unknown.
    """
    keys = _keys(engine)
    values = {
        TIME: TIMESTAMP_COLUMN,
        CHANGE: CHANGE_TYPE_COLUMN,
        DIGEST: engine.hash_of(*engine.own_columns),
    }
    newest = ", ".join(f"arg_max({value}, {OFFSET_COLUMN}) AS {name}" for name, value in values.items())
    into, at = "CREATE OR REPLACE TEMP TABLE newest AS", f"max({OFFSET_COLUMN})"
    for bucket_range in scope.members:
        start, stop = bucket_range.retained
        with engine.log(bucket_range, start, stop, [*engine.own_columns, OFFSET_COLUMN, TIMESTAMP_COLUMN, CHANGE_TYPE_COLUMN]) as log:
            engine.rows(
                f"{into} SELECT {keys}, {at} AS {AT}, {at} < {bucket_range.start} AS {BEFORE_START}, {newest} FROM {log} "
                f"WHERE {CHANGE_TYPE_COLUMN} <> {int(ChangeType.UPDATE_BEFORE)} GROUP BY {keys}"
            )
        into = "INSERT INTO newest"
    engine.rows(f"CREATE OR REPLACE TEMP TABLE unclear AS SELECT {keys} FROM newest LIMIT 0")
    cut = [bucket_range for bucket_range in scope.members if bucket_range.retained[0] > 0]
    return _with_older_rows(engine, scope, cut) if cut else NewestChanges()


def same_key(engine: Engine, first: str, second: str) -> str:
    """Returns SQL that is true for rows `first` and `second` with the same key."""
    return " AND ".join(f"{first}.{quoted(key)} = {second}.{quoted(key)}" for key in engine.table.primary_key)


def lake_rows(engine: Engine, scope: Scope) -> str:
    """Returns SQL of the scope's rows in the lake, with the columns of `newest` that they have. `scope.parameters` are its parameters."""
    digest = engine.hash_of(*engine.own_columns)
    time, is_ours = (TIMESTAMP_COLUMN, "TRUE") if engine.layout.has_row_offsets else ("NULL", OURS_COLUMN)
    columns = f"{_keys(engine)}, {OFFSET_COLUMN} AS {AT}, {time} AS {TIME}, {digest} AS {DIGEST}, {is_ours} AS {OURS_COLUMN}"
    return f"(SELECT {columns} FROM lake WHERE {scope.condition})"


def is_below_log(engine: Engine, scope: Scope) -> str:
    """Returns SQL that is true for a row `l` of the lake that has no change at or after the log's start."""
    return f"(l.{AT} < {scope.log_start})" if engine.layout.has_row_offsets else "TRUE"


def may_be_former(engine: Engine, scope: Scope) -> str:
    """Returns SQL that is true for a row `l` from before the log begins that may be of a dropped partition with the same name."""
    return f"({bool(scope.place)} AND ({engine.layout.has_row_offsets} OR NOT l.{OURS_COLUMN}))"


def _keys(engine: Engine) -> str:
    return ", ".join(quoted(key) for key in engine.table.primary_key)


def _with_older_rows(engine: Engine, scope: Scope, cut: Sequence[BucketRange]) -> NewestChanges:
    try:
        problems = _read_snapshots(engine, cut)
    except (LogTruncated, SourceChanged):
        raise  # the validation begins again
    except LakewardError as error:
        problems = [f"the KV snapshot cannot be compared ({error.message})"]
    if problem := next((problem for problem in problems if problem is not None), None):
        engine.rows("DELETE FROM unclear")
        return NewestChanges(problem)
    _leave_skipped_out(engine, scope, sum(engine.skipped_below(bucket_range, bucket_range.tiered) for bucket_range in cut))
    engine.rows(f"DELETE FROM kept AS k WHERE EXISTS (SELECT 1 FROM unclear AS u WHERE {same_key(engine, 'u', 'k')})")
    insert = int(ChangeType.INSERT)
    engine.rows(f"INSERT INTO newest SELECT {_keys(engine)}, {SNAPSHOT_OFFSET}, FALSE, NULL, {insert}, {DIGEST} FROM kept")
    [(unclear,)] = engine.rows("SELECT count(*) FROM unclear")
    return NewestChanges(None, unclear)


def _read_snapshots(engine: Engine, cut: Sequence[BucketRange]) -> list[str | None]:
    """Calls `_filled_from_snapshots`, and repeats it once with the newest KV snapshots if the cluster deleted one meanwhile."""
    try:
        return _filled_from_snapshots(engine, cut)
    except KvSnapshotGone:
        engine.forget_kv_snapshots()
        return _filled_from_snapshots(engine, cut)


def _filled_from_snapshots(engine: Engine, cut: Sequence[BucketRange]) -> list[str | None]:
    """Empties and fills `kept` and `unclear`, and returns the result of `_read_snapshot` for each bucket_range."""
    engine.rows(f"CREATE OR REPLACE TEMP TABLE kept AS SELECT {_keys(engine)}, {DIGEST} FROM newest LIMIT 0")
    engine.rows("DELETE FROM unclear")
    return [_read_snapshot(engine, bucket_range) for bucket_range in cut]


def _read_snapshot(engine: Engine, bucket_range: BucketRange) -> str | None:
    """Adds the snapshot's rows of keys without a change in the log to `kept`, and keys that changed behind the lake's end to `unclear`.

    Returns why the snapshot is of no use; None if it was used.
    """
    low, stop = bucket_range.retained
    snapshot = engine.newest_kv_snapshots().get(bucket_range.bucket)
    if snapshot is None:
        return f"bucket {bucket_range.name} has no KV snapshot"
    if snapshot.log_offset < low:
        return f"the KV snapshot of bucket {bucket_range.name} ends at offset {snapshot.log_offset}, before that"
    keys, changed = _keys(engine), f"EXISTS (SELECT 1 FROM newest AS n WHERE {same_key(engine, 'n', 's')})"
    with engine.kv_snapshot(bucket_range, snapshot, engine.own_columns) as rows:
        engine.rows(f"INSERT INTO kept SELECT {keys}, {engine.hash_of(*engine.own_columns)} FROM {rows} AS s WHERE NOT {changed}")
    if snapshot.log_offset > stop:
        with engine.log(bucket_range, stop, snapshot.log_offset, list(engine.table.primary_key)) as log:
            engine.rows(f"INSERT INTO unclear SELECT DISTINCT {keys} FROM {log} AS s WHERE NOT {changed}")
    return None


def _leave_skipped_out(engine: Engine, scope: Scope, skipped: int) -> None:
    """Moves keys that differ to `unclear` if skipped records explain them: the KV state has these records, but their keys are unknown.

    A skipped record explains one key. More differences than skipped records are a fault of the lake.
    """
    if not skipped:
        return
    unmatched = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {name} AS t WHERE {same_key(engine, 't', 'l')})" for name in ("newest", "unclear"))
    lake = f"(SELECT * FROM {lake_rows(engine, scope)} AS l WHERE {is_below_log(engine, scope)} AND {unmatched})"
    keys = ", ".join(f"coalesce(k.{quoted(key)}, l.{quoted(key)}) AS {quoted(key)}" for key in engine.table.primary_key)
    differs = f"k.{DIGEST} IS DISTINCT FROM l.{DIGEST} AND NOT (k.{DIGEST} IS NULL AND {may_be_former(engine, scope)})"
    engine.rows(
        f"CREATE OR REPLACE TEMP TABLE differing AS SELECT {keys} FROM kept AS k FULL JOIN {lake} AS l ON {same_key(engine, 'k', 'l')} "
        f"WHERE {differs}",
        scope.parameters,
    )
    [(differing,)] = engine.rows("SELECT count(*) FROM differing")
    if differing <= skipped:
        engine.rows("INSERT INTO unclear SELECT DISTINCT * FROM differing")
