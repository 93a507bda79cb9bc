"""How many data files a Paimon table has, and how large they are: no snapshot says so, but its manifests do."""

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
class _KnownSize:
    """Of the snapshot of that id and content: after a roll-back ids come again."""

    snapshot_id: int
    digest: str
    files: int
    size_bytes: int


class SizeReader:
    """Adds what new snapshots add to what a table had when it was looked at last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[str, _KnownSize] = {}

    def size_of(self, loaded: LoadedTable) -> TableSize:
        """Of the head; unknown if a manifest cannot be read, which is an error for those alone who need what it says."""
        if loaded.head is None:
            return TableSize(0, 0)
        with self._lock:
            known = self._known.get(loaded.uuid)
        try:
            with lake_errors(f"read the manifests of {loaded.path}", table_path=loaded.path):
                size = _size(loaded, known)
        except LakeUnavailable:
            return TableSize()
        with self._lock:
            self._known[loaded.uuid] = size
        return TableSize(size.files, size.size_bytes)


def _size(loaded: LoadedTable, known: _KnownSize | None) -> _KnownSize:
    head = loaded.chain[-1]
    base = None if known is None else loaded.snapshot(known.snapshot_id)
    if known is None or base is None or base.digest != known.digest:
        return _KnownSize(head.snapshot_id, head.digest, *Manifests(loaded).added_size(head, with_base=True))
    if base is head:
        return known
    manifests = Manifests(loaded)
    newer = [manifests.added_size(snapshot, with_base=False) for snapshot in loaded.chain if snapshot.snapshot_id > base.snapshot_id]
    files, size_bytes = known.files + sum(files for files, _ in newer), known.size_bytes + sum(size for _, size in newer)
    return _KnownSize(head.snapshot_id, head.digest, files, size_bytes)
