"""Builds the `LakeView` of a Paimon table. Its newest tiering commit is the newest snapshot with a marker, because Paimon has no suitable
tag.
"""

from __future__ import annotations

from tiering.errors import MarkerCorrupt
from tiering.lake.base import LakeView
from tiering.lake.marker import ROUND_ID_KEY, Marker, decode
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import BASE_DIGEST_KEY, StoredSnapshot
from tiering.lake.rules.hints import reconcile_call

SET_HEAD_COMMAND = "in Paimon: CALL sys.rollback_to"


def view_of(loaded: LoadedTable, *, lenient: bool = False) -> LakeView:
    """Returns the view. Raises MarkerCorrupt, and LakeUnavailable if the marker is in a file that cannot be read.

    `lenient`: a marker that cannot be read is None.
    """
    head, is_log = loaded.head, not loaded.schema.table.primary_keys
    tiered = loaded.newest_with(ROUND_ID_KEY)
    with lake_errors(f"read the lake table {loaded.path}", table_path=loaded.path):
        return LakeView(
            path=loaded.path,
            table_uuid=loaded.uuid,
            head=None if head is None else head.snapshot_id,
            tiered=None if tiered is None else tiered.snapshot_id,
            marker=None if tiered is None else _marker_if_readable(loaded, tiered, lenient=lenient),
            snapshots={snapshot.snapshot_id: snapshot.described for snapshot in loaded.chain},
            records=_records(head) if is_log else None,
            location=loaded.location,
            set_head_command=SET_HEAD_COMMAND,
            handle=loaded,
        )


def marker_in(loaded: LoadedTable, snapshot: StoredSnapshot) -> Marker | None:
    """Returns the marker of one snapshot; None if it has none. Raises MarkerCorrupt, LakeUnavailable."""
    with lake_errors(f"read the marker of {loaded.path}", table_path=loaded.path):
        try:
            return decode(snapshot.properties, loaded.read_marker)
        except FileNotFoundError as error:
            raise MarkerCorrupt(
                f"the file of the marker of {loaded.path} is missing: {error}", hint="Restore that file.", table_path=loaded.path
            ) from error


def _records(head: StoredSnapshot | None) -> int | None:
    """Returns the number of rows of a log table. In a table with keys, several stored rows may be one."""
    if head is None:
        return 0
    total = head.document.get("totalRecordCount")
    return total if isinstance(total, int) else None


def _marker_if_readable(loaded: LoadedTable, tiered: StoredSnapshot, *, lenient: bool) -> Marker | None:
    try:
        _check_base(loaded, tiered)
        return marker_in(loaded, tiered)
    except MarkerCorrupt as error:
        if lenient:
            return None
        hint = f"{error.hint} Or continue from the rows that the lake table has: {reconcile_call(loaded.path, 'retier')}."
        raise MarkerCorrupt(error.message, hint=hint, **{**error.ids, "table_path": loaded.path}) from error


def _check_base(loaded: LoadedTable, tiered: StoredSnapshot) -> None:
    """Raises MarkerCorrupt if the snapshot before the newest tiering commit, or before a later one, is not the one on which it was built.

    Paimon reuses ids after a rollback. A commit that runs during a rollback may land on another snapshot than the one that it names.
    """
    for snapshot in reversed(loaded.chain):
        if snapshot.snapshot_id < tiered.snapshot_id:
            break
        expected, base = snapshot.properties.get(BASE_DIGEST_KEY), loaded.snapshot(snapshot.snapshot_id - 1)
        if expected is not None and base is not None and base.digest != expected:
            raise MarkerCorrupt(
                f"snapshot {snapshot.snapshot_id} of {loaded.path} was not built on snapshot {base.snapshot_id} as it is now",
                hint=f"The table was rolled back while a round committed. Roll it back to snapshot {base.snapshot_id}.",
                table_path=loaded.path,
                lake_snapshot_id=snapshot.snapshot_id,
            )
