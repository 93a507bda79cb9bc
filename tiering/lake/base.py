"""What Lakeward needs of a lake format. Two faces: `Lake` and `LakeCommitter` on the driver, `LakeWriter` on executors.

A `Lake` makes a `LakeTieringFactory` for a table; that makes writers and a committer, and carries write results between processes.
What a lake may offer beside it: `maintenance.LakeMaintenance` (reconcile, sweep) and `file_lists.ReadableLake` (DuckDB reads and
proves its files). A new format implements these and passes `tests/conformance/`; `registry` says how it is found.

The names are those of Fluss's plug, `com.alibaba.fluss.lake.writer.LakeTieringFactory`. What deviates from it:
- `toCommittable` and the committable's serializer are not here. A round puts its write results together itself, since it alone knows
  the contiguous prefix that may be committed, and a `Committable` never leaves the driver.
- `commit` takes the base that it builds on and the marker that it publishes, and sends one compare-and-set: Fluss's takes only a
  committable and properties. So a committer needs no context of its own.
- `getMissingLakeSnapshot` is `Lake.view`: the rules of `tiering.lake.rules` decide what it means for whom.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.lake.foreign import ForeignWalk
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import Proofs, standing
from tiering.lake.proof.file_footer import Run
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder

FLUSS_COMMIT_USER_KEY = "commit-user"
FLUSS_OFFSETS_KEY = "fluss-offsets"
"""In a snapshot's summary: by this user, and the path of this offsets file, Fluss's committers and readers know a tiering commit."""
FLUSS_COMMIT_USER = "__fluss_lake_tiering"
"""Commit user of Fluss's own tiering (docs/fluss-facts.md): such a snapshot is a tiering commit, never a foreign one."""


NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class LakeSnapshot:
    """One committed version of a lake table, as far as the rules of DESIGN 6 look at it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at: datetime
    operation: str
    commit_user: str | None = None
    round_id: str | None = None
    offsets_path: str | None = None
    """What `fluss-offsets` in its summary names."""
    mark: int | None = None
    """What tells it from another one of its id, where ids come again after a roll-back (Paimon); no id equals it. None = they do not."""

    @property
    def identity(self) -> int:
        """What is remembered of it, to know it again."""
        return self.snapshot_id if self.mark is None else self.mark


@dataclass(frozen=True)
class LakeView:
    """One read of a lake table's metadata: everything in it is of one moment.

    `tiered` is the newest tiering commit as the format knows it: the snapshot whose `marker` says how far the table is tiered. The
    rules ask for nothing else. A round's snapshot that is newer than `tiered` is a sign that somebody moved `reference` back.
    `handle` is the format's own (for Iceberg, the loaded table); only the lake that made the view looks at it.
    """

    path: TablePath
    table_uuid: str
    head: int | None
    tiered: int | None
    marker: Marker | None
    snapshots: Mapping[int, LakeSnapshot]
    records: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    location: str | None = None
    reference: str | None = None
    """Name of the reference by which the format knows `tiered`, such as "tag lakeward-tiered", for hints. It moves in the commit itself
    and only then. None = the format finds `tiered` among the snapshots themselves; a tag of its own may follow a commit later."""
    set_head_command: str | None = None
    """How a user sets the main branch on a former snapshot, for hints."""
    is_head_set_in_spark: bool = False
    """Whether that is `set_current_snapshot` of Iceberg's Spark catalog."""
    handle: object = field(default=None, compare=False, repr=False)
    foreign: ForeignWalk | None = None
    """What another tiering service did since `tiered`. None = none is expected, or nobody looked (`rules.shared_base`)."""
    expired: Mapping[int, LakeSnapshot] = field(default_factory=dict)
    """Snapshots between `head` and `tiered` that expired and whose parents the format still knows. Their files may be deleted."""

    def ancestor(self, snapshot_id: int | None) -> LakeSnapshot | None:
        """The snapshot of this id, also an expired one, for a walk from a snapshot to its parents; None if nothing is known of it."""
        if snapshot_id is None:
            return None
        return self.snapshots.get(snapshot_id) or self.expired.get(snapshot_id)

    def line(self) -> Iterator[LakeSnapshot]:
        """The head and its ancestors, newest first, each once; ends before the first one of which nothing is known."""
        snapshot, visited = self.ancestor(self.head), set[int]()
        while snapshot is not None and snapshot.snapshot_id not in visited:
            visited.add(snapshot.snapshot_id)
            yield snapshot
            snapshot = self.ancestor(snapshot.parent_id)

    @property
    def head_identity(self) -> int | None:
        """`identity` of the head; None without one."""
        return None if self.head is None else self.identity_of(self.head)

    def identity_of(self, snapshot_id: int) -> int:
        """`LakeSnapshot.identity` of a snapshot; the id itself of one that is gone."""
        snapshot = self.snapshots.get(snapshot_id)
        return snapshot_id if snapshot is None else snapshot.identity

    @property
    def ranges(self) -> Mapping[BucketKey, TieredRange]:
        """Where each bucket goes on: as the marker says, carried on by what another tiering service did since."""
        if self.foreign is not None:
            return self.foreign.ranges
        return {} if self.marker is None else self.marker.buckets

    @property
    def proofs(self) -> Proofs:
        """What the marker proves of the buckets that go on where it ends."""
        return {} if self.marker is None else standing(self.marker.proofs, self.marker.buckets, self.ranges)


@dataclass(frozen=True)
class WriterInitContext:
    """What a writer gets: one split's bucket, and names for its files."""

    table: TableInfo
    lake_table_uuid: str
    bucket: BucketKey
    partition_name: str | None
    round_id: str
    attempt_nonce: str
    """Random per attempt: round and attempt number repeat after a hand-over, this does not."""
    base: bytes = field(default=b"", repr=False)
    """Of a primary-key table: what stands in this bucket of the lake (`Lake.bucket_files`); empty = nothing."""
    replaces: bool = False
    """Whether all rows of a primary-key bucket in the lake go, for the KV snapshot with which it begins has all of its own
    (`planning.plan_splits.replaced_buckets`)."""


@dataclass(frozen=True)
class WriteResult:
    """What one split's writer hands back. `payload` is the format's own description of the files."""

    bucket: BucketKey
    starting_offset: int
    reached_offset: int
    records: int
    files: int
    size_bytes: int
    payload: bytes = field(repr=False)
    deletes: int = 0
    """Rows of the lake that it deletes."""
    checksum: int | None = None
    """`proof.row_checksum` of its records, if the table has a clean layout."""
    empty: tuple[Run, ...] = ()
    """Then of a log table: those of its offsets that have no record."""


@dataclass(frozen=True)
class FileRewrite:
    """Files of one bucket that a commit replaces by other files with the same living rows. `payload` is the format's own description.

    `rows_dropped`: rows of the former files that were deleted, which the new files do not have.
    """

    bucket: BucketKey
    payload: bytes = field(repr=False)
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows_dropped: int = 0


@dataclass(frozen=True)
class Committable:
    """All of a round's write results, ready to become one lake snapshot.

    `rewrites`: files of earlier rounds that the commit replaces, where they are still there. They change no row. `order`: what an upkeep
    round was asked for; its manifests and its expiry are done by the commit.
    """

    round_id: str
    results: tuple[WriteResult, ...]
    rewrites: tuple[FileRewrite, ...] = ()
    order: UpkeepOrder | None = None


@runtime_checkable
class LakeWriter(Protocol):
    """Writes the rows of one split. One thread."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch with the columns of `TableInfo.read_schema`, in offset order. Raises LakeUnavailable.

        Of a primary-key table these are changes: the writer folds them to the last one of each key (`-U` never counts) and, at
        `complete`, deletes by position what stands in the lake under those keys.
        """
        ...

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Closes all files; nothing of them is visible in the lake yet."""
        ...

    def abort(self) -> None:
        """Deletes the files written so far. Never raises."""
        ...


@runtime_checkable
class LakeCommitter(Protocol):
    """Turns one round's write results into one snapshot."""

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        """Sends one compare-and-set on uuid, head and newest tiering commit of `base`, once; returns the new snapshot's id.

        The order of the write results does not matter. `properties` stand in the snapshot's summary beside the marker, for whoever
        else reads the lake table.

        Raises BaseMoved, before anything is sent, if files that the deletes of `committable` name are not in `base` (any more).
        Raises CommitOutcomeUnknown after **any** error of the request, a conflict included: re-read the lake then.
        An error before the request was sent is raised as another class of the tree: nothing can have landed.
        """
        ...

    def abort(self, committable: Committable) -> None:
        """Deletes the files of a committable for which no request was ever sent. Never raises."""
        ...


@runtime_checkable
class LakeTieringFactory(Protocol):
    """Makes writers and a committer for one table, and carries write results. Pickles."""

    def create_writer(self, context: WriterInitContext) -> LakeWriter:
        """A writer of one split. Raises LakeTableReplaced, InvalidData (a partition's name), LakeUnavailable."""
        ...

    def create_committer(self) -> LakeCommitter:
        """On the driver; raises InvalidArgument elsewhere."""
        ...

    def serialize_write_result(self, result: WriteResult) -> bytes:
        """Versioned; what executors send to the driver."""
        ...

    def deserialize_write_result(self, data: bytes) -> WriteResult:
        """Raises ValueError naming the version it does not know."""
        ...


@runtime_checkable
class Lake(Protocol):
    """The driver side. Safe to call from several threads; every call may raise LakeUnavailable."""

    @property
    def format(self) -> str:
        """Its name in the registry, such as `iceberg`."""
        ...

    def databases(self) -> Sequence[str]:
        """Names of the databases in the lake's catalog, which also tells that it can be read."""
        ...

    def view(self, path: TablePath) -> LakeView | None:
        """A fresh read; None if there is no such lake table. Raises MarkerCorrupt."""
        ...

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        """Creates the lake table if need be, once, whoever else creates it; checks that its columns fit.

        Without `may_create` it raises LakeTableReplaced where there is none: in the place of one that was there no round makes another.
        A column that is new at the source is added, by a commit of its own that leaves head and newest tiering commit where they are.
        Raises SchemaDrift, UnsupportedType, InvalidArgument, InvalidName, LakeTableReplaced, MarkerCorrupt.
        """
        ...

    def check_schema(self, table: TableInfo) -> None:
        """Raises UnsupportedType, InvalidArgument or InvalidName, naming the column, for what this lake cannot hold. No I/O."""
        ...

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        """What stands in each of `buckets` (with its partition's name) of a primary-key table at `view`'s head, for its writers.

        Buckets in which nothing stands are left out. Format's own bytes; some hundred per file.
        """
        ...

    def tiering_factory(self, table: TableInfo) -> LakeTieringFactory:
        """For the lake table as `ensure_table` found it last. Raises LakeTableReplaced if there is none."""
        ...


def _no_settings() -> Collection[str]:
    return ()


@dataclass(frozen=True)
class LakeFormat:
    """A lake format, as `registry` finds it by its name."""

    open: Callable[[Mapping[str, str]], Lake]
    """Makes the lake, by the properties of its catalog; connects to nothing yet. Raises InvalidArgument."""
    own_settings: Callable[[], Collection[str]] = _no_settings
    """Names of the properties that the process has of its own, from its environment or a configuration file of the user's. Of these
    the coordinator's word does not count."""
