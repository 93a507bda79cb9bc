"""An Iceberg table's metadata as a `LakeView`. All of it comes from one metadata file, so from the same moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    TOTAL_DATA_FILES,
    TOTAL_EQUALITY_DELETES,
    TOTAL_FILE_SIZE,
    TOTAL_POSITION_DELETES,
    TOTAL_RECORDS,
    Snapshot,
)

from tiering.errors import MarkerCorrupt
from tiering.lake.base import FLUSS_COMMIT_USER_KEY, FLUSS_OFFSETS_KEY, LakeSnapshot, LakeView
from tiering.lake.iceberg.commit.marker_files import read_marker_file
from tiering.lake.marker import ROUND_ID_KEY, Marker, decode
from tiering.lake.rules.hints import reconcile_call
from tiering.model.tables import TablePath
from tiering.redaction.redact import redact

TAG = "lakeward-tiered"
"""Name of the tag of the newest tiering commit. It moves in that commit itself and is kept forever (DESIGN 6)."""
SET_HEAD_COMMAND = "in Spark: CALL <lake catalog>.system.set_current_snapshot"
_COUNT = re.compile(r"[0-9]{1,19}")


def view_of(path: TablePath, table: Table, *, lenient: bool = False) -> LakeView:
    """Returns the view. Raises MarkerCorrupt, and LakeUnavailable if the marker is in a file that cannot be read.

    `lenient`: an unreadable marker becomes None.
    A head or a tag that names a missing snapshot is kept as it is: the base check judges it.
    """
    metadata = table.metadata
    snapshots = {snapshot.snapshot_id: lake_snapshot(snapshot) for snapshot in metadata.snapshots}
    main, tag = metadata.refs.get(MAIN_BRANCH), metadata.refs.get(TAG)
    if tag is not None and tag.snapshot_ref_type is not SnapshotRefType.TAG:
        raise MarkerCorrupt(
            f"{TAG} of the lake table {path} is a branch, not a tag",
            hint="A user created it. Drop the branch and set the tag to the newest snapshot that a Lakeward round wrote.",
            table_path=path,
        )
    head = None if main is None else main.snapshot_id
    totals = {} if head is None else summary_of(table.snapshot_by_id(head))
    return LakeView(
        path=path,
        table_uuid=str(metadata.table_uuid),
        head=head,
        tiered=None if tag is None else tag.snapshot_id,
        marker=None if tag is None else _marker_if_readable(path, table, tag.snapshot_id, lenient=lenient),
        snapshots=snapshots,
        records=_live_rows(totals, head),
        size_bytes=_total(totals, TOTAL_FILE_SIZE, head),
        files=_total(totals, TOTAL_DATA_FILES, head),
        location=redact(table.location()),
        reference=f"tag {TAG}",
        set_head_command=SET_HEAD_COMMAND,
        is_head_set_in_spark=True,
        handle=table,
    )


def lake_snapshot(snapshot: Snapshot) -> LakeSnapshot:
    """Returns a snapshot of the metadata in the form that the rules use."""
    summary = summary_of(snapshot)
    return LakeSnapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at=datetime.fromtimestamp(snapshot.timestamp_ms / 1_000, UTC),
        operation="unknown" if snapshot.summary is None else snapshot.summary.operation.value,
        commit_user=summary.get(FLUSS_COMMIT_USER_KEY),
        round_id=summary.get(ROUND_ID_KEY),
        offsets_path=summary.get(FLUSS_OFFSETS_KEY),
    )


def _marker_if_readable(path: TablePath, table: Table, snapshot_id: int, *, lenient: bool) -> Marker | None:
    try:
        return marker_in(table, snapshot_id)
    except MarkerCorrupt as error:
        if lenient:
            return None
        hint = f"{error.hint} Or continue from the rows that the lake table holds: {reconcile_call(path, 'retier')}."
        raise MarkerCorrupt(error.message, hint=hint, **{**error.ids, "table_path": path}) from error


def marker_in(table: Table, snapshot_id: int) -> Marker | None:
    """Returns the marker of one snapshot. Raises MarkerCorrupt, LakeUnavailable."""
    uuid = str(table.metadata.table_uuid)
    return decode(summary_of(table.snapshot_by_id(snapshot_id)), lambda path: read_marker_file(table.io, path, uuid))


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """Returns the summary's properties that are strings. The specification demands that all are, but pyiceberg does not check it."""
    if snapshot is None or snapshot.summary is None:
        return {}
    return {name: value for name, value in snapshot.summary.additional_properties.items() if isinstance(value, str)}


def _live_rows(summary: Mapping[str, str], head: int | None) -> int | None:
    """Returns the number of rows that readers see. None with equality deletes, because each may delete any number of rows. Deletes that a
    foreign compaction left make it too low until the next round of their bucket (`primary_key.position_deletes.dead_rows`)."""
    records, deleted = _total(summary, TOTAL_RECORDS, head), _total(summary, TOTAL_POSITION_DELETES, head) or 0
    if records is None or _total(summary, TOTAL_EQUALITY_DELETES, head) or deleted > records:
        return None
    return records - deleted


def _total(summary: Mapping[str, str], key: str, head: int | None) -> int | None:
    """Returns a total of the head's summary: 0 without a head, None if its writer kept no totals."""
    text = summary.get(key)
    if head is None:
        return 0
    return int(text) if text is not None and _COUNT.fullmatch(text) else None
