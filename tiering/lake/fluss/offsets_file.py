"""The file of offsets of Fluss's tiering, version 1. A snapshot names it by `fluss-offsets` (docs/fluss-facts.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from tiering.errors import CannotReconcile, LakewardError, TransientTieringError
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ForeignOffsets
from tiering.model.tables import BucketKey, TableInfo

OFFSETS_LIMIT_BYTES = 64 << 20
_OFFSETS_FILE = re.compile(r"[A-Za-z0-9_-]+\.offsets")


def is_offsets_path(path: str) -> bool:
    """Whether the path is where Fluss puts offsets. It comes from a summary that any writer may set, so no other file is read."""
    folder, _, name = path.rpartition("/metadata/")
    return "/lake/" in folder and _OFFSETS_FILE.fullmatch(name) is not None and not any(part in path for part in ("?", "#", "/../"))


def parse_offsets(view: LakeView, snapshot_id: int, text: bytes | str) -> ForeignOffsets:
    """Returns the offsets in the file's content, with or without partitions; -1 = unknown. Raises CannotReconcile."""
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(view, snapshot_id, f"{type(error).__name__}: {error}") from error


def unreadable(view: LakeView, snapshot_id: int, why: str) -> CannotReconcile:
    """Returns the error for a snapshot whose offsets cannot be read."""
    return CannotReconcile(
        f"the offsets of the other tiering service in snapshot {snapshot_id} of {view.path} cannot be read: {why}",
        table_path=view.path,
        lake_snapshot_id=snapshot_id,
    )


def _parse(document: dict[str, object]) -> ForeignOffsets:
    if document["version"] != 1:
        raise ValueError(f"its version is {document['version']!r}; this Lakeward reads version 1")
    groups: list[tuple[int | None, list[int]]] = []
    if "bucket_offsets" in document:
        groups.append((None, cast("list[int]", document["bucket_offsets"])))
    partitions = cast("list[dict[str, object]]", document.get("partition_offsets", []))
    groups += [(int(cast(int, partition["partition_id"])), cast("list[int]", partition["bucket_offsets"])) for partition in partitions]
    offsets = {(partition, bucket): int(offset) for partition, row in groups for bucket, offset in enumerate(row) if offset >= 0}
    return ForeignOffsets(int(cast(int, document["table_id"])), offsets)


@dataclass(frozen=True)
class StatedOffsets:
    """The offsets that a snapshot of the other service states. `unread`: why they cannot be read now, although a later read may succeed."""

    offsets: Mapping[BucketKey, int] = field(default_factory=dict)
    unread: str = ""


def stated_offsets(table: TableInfo, read: Callable[[], ForeignOffsets]) -> StatedOffsets:
    """Returns the offsets that `read` returns. No offsets if they are of another table or gone: Fluss deletes files of older snapshots."""
    try:
        stated = read()
    except TransientTieringError as error:
        return StatedOffsets(unread=error.message)
    except LakewardError:
        return StatedOffsets()
    if stated.table_id != table.table_id:
        return StatedOffsets()
    return StatedOffsets({BucketKey(partition, bucket): offset for (partition, bucket), offset in stated.offsets.items()})
