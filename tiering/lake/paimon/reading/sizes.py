"""Counts a Paimon table's data files and their bytes from its manifests, because snapshots do not contain these numbers."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from tiering.errors import LakeUnavailable
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable


@dataclass(frozen=True)
class TableSize:
    """`files` and `size_bytes` of a view; None = unknown."""

    files: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class _SnapshotSize:
    """The size at one snapshot, identified by id and content digest, because Paimon reuses ids after a roll-back."""

    snapshot_id: int
    digest: str
    files: int
    size_bytes: int


class SizeReader:
    """Adds what new snapshots added to a table's size when it was last read. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sizes: dict[str, _SnapshotSize] = {}

    def size_of(self, loaded: LoadedTable) -> TableSize:
        """Returns the size at the head. It is unknown if a manifest cannot be read: that is an error only for callers that need the
        manifest's content.
        """
        if loaded.head is None:
            return TableSize(0, 0)
        with self._lock:
            known_size = self._sizes.get(loaded.uuid)
        try:
            with lake_errors(f"read the manifests of {loaded.path}", table_path=loaded.path):
                size = _size(loaded, known_size)
        except LakeUnavailable:
            return TableSize()
        with self._lock:
            self._sizes[loaded.uuid] = size
        return TableSize(size.files, size.size_bytes)


def _size(loaded: LoadedTable, known_size: _SnapshotSize | None) -> _SnapshotSize:
    head = loaded.chain[-1]
    base = None if known_size is None else loaded.snapshot(known_size.snapshot_id)
    if known_size is None or base is None or base.digest != known_size.digest:
        return _SnapshotSize(head.snapshot_id, head.digest, *Manifests(loaded).added_size(head, with_base=True))
    if base is head:
        return known_size
    manifests = Manifests(loaded)
    newer = [manifests.added_size(snapshot, with_base=False) for snapshot in loaded.chain if snapshot.snapshot_id > base.snapshot_id]
    files, size_bytes = known_size.files + sum(files for files, _ in newer), known_size.size_bytes + sum(size for _, size in newer)
    return _SnapshotSize(head.snapshot_id, head.digest, files, size_bytes)
