"""Finds the rewrites that still fit a commit's base: other writers may have changed the table since the files were written."""

from __future__ import annotations

from collections.abc import Sequence

from tiering.lake.paimon.commit.manifests import BucketState, Manifests
from tiering.lake.paimon.writing.payload import FilesPayload


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
