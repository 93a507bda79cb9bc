"""An Iceberg table's metadata as a `LakeView`. Everything in it is of one metadata file, so of one moment."""

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
"""Names the newest tiering commit; moved in that commit itself, kept for ever (DESIGN 6)."""
SET_HEAD_COMMAND = "in Spark: CALL <lake catalog>.system.set_current_snapshot"
_COUNT = re.compile(r"[0-9]{1,19}")


def view_of(path: TablePath, table: Table, *, lenient: bool = False) -> LakeView:
    """The view; raises MarkerCorrupt, and LakeUnavailable if the marker is in a file that cannot be read.

    `lenient`: a marker that cannot be read is None.
    A head or a tag that names a snapshot which the metadata lacks is kept as it is: the base check judges it.
    """
    metadata = table.metadata
    snapshots = {snapshot.snapshot_id: lake_snapshot(snapshot) for snapshot in metadata.snapshots}
    main, tag = metadata.refs.get(MAIN_BRANCH), metadata.refs.get(TAG)
    if tag is not None and tag.snapshot_ref_type is not SnapshotRefType.TAG:
        raise MarkerCorrupt(
            f"{TAG} of the lake table {path} is a branch, not a tag",
            hint="Somebody made it by hand: drop that branch and set the tag on the newest snapshot that a Lakeward round wrote.",
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
        records=_living(totals, head),
        size_bytes=_total(totals, TOTAL_FILE_SIZE, head),
        files=_total(totals, TOTAL_DATA_FILES, head),
        location=redact(table.location()),
        reference=f"tag {TAG}",
        set_head_command=SET_HEAD_COMMAND,
        is_head_set_in_spark=True,
        handle=table,
    )


def lake_snapshot(snapshot: Snapshot) -> LakeSnapshot:
    """A snapshot of the metadata as the rules look at it."""
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return LakeSnapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        committed_at=datetime.fromtimestamp(snapshot.timestamp_ms / 1_000, UTC),
        operation="unknown" if snapshot.summary is None else snapshot.summary.operation.value,
        commit_user=_text(summary.get(FLUSS_COMMIT_USER_KEY)),
        round_id=_text(summary.get(ROUND_ID_KEY)),
        offsets_path=_text(summary.get(FLUSS_OFFSETS_KEY)),
    )


def _marker_if_readable(path: TablePath, table: Table, snapshot_id: int, *, lenient: bool) -> Marker | None:
    try:
        return marker_in(table, snapshot_id)
    except MarkerCorrupt as error:
        if lenient:
            return None
        hint = f"{error.hint} Or go on from the rows that the lake table holds: {reconcile_call(path, 'retier')}."
        raise MarkerCorrupt(error.message, hint=hint, **{**error.ids, "table_path": path}) from error


def marker_in(table: Table, snapshot_id: int) -> Marker | None:
    """The marker of one snapshot; raises MarkerCorrupt, LakeUnavailable."""
    uuid = str(table.metadata.table_uuid)
    return decode(summary_of(table.snapshot_by_id(snapshot_id)), lambda path: read_marker_file(table.io, path, uuid))


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """The summary's properties that are texts, as the specification wants all of them; pyiceberg does not check."""
    if snapshot is None or snapshot.summary is None:
        return {}
    return {name: value for name, value in snapshot.summary.additional_properties.items() if isinstance(value, str)}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _living(summary: Mapping[str, str], head: int | None) -> int | None:
    """Rows that readers see. Unknown with equality deletes, each of which stands for any number of rows. Deletes that a foreign
    compaction left over make it too low until the next round of their bucket (`primary_key.position_deletes.dead_rows`)."""
    records, deleted = _total(summary, TOTAL_RECORDS, head), _total(summary, TOTAL_POSITION_DELETES, head) or 0
    if records is None or _total(summary, TOTAL_EQUALITY_DELETES, head) or deleted > records:
        return None
    return records - deleted


def _total(summary: Mapping[str, str], key: str, head: int | None) -> int | None:
    """A total of the head's summary: 0 without a head, None if its writer kept no totals."""
    text = summary.get(key)
    if head is None:
        return 0
    return int(text) if text is not None and _COUNT.fullmatch(text) else None
