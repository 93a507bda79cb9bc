"""The dead letters of a table for readers: their places as recorded, and their values from the dead-letter table in the lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog

from tiering.coordinator.decisions.records import TableRecord
from tiering.instants import from_microseconds
from tiering.lake.dead_letters.table import read_letters
from tiering.lake.marker import LaterChange
from tiering.model.refused_records import DeadLetterRow, DeadLetterStatus
from tiering.model.tables import BucketKey
from tiering.union_read.plan import LakeOpener

_log = structlog.get_logger(__name__)

_FROM_LAKE = ("partition_name", "change_type", "record_time", "set_aside_time", "round_id", "column_name", "reason", "record")


def dead_letter_rows(record: TableRecord, open_lake: LakeOpener | None) -> Iterator[DeadLetterRow]:
    """Yields the dead letters of a table, by partition, bucket and offset.

    Their values are unknown without `open_lake`, and if the lake does not answer.

    A row of the dead-letter table that no marker counts is left out: the round that wrote it died, or the record was replayed.
    """
    lake = record.lake
    if lake.dead_letters_since is None and not lake.superseded:
        return
    rows = {} if open_lake is None else _rows(record, open_lake)
    for bucket in sorted(map(BucketKey.parse, {*lake.skipped, *lake.dead_letters}), key=BucketKey.sort_key):
        waiting = set(lake.dead_letters.get(str(bucket), ()))
        superseded = lake.superseded.get(str(bucket), {})
        for offset in sorted(waiting.union(lake.skipped.get(str(bucket), ()))):
            row = rows.get((bucket, offset, lake.skipped_traces.get(str(bucket), {}).get(offset)), {})
            later = superseded.get(offset)
            if row or later is not None or offset in waiting:
                yield DeadLetterRow(
                    database_name=record.database_name,
                    table_name=record.table_name,
                    partition_id=bucket.partition_id,
                    bucket_id=bucket.bucket_id,
                    offset=offset,
                    status=_status(offset in waiting, later),
                    superseded_time=None if later is None else from_microseconds(later.time_us),
                    superseding_offset=None if later is None else later.offset,
                    superseding_change_type=None if later is None else later.change_type,
                    **{name: row.get(name) for name in _FROM_LAKE},
                )


def _status(is_waiting: bool, later: LaterChange | None) -> DeadLetterStatus:
    if is_waiting:
        return DeadLetterStatus.WAITING
    return DeadLetterStatus.DISCARDED if later is None else DeadLetterStatus.SUPERSEDED


def _rows(record: TableRecord, open_lake: LakeOpener) -> Mapping[tuple[BucketKey, int, str | None], Mapping[str, Any]]:
    """Returns the rows of the dead-letter table by bucket, offset and trace; none if the lake does not answer."""
    try:
        batches = list(read_letters(open_lake(record.lake_format), record.path, record.lake_format, (*_KEY, *_FROM_LAKE)))
    except Exception as error:  # files of a lake can be damaged in any way; the places are shown nevertheless
        _log.warning("the dead letters of a table could not be read", table=str(record.path), error=str(error))
        return {}
    rows: Sequence[Mapping[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    return {
        (BucketKey(row["partition_id"], row["bucket_id"]), row["offset"], row["trace"]): row
        for row in rows
        if row["table_id"] == record.table_id
    }


_KEY = ("table_id", "partition_id", "bucket_id", "offset", "trace")
