"""The offset of a stream of a table: how much of the lake and of each bucket's log the stream has read. Its JSON is in the checkpoint.

A stream first reads the files of one lake snapshot in a fixed order, then the log from the offsets of that snapshot. So two offsets
determine the rows between them. A query engine may store only the end of a first batch. That end therefore contains where the stream began.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tiering.errors import InvalidArgument
from tiering.model.tables import BucketKey, Offsets

VERSION = 1
"""Version of the JSON."""

BEGINNING = json.dumps({"v": VERSION}, separators=(",", ":"))
"""JSON of the offset at which a stream begins, before it is decided which rows are the first."""

RESTART_HINT = "Start the query with another checkpoint location, and `startingOffsets` for the rows to begin with."


@dataclass(frozen=True)
class LakePart:
    """The lake snapshot that a stream reads first: the number of its files in all, and of those that were read."""

    snapshot_id: int
    files: int
    files_done: int = 0
    mark: int | None = None
    """`LakeSnapshot.mark` of the snapshot: another snapshot of the same id has another one."""


@dataclass(frozen=True)
class StreamOffset:
    """The position of a stream."""

    table_id: int
    buckets: Offsets
    """Per bucket the next log offset to read. A bucket that is missing, also in `vanished`, was created later, and is read from 0."""
    lake: LakePart | None = None
    """None: the stream has read the lake part, or begins without one. The log is read after the lake part."""
    begin: StreamOffset | None = None
    """Where a first batch that ends here began; None = this is not the end of a first batch."""
    vanished: Offsets = field(default_factory=dict)
    """Per bucket the next log offset to read, if the cluster no longer lists the bucket's partition. Partition ids are never reused, so
    such a bucket returns only if the list was out of date. Then it is read from here."""
    schema_id: int = 0
    """`TableInfo.schema_id` when the stream began; 0 = unknown. The stream means its columns by the names that they had then."""

    def next_in(self, bucket: BucketKey) -> int:
        """Returns the next log offset of the bucket to read."""
        return self.buckets.get(bucket, self.vanished.get(bucket, 0))


def encode(offset: StreamOffset) -> str:
    """Returns the JSON. Equal offsets have equal JSON."""
    return json.dumps(_fields(offset), sort_keys=True, separators=(",", ":"))


def _fields(offset: StreamOffset) -> dict[str, Any]:
    fields: dict[str, Any] = {"v": VERSION, "table_id": offset.table_id, "buckets": _named(offset.buckets)}
    if offset.lake is not None:
        fields["lake"] = {"snapshot": offset.lake.snapshot_id, "files": offset.lake.files, "files_done": offset.lake.files_done}
        if offset.lake.mark is not None:
            fields["lake"]["mark"] = offset.lake.mark
    if offset.begin is not None:
        fields["begin"] = _fields(offset.begin)
    if offset.vanished:
        fields["vanished"] = _named(offset.vanished)
    if offset.schema_id:
        fields["schema"] = offset.schema_id
    return fields


def _named(offsets: Offsets) -> dict[str, int]:
    return {str(bucket): offsets[bucket] for bucket in sorted(offsets, key=BucketKey.sort_key)}


def decode(text: str | None) -> StreamOffset | None:
    """Returns the offset with this JSON; None for BEGINNING and for None. Raises InvalidArgument for any other text."""
    if text is None:
        return None
    try:
        fields = json.loads(text)
        if isinstance(fields, dict) and fields.get("v") not in (None, VERSION):
            _refuse(text, f"its version is {fields['v']}, and this service knows version {VERSION}")
        return None if fields == {"v": VERSION} else _offset(fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _refuse(text, str(error), error)


def _offset(fields: dict[str, Any]) -> StreamOffset:
    lake, begin = fields.get("lake"), fields.get("begin")
    return StreamOffset(
        _natural(fields["table_id"]),
        _of_buckets(fields["buckets"]),
        None if lake is None else _lake_part(lake),
        None if begin is None else _offset(begin),
        _of_buckets(fields.get("vanished", {})),
        _natural(fields.get("schema", 0)),
    )


def _of_buckets(named: dict[str, Any]) -> Offsets:
    return {BucketKey.parse(key): _natural(value) for key, value in named.items()}


def _lake_part(fields: dict[str, Any]) -> LakePart:
    mark = fields.get("mark")
    counts = _natural(fields["files"]), _natural(fields["files_done"])
    return LakePart(_integer(fields["snapshot"]), *counts, None if mark is None else _natural(mark))


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _natural(value: object) -> int:
    if _integer(value) < 0:
        raise ValueError(f"{value!r} is negative")
    return _integer(value)


def _refuse(text: str, problem: str, cause: Exception | None = None) -> NoReturn:
    raise InvalidArgument(f"the offset {text[:200]!r} of the stream cannot be read: {problem}", hint=RESTART_HINT) from cause
