"""The file in which Fluss's tiering says how far it wrote, which a snapshot names by `fluss-offsets` (docs/fluss-facts.md): version 1."""

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
    """Whether it is where Fluss puts offsets. It comes out of a summary that any writer may set: no other file is read."""
    folder, _, name = path.rpartition("/metadata/")
    return "/lake/" in folder and _OFFSETS_FILE.fullmatch(name) is not None and not any(part in path for part in ("?", "#", "/../"))


def parse_offsets(view: LakeView, snapshot_id: int, text: bytes | str) -> ForeignOffsets:
    """The file's content, with or without partitions; -1 = unknown. Raises CannotReconcile."""
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(view, snapshot_id, f"{type(error).__name__}: {error}") from error


def unreadable(view: LakeView, snapshot_id: int, why: str) -> CannotReconcile:
    """The error for a snapshot that does not tell."""
    return CannotReconcile(
        f"what the other tiering service wrote with snapshot {snapshot_id} of {view.path} cannot be read: {why}",
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
    """What a snapshot of the other service says of itself. `unread`: why it cannot be read now, though it may be later."""

    offsets: Mapping[BucketKey, int] = field(default_factory=dict)
    unread: str = ""


def stated_offsets(table: TableInfo, read: Callable[[], ForeignOffsets]) -> StatedOffsets:
    """What `read` tells; nothing if that is of another table or cannot be read, for Fluss deletes the files of older snapshots."""
    try:
        stated = read()
    except TransientTieringError as error:
        return StatedOffsets(unread=error.message)
    except LakewardError:
        return StatedOffsets()
    if stated.table_id != table.table_id:
        return StatedOffsets()
    return StatedOffsets({BucketKey(partition, bucket): offset for (partition, bucket), offset in stated.offsets.items()})
