"""Invariants of the model's lake tables (DESIGN 11). A check returns an empty text, or the violation.

That no table is blocked for ever is asked of every state by `search.WaysOut`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from faults.model.exclusive.lake_states import LakeTable, Mark, Row


def landed(before: LakeTable, after: LakeTable, mark: Mark, removed: frozenset[Row]) -> str:
    """Checks a lake table after a tiering commit: conservation of rows, and the chain of commits."""
    return conserved(after, mark, removed) or chained(before, mark)


def conserved(lake: LakeTable, mark: Mark, removed: frozenset[Row]) -> str:
    """The lake holds the rows that its marker says, each once, and none of another table. `removed`: users took these out."""
    counts = Counter(lake.rows)
    foreign = sorted(row for row in counts if row[0] != mark.table_id)
    if foreign:
        return f"foreign rows: the lake of table {mark.table_id} holds {foreign} of another table"
    doubled = sorted(offset for (_, offset), count in counts.items() if count > 1)
    if doubled:
        return f"rows are doubled: the offsets {doubled}"
    expected = {(mark.table_id, offset) for offset in range(mark.start, mark.tiered)}
    lost = sorted(offset for _, offset in expected - counts.keys() - removed)
    if lost:
        return f"rows are lost: the marker says that the offsets {lost} are tiered, and the lake does not hold them"
    surplus = sorted(offset for _, offset in counts if offset >= mark.tiered)
    return f"rows behind the marker, which the next round doubles: the offsets {surplus}" if surplus else ""


def chained(before: LakeTable, mark: Mark) -> str:
    """The base of every marker is the marker before, and belongs to the same lake table."""
    previous = None if before.marker is None else before.marker.round_id
    if mark.uuid != before.uuid:
        return f"round {mark.round_id} was made for the lake table {mark.uuid}, and landed in {before.uuid}"
    if mark.base != previous:
        return f"commits are no chain: round {mark.round_id} builds on round {mark.base}, and lands behind round {previous}"
    return ""


def files_kept(tables: Iterable[LakeTable | None], files: frozenset[str]) -> str:
    """Every file that a snapshot of any lake table needs is there, whatever the table is called by now."""
    missing = sorted(file for table in tables if table is not None for file in table.files - files)
    return f"a live file was deleted: {missing[0]}" if missing else ""


def stays_deleted(lake: LakeTable, deleted: frozenset[Row]) -> str:
    """No row comes back that a user deleted."""
    back = sorted(deleted & set(lake.rows))
    return f"a deleted row came back: {back[0]}" if back else ""


def log_kept(lake: LakeTable | None, log_start: int) -> str:
    """Checks that retention removes no record that a lake table lacks, unless the table was rolled back."""
    tiered = 0 if lake is None or lake.marker is None else lake.marker.tiered
    if lake is None or lake.is_rolled_back or log_start <= tiered:
        return ""
    return f"rows are lost: retention cut the log to {log_start}, and the lake ends at {tiered}"
