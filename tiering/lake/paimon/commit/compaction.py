"""Publishes the snapshot of kind COMPACT that follows a round's snapshot: files that the round merged replace the old files.

Each Paimon snapshot has one kind, and readers that follow a table treat every file that an APPEND adds as new rows. So merged files need a
separate snapshot, as in Paimon's own commits (`FileStoreCommitImpl`). It follows the round's snapshot, by a separate compare-and-set on
that snapshot, and has no marker. Whether it succeeds or not, the round has landed, and the newest tiering commit is the round's. If the
process dies in between, the small files stay as they were.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath

from tiering import crash_points
from tiering.lake.paimon.commit.manifests import BucketState, Manifests
from tiering.lake.paimon.commit.snapshot_content import COMPACT, next_id, snapshot_content
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import parse_snapshot
from tiering.lake.paimon.storage.base import discard
from tiering.lake.paimon.writing.payload import FilesPayload

Publisher = Callable[[LoadedTable, int, bytes], None]


def followed_by(loaded: LoadedTable, content: bytes) -> LoadedTable:
    """Returns `loaded` with the snapshot `content` added to its head."""
    return replace(loaded, chain=(*loaded.chain, parse_snapshot(next_id(loaded), content)))


def publish_compaction(
    loaded: LoadedTable, round_id: str, rewrites: Sequence[FilesPayload], publisher: Publisher, now_ms: int
) -> tuple[LoadedTable, Sequence[int]]:
    """Publishes those of `rewrites` that fit the head of `loaded`; publishes nothing if none fits. Returns the table afterwards, and the
    numbers of the published rewrites.

    Raises the errors of pypaimon and the storage. Unless the request was sent, the written manifests are deleted.
    """
    written: list[PurePath] = []
    try:
        manifests = Manifests(loaded, written)
        kept = fitting_rewrites(manifests, rewrites)
        if not kept:
            return loaded, ()
        lists = manifests.write(f"lakeward-{round_id}-{uuid.uuid4()}", [rewrites[number] for number in kept])
        content = snapshot_content(loaded, lists, {}, now_ms, COMPACT)
    except BaseException:
        discard(loaded.storage, written)
        raise
    crash_points.reach(crash_points.BEFORE_COMPACTION)
    publisher(loaded, next_id(loaded), content)
    return followed_by(loaded, content), kept


def fitting_rewrites(manifests: Manifests, rewrites: Sequence[FilesPayload]) -> list[int]:
    """Returns the numbers of the `rewrites` whose old files are all live in the head, and whose new files exist.

    The new files have the table's present columns. None fits if another writer has added deletion vectors: rows that these delete would
    reappear.
    """
    loaded = manifests.loaded
    if loaded.head is not None and loaded.head.document.get("indexManifest") is not None:
        return []
    own = {
        number: work
        for number, work in enumerate(rewrites)
        if (work.lake_table_uuid, work.schema_id) == (loaded.uuid, loaded.schema.schema_id)
    }
    standing = manifests.buckets({manifests.place(work) for work in own.values()})
    fitting = [number for number, work in own.items() if fits_bucket(work, standing.get(manifests.place(work), BucketState()))]
    files = [(number, file) for number in fitting for file in own[number].files]
    sizes = loaded.storage.sizes([loaded.root / file.path for _, file in files])
    lost = {number for (number, file), size in zip(files, sizes, strict=True) if size != file.size_bytes}
    return [number for number in fitting if number not in lost]


def fits_bucket(work: FilesPayload, state: BucketState) -> bool:
    """Returns whether all old files are in the bucket, and the new ones have a place among the remaining files.

    Above level 0 the new files become the bucket's only sorted run of their level, without delete rows. So every remaining file has to be
    of level 0 and have only newer rows.
    """
    removed = set(work.removed)
    old = [entry.file for entry in state.entries if entry.file.file_name in removed]
    if len(old) < len(removed):
        return False
    newest = max((int(file.max_sequence_number) for file in old), default=-1)
    others = [entry.file for entry in state.entries if entry.file.file_name not in removed]
    return work.level == 0 or all(file.level == 0 and int(file.min_sequence_number) > newest for file in others)
