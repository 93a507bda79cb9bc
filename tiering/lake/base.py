"""The interfaces that a lake format implements: `Lake` and `LakeCommitter` for the driver, `LakeWriter` for executors.

A `Lake` makes a `LakeTieringFactory` for a table. The factory makes writers and a committer, and carries write results between processes.
Optional abilities of a lake: `maintenance.LakeMaintenance` (reconcile, sweep) and `file_lists.ReadableLake` (DuckDB reads and proves its
files). A new format implements these interfaces and passes `tests/conformance/`; `registry` tells how it is found.

The names are those of Fluss's plugin interface, `com.alibaba.fluss.lake.writer.LakeTieringFactory`. The differences:
- `toCommittable` and the committable's serializer do not exist here. A round combines its write results itself, because only the round
  knows the contiguous prefix that may be committed, and a `Committable` never leaves the driver.
- `commit` takes its base and the marker that it publishes, and sends one compare-and-set. Fluss's method takes only a committable and
  properties. So a committer needs no context of its own.
- `Lake.view` takes the place of `getMissingLakeSnapshot`: the rules of `tiering.lake.rules` decide what the view means.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.lake.dead_letters.letter import DeadLetter
from tiering.lake.foreign import ForeignWalk
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import Proofs, continued
from tiering.lake.proof.file_footer import Run
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder

FLUSS_COMMIT_USER_KEY = "commit-user"
FLUSS_OFFSETS_KEY = "fluss-offsets"
"""Keys of a snapshot's summary. Fluss's committers and readers recognize a tiering commit by this user and the path of this file."""
FLUSS_COMMIT_USER = "__fluss_lake_tiering"
"""Commit user of Fluss's own tiering (docs/fluss-facts.md). A snapshot of this user is a tiering commit, never a foreign commit."""


NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class LakeSnapshot:
    """One committed version of a lake table, with the fields that the rules of DESIGN 6 need."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at: datetime
    operation: str
    commit_user: str | None = None
    round_id: str | None = None
    offsets_path: str | None = None
    """The path that `fluss-offsets` in its summary names."""
    mark: int | None = None
    """A number that distinguishes snapshots of the same id, where ids are reused after a roll-back (Paimon). It differs from every id.
    None = the format never reuses ids."""

    @property
    def identity(self) -> int:
        """The number by which a later check recognizes this very snapshot."""
        return self.snapshot_id if self.mark is None else self.mark


@dataclass(frozen=True)
class LakeView:
    """One read of a lake table's metadata. All of it is from the same moment.

    `tiered` is the newest tiering commit as the format knows it: the snapshot whose `marker` says how far the table is tiered. The rules
    use nothing else. If a round's snapshot is newer than `tiered`, a user moved `reference` back.
    `handle` belongs to the format (for Iceberg, the loaded table). Only the lake that made the view uses it.
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
    and only then. None = the format finds `tiered` among the snapshots; a tag of its own may follow a commit later."""
    set_head_command: str | None = None
    """The command by which a user sets the main branch to a former snapshot, for hints."""
    is_head_set_in_spark: bool = False
    """Whether that command is `set_current_snapshot` of Iceberg's Spark catalog."""
    handle: object = field(default=None, compare=False, repr=False)
    foreign: ForeignWalk | None = None
    """The commits of another tiering service since `tiered`. None = no such service is expected, or nothing was read
    (`rules.shared_base`)."""
    expired: Mapping[int, LakeSnapshot] = field(default_factory=dict)
    """Expired snapshots between `head` and `tiered` whose parents the format still knows. Their files may be deleted."""

    def ancestor(self, snapshot_id: int | None) -> LakeSnapshot | None:
        """Returns the snapshot of this id, also an expired one, for a walk over parents; None if it is unknown."""
        if snapshot_id is None:
            return None
        return self.snapshots.get(snapshot_id) or self.expired.get(snapshot_id)

    def line(self) -> Iterator[LakeSnapshot]:
        """Yields the head and its ancestors, newest first, each once. It ends before the first unknown one."""
        snapshot, visited = self.ancestor(self.head), set[int]()
        while snapshot is not None and snapshot.snapshot_id not in visited:
            visited.add(snapshot.snapshot_id)
            yield snapshot
            snapshot = self.ancestor(snapshot.parent_id)

    @property
    def head_identity(self) -> int | None:
        """The `identity` of the head; None without a head."""
        return None if self.head is None else self.identity_of(self.head)

    def identity_of(self, snapshot_id: int) -> int:
        """Returns `LakeSnapshot.identity` of a snapshot, or the id itself if the snapshot is gone."""
        snapshot = self.snapshots.get(snapshot_id)
        return snapshot_id if snapshot is None else snapshot.identity

    @property
    def ranges(self) -> Mapping[BucketKey, TieredRange]:
        """Per bucket the tiered range, from the marker or, where another service tiered since, from the walk over its commits."""
        if self.foreign is not None:
            return self.foreign.ranges
        return {} if self.marker is None else self.marker.buckets

    @property
    def proofs(self) -> Proofs:
        """The marker's proofs of the buckets that continue where the marker ends."""
        return {} if self.marker is None else continued(self.marker.proofs, self.marker.buckets, self.ranges)


@dataclass(frozen=True)
class WriterInitContext:
    """The input of a writer: one split's bucket, and names for its files."""

    table: TableInfo
    lake_table_uuid: str
    bucket: BucketKey
    partition_name: str | None
    round_id: str
    attempt_nonce: str
    """Random text for each attempt. Round and attempt number repeat after a hand-over; this text does not."""
    base: bytes = field(default=b"", repr=False)
    """For a primary-key table, the lake's present files of this bucket (`Lake.bucket_files`); empty = none."""
    replaces: bool = False
    """Whether all rows of a primary-key bucket in the lake are removed, because the bucket begins with a KV snapshot that has all its rows
    (`planning.plan_splits.replaced_buckets`)."""
    is_backfill: bool = False
    """Whether the rows are no records of the log (`proof.backfilled_rows`)."""


@dataclass(frozen=True)
class WriteResult:
    """The result of one split's writer. `payload` is the format's own description of the files."""

    bucket: BucketKey
    starting_offset: int
    reached_offset: int
    records: int
    files: int
    size_bytes: int
    payload: bytes = field(repr=False)
    deletes: int = 0
    """Number of the lake's rows that the result deletes."""
    checksum: int | None = None
    """The `proof.row_checksum` of its records, if the table has a clean layout."""
    empty: tuple[Run, ...] = ()
    """For a log table of a clean layout, its offsets without a record."""
    dead_letters: tuple[DeadLetter, ...] = ()
    """The records of its range that were put aside, because the lake cannot hold them."""
    replayed: tuple[Run, ...] = ()
    """For a replay of dead letters, the offsets of its records. They are below the range, which is empty."""


@dataclass(frozen=True)
class FileRewrite:
    """Files of one bucket that a commit replaces by other files with the same live rows. `payload` is the format's own description.

    `rows_dropped`: number of deleted rows of the former files, which the new files do not have.
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
    """All write results of a round, ready to become one lake snapshot.

    `rewrites`: files of earlier rounds that the commit replaces if they still exist. They change no row. `order`: the order of an upkeep
    round; the commit itself does its manifest and expiry work.
    """

    round_id: str
    results: tuple[WriteResult, ...]
    rewrites: tuple[FileRewrite, ...] = ()
    order: UpkeepOrder | None = None


@runtime_checkable
class LakeWriter(Protocol):
    """Writes the rows of one split. For use by one thread."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch with the columns of `TableInfo.read_schema`, in offset order. Raises LakeUnavailable.

        For a primary-key table the rows are changes. The writer keeps the last change of each key (`-U` never counts). At `complete` it
        deletes by position the lake's present rows of these keys.
        """

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Closes all files. None of them is visible in the lake before a commit."""

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises."""


@runtime_checkable
class LakeCommitter(Protocol):
    """Commits one round's write results as one snapshot."""

    def commit(self, committable: Committable, base: LakeView, marker: Marker, properties: Mapping[str, str] = NO_PROPERTIES) -> int:
        """Sends one compare-and-set on uuid, head and newest tiering commit of `base`, once. Returns the new snapshot's id.

        The order of the write results does not matter. `properties` are added to the snapshot's summary for other readers of the table.

        Raises BaseMoved before it sends a request if files that the deletes of `committable` name are not in `base` (any more).
        Raises CommitOutcomeUnknown after **any** error of the request, including a conflict: the caller must then read the lake again.
        An error before the request was sent has another class of the tree: then nothing can have landed.
        """

    def abort(self, committable: Committable) -> None:
        """Deletes the files of a committable for which no request was ever sent. Never raises."""


@runtime_checkable
class LakeTieringFactory(Protocol):
    """Makes writers and a committer for one table, and serializes write results. It can be pickled."""

    def create_writer(self, context: WriterInitContext) -> LakeWriter:
        """Returns a writer of one split. Raises LakeTableReplaced, InvalidData (a partition's name) or LakeUnavailable."""

    def create_committer(self) -> LakeCommitter:
        """Returns a committer. Raises InvalidArgument outside of the driver."""


@runtime_checkable
class Lake(Protocol):
    """The driver's side of a lake format. Safe to call from several threads. Every call may raise LakeUnavailable."""

    @property
    def format(self) -> str:
        """The format's name in the registry, such as `iceberg`."""

    def databases(self) -> Sequence[str]:
        """Returns the names of the databases in the lake's catalog. Success shows that the catalog can be read."""

    def view(self, path: TablePath) -> LakeView | None:
        """Reads the lake table's metadata; None if there is no such lake table. Raises MarkerCorrupt."""

    def ensure_table(self, table: TableInfo, *, may_create: bool = True) -> LakeView:
        """Creates the lake table if it does not exist, also if several callers do so at once, and checks that its columns fit.

        Without `may_create` it raises LakeTableReplaced if there is none: no round replaces a lake table that disappeared.
        A column that is new at the source is added by a commit of its own, which leaves head and newest tiering commit unchanged.
        Raises SchemaDrift, UnsupportedType, InvalidArgument, InvalidName, LakeTableReplaced, MarkerCorrupt.
        """

    def check_schema(self, table: TableInfo) -> None:
        """Raises UnsupportedType, InvalidArgument or InvalidName, with the column's name, for a table that the lake cannot hold. No I/O."""

    def bucket_files(self, table: TableInfo, view: LakeView, buckets: Mapping[BucketKey, str | None]) -> Mapping[BucketKey, bytes]:
        """Returns the files at `view`'s head of each of `buckets` of a primary-key table, for its writers.

        `buckets` has the partition's name of each bucket. Empty buckets are left out. The bytes are the format's own, some hundred a file.
        """

    def tiering_factory(self, table: TableInfo) -> LakeTieringFactory:
        """Returns the factory for the lake table as the last `ensure_table` found it. Raises LakeTableReplaced if there is none."""


@dataclass(frozen=True)
class LakeFormat:
    """A lake format that `registry` finds by its name."""

    open: Callable[[Mapping[str, str]], Lake]
    """Makes the lake from the properties of its catalog, without a connection. Raises InvalidArgument."""
    own_settings: Callable[[], Collection[str]] = tuple
    """Returns the names of the catalog properties that this process has itself, from its environment or a configuration file of the user.
    They take precedence over the coordinator's."""
