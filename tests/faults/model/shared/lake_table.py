"""A lake table, its log and the cluster's record of it, as values.

One table with one bucket. A row is (key, offset); in a log table the offset is its own key. `None` for an end: the bucket is not tiered.
"""

from __future__ import annotations

from typing import NamedTuple

Row = tuple[int, int]
Record = tuple[str, int] | None
"""Kind (I, U or D) and key; None = an offset without a row. U stands for a before- and an after-image at one offset."""
KV_SNAPSHOT_OFFSET = -1


class OffsetsFile(NamedTuple):
    """A file of offsets in the cluster: who prepared it, and the end that it says."""

    owner: str
    number: int
    end: int | None


class Mark(NamedTuple):
    """The marker of a snapshot of ours. The number of a round is its epoch."""

    round_id: int
    base: int | None
    start: int | None
    tiered: int | None


class Added(NamedTuple):
    """Rows of a foreign snapshot, as in `tiering.lake.foreign.AddedRows`."""

    begin: int
    end: int
    records: int


class Snapshot(NamedTuple):
    """`author` is `ours`, `flink` or `user`. Ids grow with every commit, and are the sequence numbers."""

    id: int
    parent: int | None
    author: str
    rows: tuple[Row, ...]
    file: OffsetsFile | None = None
    mark: Mark | None = None
    added: Added | None = None
    is_rewrite: bool = False


class LakeTable(NamedTuple):
    """`tag` names the newest tiering commit of ours."""

    head: int | None = None
    tag: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    next_id: int = 1

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        return next((snapshot for snapshot in self.snapshots if snapshot.id == snapshot_id), None)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows that a reader of the head sees."""
        head = self.snapshot(self.head)
        return () if head is None else head.rows

    @property
    def marker(self) -> Mark | None:
        tagged = self.snapshot(self.tag)
        return None if tagged is None else tagged.mark

    @property
    def newest(self) -> Snapshot | None:
        """The newest tiering snapshot, by any service, rolled back or not: Flink's check uses it."""
        return max((snapshot for snapshot in self.snapshots if snapshot.author != "user"), key=lambda entry: entry.id, default=None)

    @property
    def files(self) -> frozenset[OffsetsFile]:
        """Files of offsets that snapshots name."""
        return frozenset(snapshot.file for snapshot in self.snapshots if snapshot.file is not None)

    def with_snapshot(self, snapshot: Snapshot) -> LakeTable:
        """After a commit on the head; one of ours moves the tag."""
        added = snapshot._replace(id=self.next_id, parent=self.head, rows=tuple(sorted(snapshot.rows)))
        tag = self.tag if added.mark is None else added.id
        return LakeTable(added.id, tag, (*self.snapshots, added), self.next_id + 1)

    def trimmed(self) -> LakeTable:
        """Without what a look at the history does not need."""
        return self._replace(snapshots=tuple(snapshot._replace(rows=(), added=None) for snapshot in self.snapshots))


def added_rows(offsets: list[int]) -> Added | None:
    """The bounds of offsets in order; None if there are none."""
    return Added(offsets[0], offsets[-1] + 1, len(offsets)) if offsets else None


class Log(NamedTuple):
    """Records `[start, end)` are there. `records` are all that ever will be."""

    records: tuple[Record, ...]
    start: int
    end: int
    keyed: bool = False

    def holds_rows(self, start: int, stop: int) -> bool | None:
        """Returns the same as `tiering.cluster.shared_lake.log_rows`."""
        first, last = max(start, self.start), min(stop, self.end)
        unknown = None if first > start or last < stop else False
        return True if any(record is not None for record in self.records[first:last]) else unknown

    def truth(self, end: int) -> tuple[Row, ...]:
        """Returns the rows that a reader should see in a table that is tiered up to `end`."""
        if not self.keyed:
            return tuple((offset, offset) for offset, record in enumerate(self.records[:end]) if record is not None)
        return self.folded((), 0, end)

    def folded(self, rows: tuple[Row, ...], start: int, stop: int) -> tuple[Row, ...]:
        """Returns `rows` after a round of ours: every live row of a changed key is removed, and its last change is added."""
        changed = [(offset, record) for offset, record in enumerate(self.records[start:stop], start) if record is not None]
        if not self.keyed:
            return tuple(sorted((*rows, *((offset, offset) for offset, _ in changed))))
        last = {key: (offset, kind) for offset, (kind, key) in changed}
        left = [row for row in rows if row[0] not in last]
        return tuple(sorted((*left, *((key, offset) for key, (offset, kind) in last.items() if kind != "D"))))

    def appended(self, rows: tuple[Row, ...], start: int, stop: int) -> tuple[tuple[Row, ...], Added | None]:
        """Returns `rows` after a round of Flink's writers: a key whose first record is an insert gets no equality delete."""
        changed = [(offset, record) for offset, record in enumerate(self.records[start:stop], start) if record is not None]
        if not self.keyed:
            offsets = [offset for offset, _ in changed]
            return (*rows, *((offset, offset) for offset in offsets)), added_rows(offsets)
        left, written, offsets = list(rows), dict[int, int](), list[int]()
        for offset, (kind, key) in changed:
            if kind != "D" or key not in written:  # what was written in the round goes by position: no file has that offset
                offsets.append(offset)
            if kind != "I" and key not in written:
                left = [row for row in left if row[0] != key]
            if kind == "D":
                written.pop(key, None)
            else:
                written[key] = offset
        return (*left, *written.items()), added_rows(offsets)


class ClusterRecord(NamedTuple):
    """Fluss's record of the lake table: the last write wins. `highest` is the highest end that Fluss ever got: retention follows it."""

    registered: tuple[tuple[int, OffsetsFile], ...] = ()
    alive: frozenset[OffsetsFile] = frozenset()
    highest: int = 0

    @property
    def latest(self) -> int | None:
        return self.registered[-1][0] if self.registered else None

    @property
    def is_readable(self) -> bool:
        return not self.registered or self.registered[-1][1] in self.alive

    @property
    def end(self) -> int | None:
        return self.registered[-1][1].end if self.registered and self.is_readable else None

    def with_file(self, file: OffsetsFile) -> ClusterRecord:
        """PrepareLakeTableSnapshot."""
        return self._replace(alive=self.alive | {file})

    def registering(self, snapshot_id: int, file: OffsetsFile, keep: int | None) -> ClusterRecord:
        """CommitLakeTableSnapshot. `keep` None deletes every file that is registered, its own when it is repeated (H1); -1 none."""
        ids = [number for number, _ in self.registered]
        gone = len(ids) if keep is None else ids.index(keep) if keep in ids else 0
        alive = self.alive - {path for _, path in self.registered[:gone]}
        kept = tuple(entry for entry in self.registered[gone:] if entry != (snapshot_id, file))
        highest = max(self.highest, file.end or 0) if file in alive else self.highest
        return ClusterRecord((*kept, (snapshot_id, file)), alive, highest)
