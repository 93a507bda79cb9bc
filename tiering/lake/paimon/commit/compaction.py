"""The snapshot of the kind COMPACT that follows a round's own: files that the round merged take the place of the old ones.

Paimon's snapshots have one kind each, and readers that follow a table take every file that an APPEND adds for new rows. So merged files
need a snapshot of their own, as in Paimon's own commits (`FileStoreCommitImpl`). It comes behind the round's, by a compare-and-set of its
own on it, and has no marker: whatever becomes of it, the round has landed, and the newest tiering commit is the round's. A process that
dies in between leaves the small files as they were.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath

from tiering import crash_points
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.commit.snapshot_content import COMPACT, next_id, snapshot_content
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import parse_snapshot
from tiering.lake.paimon.upkeep.fitting_rewrites import fitting_rewrites
from tiering.lake.paimon.writing.payload import FilesPayload

Publisher = Callable[[LoadedTable, int, bytes], None]


def followed_by(loaded: LoadedTable, content: bytes) -> LoadedTable:
    """`loaded` as it is once the snapshot `content` landed on its head."""
    return replace(loaded, chain=(*loaded.chain, parse_snapshot(next_id(loaded), content)))


@dataclass(frozen=True)
class Compacted:
    """The table with the snapshot of a compaction, and the numbers of the rewrites that are in it."""

    loaded: LoadedTable
    kept: Sequence[int] = ()


def publish_compaction(
    loaded: LoadedTable, round_id: str, rewrites: Sequence[FilesPayload], publisher: Publisher, now_ms: int
) -> Compacted:
    """Publishes those of `rewrites` that fit the head of `loaded`; nothing if none does.

    Raises what pypaimon and the storage raise. Unless the request was sent, the manifests that were written are deleted.
    """
    written: list[PurePath] = []
    try:
        manifests = Manifests(loaded, written)
        kept = fitting_rewrites(manifests, rewrites)
        if not kept:
            return Compacted(loaded)
        lists = manifests.write(f"lakeward-{round_id}-{uuid.uuid4()}", [rewrites[number] for number in kept])
        content = snapshot_content(loaded, lists, {}, now_ms, COMPACT)
    except BaseException:
        for path in written:
            with suppress(OSError):  # the sweep comes later
                loaded.storage.delete(path)
        raise
    crash_points.reach(crash_points.BEFORE_COMPACTION)
    publisher(loaded, next_id(loaded), content)
    return Compacted(followed_by(loaded, content), kept)
