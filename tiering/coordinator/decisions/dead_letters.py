"""Counts the records that rounds of a table put aside, and keeps them below the limit of an hour. Pure (docs/dead-letters.md).

The counts follow from the markers in the lake, and are in the table's record. So they survive a restart, and a lost ack only delays them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions.records import LakeState, TableRecord
from tiering.lake.dead_letters.settled import SettledLetters
from tiering.lake.marker import LaterChange

HOUR = timedelta(hours=1)
MAX_SKIPPED = 20_000
"""Upper bound of the records of a table that are skipped at the same time. Each assignment names them all, and a message has 4 MiB."""


def remaining_dead_letters(record: TableRecord, now: datetime) -> int | None:
    """Returns how many records a round that starts now may put aside; None if its buckets stop before such records."""
    limit, lake = record.dead_letters_per_hour, record.lake
    if limit is None:
        return None
    used = lake.dead_letters_in_hour if _is_same_hour(lake, now) else 0
    skipped = sum(len(offsets) for offsets in lake.skipped.values())
    return max(0, min(limit - used, MAX_SKIPPED - skipped))


def with_marked_records(
    lake: LakeState,
    skipped: Mapping[str, Mapping[int, str | None]],
    letters: Mapping[str, Sequence[int]],
    superseded: Mapping[str, Mapping[int, LaterChange]],
    now: datetime,
) -> LakeState:
    """Returns the recorded lake with the records that a marker skips, of which `letters` were put aside.

    The dead letters and the superseded ones replace those of earlier markers. One of them that the marker does not skip any more was
    replayed, or its commit was rolled back: rounds read it again. Records of `CALL sys.skip_record` are recorded already, unless the store
    was restored.
    """
    for bucket, recorded in ((str(key), offsets) for key, offsets in lake.put_aside_offsets.items()):
        if gone := [offset for offset in recorded if offset not in skipped.get(bucket, ())]:
            lake = lake.without_skipped(bucket, gone)
    for bucket, traces in skipped.items():
        recorded_offsets, aside = frozenset(lake.skipped.get(bucket, ())), {*letters.get(bucket, ()), *superseded.get(bucket, {})}
        certain = {offset: trace for offset, trace in traces.items() if trace is not None or offset in aside}
        if missing := {offset: trace for offset, trace in certain.items() if offset not in recorded_offsets}:
            lake = lake.with_all_skipped(bucket, missing)
    new = new_letters(lake, letters)
    lake = replace(lake, dead_letters={bucket: tuple(marked) for bucket, marked in letters.items()}, superseded=superseded)
    if not new:
        return lake
    if _is_same_hour(lake, now):
        return replace(lake, dead_letters_in_hour=lake.dead_letters_in_hour + new)
    return replace(lake, dead_letters_since=now, dead_letters_in_hour=new)


def new_letters(lake: LakeState, letters: Mapping[str, Sequence[int]]) -> int:
    """Returns how many of a marker's dead letters are not recorded yet."""
    return sum(len(set(marked).difference(lake.dead_letters.get(bucket, ()))) for bucket, marked in letters.items())


def without_replayed(lake: LakeState, settled: SettledLetters) -> LakeState:
    """Returns the recorded lake before a commit that replays dead letters: no round skips them any more.

    They are still recorded as dead letters, so that they are not counted again if the commit does not land.
    """
    for bucket, offsets in settled.replayed.items():
        lake = lake.without_skipped(str(bucket), offsets)
    return lake


def with_replayed_again(lake: LakeState, before: LakeState, settled: SettledLetters) -> LakeState:
    """Returns the recorded lake after such a commit was not sent. `before` is the lake as recorded before `without_replayed`.

    Records that `CALL sys.skip_record` left out in the meantime stay skipped.
    """
    for bucket, offsets in ((str(bucket), offsets) for bucket, offsets in settled.replayed.items()):
        traces = before.skipped_traces.get(bucket, {})
        again = {offset: traces.get(offset) for offset in before.skipped.get(bucket, ()) if offset in offsets}
        lake = lake.with_all_skipped(bucket, again)
    return lake


def _is_same_hour(lake: LakeState, now: datetime) -> bool:
    return lake.dead_letters_since is not None and now < lake.dead_letters_since + HOUR
