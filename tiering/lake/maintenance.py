"""What a lake may offer beside tiering: a look at a table that no round may build on, and the files that dead rounds left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from tiering.lake.base import FileRewrite, LakeView, WriteResult
from tiering.lake.foreign import CleanRows, ForeignSnapshot
from tiering.lake.log_begins import NO_BEGINS, LogBegins
from tiering.lake.marker import Marker
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats


@dataclass(frozen=True)
class LakeSurvey:
    """A lake table as it is, whatever is wrong with it.

    `view.marker` is None if it cannot be read. `newest_marker` is the newest readable one of any snapshot, `head_marker` the
    one of the head or of its nearest ancestor that has one; None if there is none, or if it cannot be read.
    """

    view: LakeView
    newest_marker: Marker | None
    head_marker: Marker | None = None

    @property
    def markers(self) -> tuple[Marker, ...]:
        """All readable markers, each once. The one on which the head builds comes first."""
        different: list[Marker] = []
        for marker in (self.head_marker, self.view.marker, self.newest_marker):
            if marker is not None and marker not in different:
                different.append(marker)
        return tuple(different)


@dataclass(frozen=True)
class ForeignOffsets:
    """How far another tiering service says that it wrote: per partition id (None in a table without) and bucket the next offset."""

    table_id: int
    offsets: Mapping[tuple[int | None, int], int]


@dataclass(frozen=True)
class StoredFile:
    """A file in a lake table's folders. `name` is its last part, `location` what deletes it."""

    location: str
    name: str
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True)
class Removal:
    """Rows to remove in one commit. `places` are the buckets to look at; of doubled rows one stays.

    `ceilings`: from these offsets on all rows of a bucket go. `emptied`: buckets whose files all go. `begins`: of these buckets only rows
    that their logs wrote go, because rows of a former partition of the same name may stand among them.
    """

    places: Mapping[BucketKey, Place]
    ceilings: Offsets = field(default_factory=dict)
    emptied: frozenset[BucketKey] = frozenset()
    rows: int = 0
    """How many that are, where they were counted."""
    begins: LogBegins = field(default_factory=dict)


@runtime_checkable
class LakeMaintenance(Protocol):
    """A lake that can be reconciled and swept. Every call may raise LakeUnavailable."""

    def survey(self, path: TablePath) -> LakeSurvey | None:
        """A fresh look; None if there is no such lake table. Never raises MarkerCorrupt for a marker that cannot be read."""
        ...

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogBegins = NO_BEGINS) -> RowOffsets:
        """The offsets that the head's rows have, in a partitioned table those of these partitions, ids by name.

        Of a primary-key table only where data files stand, as the manifests say: rows in them may all be dead. Of a clean log table
        files of former partitions of these names are left out. `begins`: of a log table with system columns rows of former partitions
        of these buckets are left out, and rows of unknown partitions are among `RowOffsets.unknown`, too. Raises SchemaDrift for files
        whose bucket is unknown, and for those of another table, partition or bucket that somebody put there.
        """
        ...

    def foreign_offsets(self, view: LakeView, snapshot_id: int) -> ForeignOffsets:
        """What Fluss's tiering left with its snapshot (fluss-facts.md, `fluss-offsets`). Raises CannotReconcile if it cannot be read."""
        ...

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        """Every file in the table's data and metadata folders and among its marker files."""
        ...

    def live_files(self, view: LakeView) -> Collection[str]:
        """Locations, as `stored_files` spells them, of all files that any snapshot of the table names."""
        ...

    def delete_file(self, view: LakeView, location: str) -> None:
        """Deletes one of `stored_files`."""
        ...


@runtime_checkable
class OldMetadata(Protocol):
    """A lake whose commits leave metadata files that the table no longer names."""

    def delete_old_metadata(self, base: LakeView, confirmed: LakeView) -> Sequence[str]:
        """Deletes files that the table named at `base` and no longer names at `confirmed`, a later look at it; returns their locations.

        Best effort: some are left to the sweep. Never raises.
        """
        ...

    def may_delete_expired(self, view: LakeView) -> bool:
        """Whether the table's user lets files go that only expired snapshots named. No I/O."""
        ...

    def unnamed_metadata(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[StoredFile]:
        """The metadata files among `files` that the table of `view` does not name and that may go, the one to delete first coming first.

        The caller leaves out those that are younger than the guard. Reads the beginnings of a bounded number of files.
        """
        ...


@runtime_checkable
class ExpiredAncestors(Protocol):
    """A lake whose stored files tell from which expired snapshots its table's snapshots descend."""

    def expired_ancestors(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[str]:
        """Names of those of `files` that are the manifest lists of such expired snapshots, as far as an unbroken chain of them is stored.

        Reads each of these files. Raises LakeUnavailable.
        """
        ...


@runtime_checkable
class FollowUpCommits(Protocol):
    """A lake where a round that landed commits a second snapshot on its own one, under the same grant."""

    @property
    def has_follow_up_commits(self) -> bool:
        """True. A suspended process may send it late: the sweep keeps the round's files until the round's own snapshot is gone."""
        ...


@runtime_checkable
class DriftCheck(Protocol):
    """A lake that tells whether its table's columns and files still fit, and changes nothing."""

    @property
    def renames_tables(self) -> bool:
        """Whether its catalog can give a table another name."""
        ...

    def check_fit(self, table: TableInfo) -> None:
        """Passes if there is no lake table. Raises SchemaDrift, LakeUnavailable, and what `Lake.check_schema` raises.

        Whatever a round refuses of the table after it checked the columns is refused here, too: else nothing is named that helps.

        Ids of the drift say what mends it without taking anything from our rows: `mend` (rename_column, drop_column, drop_not_null,
        change_type, write_parquet or rewrite_files), `lake_column` and `mended_as`, its new name or type in Spark SQL. Without them
        nothing does.
        """
        ...


@runtime_checkable
class TableRemoval(Protocol):
    """A lake that drops a table of its catalog because a user asked for it. No round does."""

    def drop_table(self, path: TablePath) -> bool:
        """Drops the lake table with its files; False if there is none. A call that died is repeated. Raises LakeUnavailable."""
        ...


@runtime_checkable
class ColumnValues(Protocol):
    """A lake that tells from its metadata how much a column holds."""

    def values_of(self, path: TablePath, column: str) -> int | None:
        """In how many rows the column has a value, deleted ones included; 0 without such a column. Reads no data file.

        None = it cannot be told. Raises LakeUnavailable.
        """
        ...


@runtime_checkable
class PartitionRows(Protocol):
    """A lake that tells from its metadata how many rows each partition has."""

    def partition_rows(self, table: TableInfo, view: LakeView) -> Mapping[str | None, int]:
        """Returns rows by the partition's name at `view`'s head, deleted ones included; None where a name cannot be told.

        Reads no data file. Raises LakeUnavailable.
        """
        ...


@runtime_checkable
class RowRemoval(Protocol):
    """A lake in which rows of a log table can be removed by offset, and whole buckets of a primary-key table."""

    def remove_rows(self, table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> Sequence[WriteResult]:
        """Writes what removes them from `view`'s head, for a commit on that very head: one write result for each bucket that loses rows.

        Their offsets are 0, `deletes` counts the rows. Raises LakeUnavailable, SchemaDrift, DataCorrupt.
        """
        ...


@runtime_checkable
class ForeignCommits(Protocol):
    """A lake that can tell what a snapshot of another tiering service added."""

    def foreign_snapshot(self, table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
        """What it added, from the bounds of its files, or from their rows where there are no bounds. `partitions`: ids by name.

        Rows of a partition that is not among them are left out. Raises LakeUnavailable, SchemaDrift (a file whose bucket is unknown).
        """
        ...


@runtime_checkable
class CleanForeignCommits(Protocol):
    """Beside `ForeignCommits`: a lake that sums rows of a clean layout, which tell no offsets (`ForeignSnapshot.has_clean_rows`)."""

    def clean_rows(
        self, table: TableInfo, view: LakeView, snapshot_ids: Sequence[int], partitions: Mapping[str, int]
    ) -> Sequence[CleanRows]:
        """What these snapshots, oldest first, added together to a table of a clean layout; all of their rows are read.

        Raises LakeUnavailable, SchemaDrift (a file that cannot be read), DataCorrupt.
        """
        ...


@runtime_checkable
class StandingRows(Protocol):
    """A lake that sums the rows of a clean log table, which tell no offsets where somebody else wrote their files."""

    def standing_rows(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> Sequence[CleanRows]:
        """The rows of `view`'s head by scope, as `sums.living`; scopes without files are left out. `partitions`: ids by name.

        Footers are read of the files that rounds wrote, all rows are read of others and of files with deleted rows. Files of former
        partitions are left out. Raises LakeUnavailable, DataCorrupt, SchemaDrift (a file that cannot be read, or of another table).
        """
        ...


@runtime_checkable
class ColumnCheck(Protocol):
    """A lake that tells without a change of it whether a lake table fits its source."""

    def new_columns(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        """Names of the columns that `Lake.ensure_table` would add to the table of `view`. Raises SchemaDrift, UnsupportedType. No I/O."""
        ...


def never() -> bool:
    """Of work that goes on to its end."""
    return False


@runtime_checkable
class FileMerging(Protocol):
    """A lake that merges small files in the rounds that add some. Every call may raise LakeUnavailable."""

    def merge_small_files(
        self,
        table: TableInfo,
        view: LakeView,
        buckets: Mapping[BucketKey, str | None],
        round_id: str,
        new_nonce: Callable[[], str],
        budget_bytes: int,
        is_over: Callable[[], bool] = never,
    ) -> Sequence[FileRewrite]:
        """Writes the newest small files of `buckets` (with their partitions' names) as one file a bucket, where there are too many.

        Nothing of it is visible before a commit with these rewrites, and such a commit leaves out what does not fit its base any more.
        Files that other tools wrote, and partitions with deleted rows, are left alone. At most `budget_bytes` are read. Once `is_over`, no
        further bucket is begun: those that come first in `buckets` have the first claim. Raises DataCorrupt for a file whose rows do not
        have the checksum of its footer.
        """
        ...


@dataclass(frozen=True)
class RewriteTask:
    """Files of one bucket that one task rewrites. `payload` is the format's own; pickles.

    `records`: rows of these files, deleted ones included; 0 = unknown.
    """

    bucket: BucketKey
    partition_name: str | None
    payload: bytes = field(repr=False)
    files: int
    size_bytes: int
    records: int = 0


@dataclass(frozen=True)
class UpkeepPlan:
    """What is to be rewritten now, within the order's budget, and how many bytes of files are left for later rounds.

    `left_alone`: files that upkeep does not rewrite because it cannot tell their rows; they are not in `bytes_left`.
    """

    tasks: tuple[RewriteTask, ...] = ()
    bytes_left: int = 0
    left_alone: int = 0


@runtime_checkable
class TableUpkeep(Protocol):
    """A lake whose tables of both kinds can be rewritten by upkeep rounds (DESIGN 7, Upkeep)."""

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        """The files of `view`'s head that `order` wants rewritten, worst bucket first. `partitions`: ids of living partitions by name.

        Reads manifests and, where they are needed, footers; no rows. Files that nobody may replace without losing the proof are left out.
        Raises LakeUnavailable.
        """
        ...


@runtime_checkable
class FileRewriter(Protocol):
    """A `LakeTieringFactory` whose executors rewrite files. Pickles."""

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        """Writes the files that take the place of `task`'s. Nothing of it is visible before a commit with this rewrite.

        `is_stopped` is called between batches with the number of rows that were read so far. If it returns True, and after any error, what
        was written is deleted. Raises Cancelled, DataCorrupt, LakeUnavailable.
        """
        ...


@dataclass(frozen=True)
class ExpiryOutlook:
    """What an expiry would do now. `kept`: how many snapshots stay, by reason in words."""

    expirable: int
    kept: Mapping[str, int]


@runtime_checkable
class SnapshotExpiry(Protocol):
    """A lake whose snapshots expire with commits of rounds."""

    def expiry_outlook(self, table: TableInfo, view: LakeView, order: ExpiryOrder) -> ExpiryOutlook:
        """The snapshots of the table that a commit on `view` with this order removes, and those that stay. No I/O.

        One commit may remove fewer than all of them. Raises InvalidArgument for a wrong option of the table.
        """
        ...


@runtime_checkable
class CommitUpkeep(Protocol):
    """A `LakeCommitter` that tells what its commit did beside adding rows."""

    @property
    def last_upkeep(self) -> UpkeepStats | None:
        """What the newest request of this committer did, if it landed; None = nothing, or no request was sent."""
        ...
