"""Optional abilities of a lake beyond tiering, such as surveys of tables on which no round may build, sweeps, and upkeep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from tiering.errors import InvalidArgument
from tiering.lake.base import FileRewrite, LakeView, WriteResult
from tiering.lake.foreign import CleanRows, ForeignSnapshot
from tiering.lake.log_starts import NO_STARTS, LogStarts
from tiering.lake.marker import Marker
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder, UpkeepStats


@dataclass(frozen=True)
class LakeSurvey:
    """The present state of a lake table, whatever is wrong with it.

    `view.marker` is None if it cannot be read. `newest_marker` is the newest readable marker of any snapshot. `head_marker` is the marker
    of the head or of its nearest ancestor that has one. Either is None if no such marker exists or can be read.
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
    """The end that another tiering service states: per partition id (None in a table without partitions) and bucket the next offset."""

    table_id: int
    offsets: Mapping[tuple[int | None, int], int]


@dataclass(frozen=True)
class StoredFile:
    """A file in a lake table's folders. `name` is the last part of its path. `location` identifies it for `delete_file`."""

    location: str
    name: str
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True)
class Removal:
    """The rows to remove in one commit. `places` are the buckets to check; one of several rows with the same offset stays.

    `ceilings`: all rows of a bucket from this offset on are removed. `emptied`: buckets whose files are all removed. `begins`: in these
    buckets only rows that their logs wrote are removed, because rows of a former partition of the same name may be among them.
    """

    places: Mapping[BucketKey, Place]
    ceilings: Offsets = field(default_factory=dict)
    emptied: frozenset[BucketKey] = frozenset()
    rows: int = 0
    """The number of rows to remove, if they were counted."""
    begins: LogStarts = field(default_factory=dict)


@runtime_checkable
class LakeMaintenance(Protocol):
    """A lake that can be reconciled and swept. Every call may raise LakeUnavailable."""

    def survey(self, path: TablePath) -> LakeSurvey | None:
        """Reads the lake table; None if there is no such lake table. Never raises MarkerCorrupt for an unreadable marker."""

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogStarts = NO_STARTS) -> RowOffsets:
        """Returns the offsets of the head's rows, for a partitioned table those of `partitions` (ids by name).

        For a primary-key table it returns only which places have data files, according to the manifests; all rows in them may be deleted.
        For a clean log table, files of former partitions of these names are left out. For a log table with system columns, rows of former
        partitions of the buckets in `begins` are left out, and rows of unknown partitions are also in `RowOffsets.unknown`. Raises
        SchemaDrift for a file whose bucket is unknown, and for a file of another table, partition or bucket.
        """

    def foreign_offsets(self, view: LakeView, snapshot_id: int) -> ForeignOffsets:
        """Returns the offsets that Fluss's tiering left with its snapshot (`fluss-offsets`). Raises CannotReconcile if unreadable."""

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        """Returns every file in the table's data and metadata folders and among its marker files."""

    def live_files(self, view: LakeView) -> Collection[str]:
        """Returns the locations of all files that any snapshot of the table names, spelled as in `stored_files`."""

    def delete_file(self, view: LakeView, location: str) -> None:
        """Deletes one of `stored_files`."""


@runtime_checkable
class OldMetadata(Protocol):
    """A lake whose commits leave metadata files that the table no longer names."""

    def delete_old_metadata(self, base: LakeView, confirmed: LakeView) -> Sequence[str]:
        """Deletes files that the table named at `base` and no longer names at `confirmed`, a later view. Returns their locations.

        Best effort: the sweep deletes those that remain. Never raises.
        """

    def may_delete_expired(self, view: LakeView) -> bool:
        """Whether the table's user allows the deletion of files that only expired snapshots named. No I/O."""

    def unnamed_metadata(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[StoredFile]:
        """Returns the metadata files among `files` that the table of `view` does not name and that may be deleted, in order of deletion.

        The caller leaves out files that are younger than the guard. Reads the beginnings of a bounded number of files.
        """


@runtime_checkable
class ExpiredAncestors(Protocol):
    """A lake whose stored files tell from which expired snapshots the table's snapshots descend."""

    def expired_ancestors(self, view: LakeView, files: Sequence[StoredFile]) -> Sequence[str]:
        """Returns the names of those `files` that are manifest lists of expired ancestors, as far as their stored chain is unbroken.

        Reads each of these files. Raises LakeUnavailable.
        """


@runtime_checkable
class FollowUpCommits(Protocol):
    """A lake where a landed round commits a second snapshot after its own one, under the same grant."""

    @property
    def has_follow_up_commits(self) -> bool:
        """True. A suspended process may send that commit late, so the sweep keeps the round's files while the round's snapshot exists."""


@runtime_checkable
class DriftCheck(Protocol):
    """A lake that checks whether a table's columns and files still fit, and changes nothing."""

    @property
    def renames_tables(self) -> bool:
        """Whether the catalog can rename a table."""

    def check_fit(self, table: TableInfo) -> None:
        """Passes if the lake table fits or does not exist. Raises SchemaDrift, LakeUnavailable, and what `Lake.check_schema` raises.

        It refuses all that a round refuses of the table after the check of columns. Otherwise no call would name the remedy.

        Ids of the drift name a remedy that removes none of Lakeward's rows: `mend` (rename_column, drop_column, drop_not_null,
        change_type, write_parquet or rewrite_files), `lake_column` and `mended_as`, the column's new name or type in Spark SQL. Without
        these ids there is no such remedy.
        """


@runtime_checkable
class TableRename(Protocol):
    """A lake that can rename a table of its catalog on a user's request, if `DriftCheck.renames_tables`."""

    def rename_table(self, path: TablePath, new_path: TablePath) -> None:
        """Renames the lake table; its files stay where they are. Creates the database of `new_path` if it does not exist.

        After an error the caller must read both names again. Raises LakeUnavailable, AlreadyExists, LakeTableReplaced (no such table).
        """


@runtime_checkable
class TableRemoval(Protocol):
    """A lake that can drop a table of its catalog on a user's request. No round drops tables."""

    def drop_table(self, path: TablePath) -> bool:
        """Drops the lake table with its files; False if there is none. Safe to repeat after a call that died. Raises LakeUnavailable."""


def check_own_lake_table(survey: LakeSurvey, cluster_id: str, table_id: int | None = None) -> None:
    """Raises InvalidArgument for a lake table with snapshots of another cluster, of another table than `table_id`, or of another program
    than Lakeward. `table_id` None = any table of the cluster.
    """
    path, owners = survey.view.path, {(marker.cluster_id, marker.table_id) for marker in survey.markers}
    others = {owner for owner in owners if owner[0] != cluster_id or table_id not in (None, owner[1])}
    if not survey.view.snapshots or (owners and not others):
        return
    clusters = ", ".join(sorted({cluster for cluster, _ in others} - {cluster_id}))
    if not owners:
        whose = "has snapshots without a marker of Lakeward"
    elif clusters:
        whose = f"was tiered from the cluster {clusters}; this is the cluster {cluster_id}"
    else:
        whose = "was tiered from an earlier table of this name"
    raise InvalidArgument(
        f"nothing was dropped: the lake table {path} {whose}",
        hint=f"To drop it nevertheless, use Spark SQL with the lake's catalog: DROP TABLE lake.{path}",
    )


@runtime_checkable
class ColumnValues(Protocol):
    """A lake that tells from its metadata how many values a column has."""

    def values_of(self, path: TablePath, column: str) -> int | None:
        """Returns the number of rows with a value in the column, including deleted rows; 0 without such a column. Reads no data file.

        None = unknown. Raises LakeUnavailable.
        """


@runtime_checkable
class PartitionRows(Protocol):
    """A lake that tells from its metadata how many rows each partition has."""

    def partition_rows(self, table: TableInfo, view: LakeView) -> Mapping[str | None, int]:
        """Returns the rows at `view`'s head by partition name, including deleted rows. The key None is for unknown names.

        Reads no data file. Raises LakeUnavailable.
        """


@runtime_checkable
class RowRemoval(Protocol):
    """A lake that can remove rows of a log table by offset, and whole buckets of a primary-key table."""

    def remove_rows(self, table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> Sequence[WriteResult]:
        """Writes the files that remove the rows from `view`'s head. Returns one write result for each bucket that loses rows.

        The results are for a commit on that very head. Their offsets are 0; `deletes` counts the rows. Raises LakeUnavailable,
        SchemaDrift, DataCorrupt.
        """


@runtime_checkable
class ForeignCommits(Protocol):
    """A lake that can tell what a snapshot of another tiering service added."""

    def foreign_snapshot(self, table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
        """Returns what the snapshot added, from the bounds of its files, or from their rows if they have no bounds.

        `partitions`: ids by name. Rows of other partitions are left out. Raises LakeUnavailable, SchemaDrift (a file of unknown bucket).
        """


@runtime_checkable
class CleanForeignCommits(Protocol):
    """A lake with `ForeignCommits` that can also sum rows of a clean layout, which carry no offsets (`has_clean_rows`)."""

    def clean_rows(
        self, table: TableInfo, view: LakeView, snapshot_ids: Sequence[int], partitions: Mapping[str, int]
    ) -> Sequence[CleanRows]:
        """Returns the sums of the rows that these snapshots, oldest first, added together to a clean table. Reads all of these rows.

        Raises LakeUnavailable, SchemaDrift (an unreadable file), DataCorrupt.
        """


@runtime_checkable
class LiveRowSums(Protocol):
    """A lake that sums the live rows of a clean log table. Rows carry no offsets in files that other writers made."""

    def live_row_sums(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> Sequence[CleanRows]:
        """Returns the live rows of `view`'s head by scope, as `sums.living`. Scopes without files are left out. `partitions`: ids by name.

        Reads footers of the files that rounds wrote, and all rows of other files and of files with deleted rows. Files of former
        partitions are left out. Raises LakeUnavailable, DataCorrupt, SchemaDrift (an unreadable file, or one of another table).
        """


@runtime_checkable
class AdoptableRows(Protocol):
    """A lake that sums the rows of a log table that an earlier pipeline wrote."""

    def adoptable_row_sums(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int]) -> Sequence[CleanRows]:
        """Returns the live rows of `view`'s head by scope, as `sums.living`, in the columns that lake table and source have now.

        Scopes without files are left out. `partitions`: ids by name. Reads all of these rows. Raises LakeUnavailable, DataCorrupt, and
        SchemaDrift for an unreadable file and for one that a Lakeward round wrote.
        """

    def unnamed_partitions(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        """Returns the partition fields of the lake table that rounds would not keep, because no option of the source names them.

        They have the form of entries of `table.datalake.partition`, which may name transforms that this option does not have. No I/O.
        """


@runtime_checkable
class ColumnCheck(Protocol):
    """A lake that tells whether a lake table fits its source, and changes nothing."""

    def column_changes(self, table: TableInfo, view: LakeView) -> Sequence[str]:
        """Returns in words how `Lake.ensure_table` would change the columns of the table of `view`, such as `add note`.

        Raises SchemaDrift, SourceChanged, UnsupportedType. No I/O.
        """


def never() -> bool:
    """Returns False: for work that is never stopped early."""
    return False


@runtime_checkable
class FileMerging(Protocol):
    """A lake that merges small files in rounds that add files. Every call may raise LakeUnavailable."""

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
        """Writes the newest small files of `buckets` (with their partitions' names) as one file a bucket, if a bucket has too many.

        The new files are not visible before a commit with these rewrites. Such a commit leaves out rewrites that no longer fit its base.
        Files of other tools, and partitions with deleted rows, are left alone. Reads at most `budget_bytes`. Once `is_over` returns True,
        no further bucket is begun, so the first of `buckets` have precedence. Raises DataCorrupt for a file whose rows do not have the
        checksum of its footer.
        """


@dataclass(frozen=True)
class RewriteTask:
    """Files of one bucket that one task rewrites. `payload` is the format's own. It can be pickled.

    `records`: rows of these files, including deleted ones; 0 = unknown.
    """

    bucket: BucketKey
    partition_name: str | None
    payload: bytes = field(repr=False)
    files: int
    size_bytes: int
    records: int = 0


@dataclass(frozen=True)
class UpkeepPlan:
    """The rewrites that fit the order's budget now, and the bytes of the files that are left for later rounds.

    `left_alone`: number of files that upkeep does not rewrite because their rows are unknown. They are not in `bytes_left`.
    """

    tasks: tuple[RewriteTask, ...] = ()
    bytes_left: int = 0
    left_alone: int = 0


@runtime_checkable
class TableUpkeep(Protocol):
    """A lake whose tables of both kinds can be rewritten by upkeep rounds (DESIGN 7, Upkeep)."""

    def plan_upkeep(self, table: TableInfo, view: LakeView, order: UpkeepOrder, partitions: Mapping[str, int]) -> UpkeepPlan:
        """Returns the files of `view`'s head that `order` asks to rewrite, worst bucket first. `partitions`: living ids by name.

        Reads manifests and, where needed, footers, but no rows. Files whose replacement would lose the proof are left out. Raises
        LakeUnavailable.
        """


@runtime_checkable
class FileRewriter(Protocol):
    """A `LakeTieringFactory` whose executors rewrite files. It can be pickled."""

    def rewrite(self, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
        """Writes the files that replace those of `task`. They are not visible before a commit with this rewrite.

        `is_stopped` is called between batches with the number of rows read so far. If it returns True, and after any error, the written
        files are deleted. Raises Cancelled, DataCorrupt, LakeUnavailable.
        """


@dataclass(frozen=True)
class ExpiryOutlook:
    """The effect of an expiry at this moment. `kept`: number of snapshots that stay, by reason."""

    expirable: int
    kept: Mapping[str, int]


@runtime_checkable
class SnapshotExpiry(Protocol):
    """A lake whose snapshots expire with commits of rounds."""

    def expiry_outlook(self, table: TableInfo, view: LakeView, order: ExpiryOrder) -> ExpiryOutlook:
        """Returns which snapshots of the table a commit on `view` with this order removes, and which stay. No I/O.

        One commit may remove only some of them. Raises InvalidArgument for a wrong option of the table.
        """


@runtime_checkable
class CommitUpkeep(Protocol):
    """A `LakeCommitter` that reports the upkeep of its commit."""

    @property
    def last_upkeep(self) -> UpkeepStats | None:
        """The upkeep of this committer's newest request, if it landed. None = no upkeep, or no request was sent."""


class SecondCatalog(Protocol):
    """A catalog in which lake tables are published. One thread at a time may use it."""

    @property
    def name(self) -> str:
        """The name of the catalog, as the operator gave it."""

    @property
    def lake_format(self) -> str:
        """The only lake format whose tables the catalog can have."""

    def publish(self, view: LakeView, check_lead: Callable[[], None]) -> None:
        """Lets the catalog's table point to the metadata of `view`. Does nothing if it already does.

        `check_lead` is called before each change of the catalog, and raises Fenced if this coordinator no longer leads.
        Raises AlreadyExists for a table of another origin or with changes of another writer, which is never replaced. Raises
        LakeUnavailable if the catalog does not answer or refuses the request.
        """
