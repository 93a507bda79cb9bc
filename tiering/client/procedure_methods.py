"""Methods of the synchronous client that call a procedure by its name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar, Unpack

from tiering.client import procedures
from tiering.model.call_results import (
    CancelResult,
    CheckResult,
    Explanation,
    FenceTiererResult,
    LeaseResult,
    OrphanFilesResult,
    PauseResult,
    ReconcileResult,
    ResetResult,
    RetryResult,
    SetFreshnessResult,
    SetOptionResult,
    SkipRecordResult,
    TakeSnapshotResult,
    TierDatabaseRow,
    UpkeepLine,
    UpkeepResult,
    WaitForTieringResult,
)
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.wire.calls import TableName
from tiering.wire.channel import Connection
from tiering.wire.procedure_calls import CallOptions, OnProgress, ProcedureCall, pieces_of

ResultT = TypeVar("ResultT")


class ProcedureMethods:
    """A method a procedure, named as it is in SQL: `CALL sys.pause_tiering` is `pause_tiering`.

    `options` of those that change something: `dry_run` only answers, a repeat under one `idempotency_key` has one effect, `caller` is
    the user of this process unless named.
    """

    _connection: Connection
    _control: TieringControlStub

    def pause_tiering(
        self, table_path: TableName, *, reason: str | None = None, until: datetime | None = None, **options: Unpack[CallOptions]
    ) -> PauseResult:
        """Gives no tierer the table any more, until somebody resumes it or `until` is over. Raises UnknownTable, InvalidArgument."""
        return self._perform(procedures.pause_tiering(table_path, reason, until), options)

    def resume_tiering(self, table_path: TableName, *, reason: str | None = None, **options: Unpack[CallOptions]) -> PauseResult:
        """Ends a pause. Raises UnknownTable."""
        return self._perform(procedures.resume_tiering(table_path, reason), options)

    def cancel_tiering(self, round_id: str, *, message: str | None = None, **options: Unpack[CallOptions]) -> CancelResult:
        """Ends a running round without a commit, unless that was granted. Raises InvalidArgument for a queued one."""
        return self._perform(procedures.cancel_tiering(round_id, message), options)

    def retry_tiering(self, table_path: TableName, **options: Unpack[CallOptions]) -> RetryResult:
        """Tries a failed table again now, also one that failed for good. Raises UnknownTable."""
        return self._perform(procedures.retry_tiering(table_path), options)

    def reset_errors(self, table_path: TableName, **options: Unpack[CallOptions]) -> ResetResult:
        """Counts a table's errors anew. Raises UnknownTable."""
        return self._perform(procedures.reset_errors(table_path), options)

    def set_freshness(self, table_path: TableName, freshness: str, **options: Unpack[CallOptions]) -> SetFreshnessResult:
        """Promises that the lake copy is at most so old (`5 min`). Raises UnknownTable, LakeDisabled, InvalidArgument."""
        return self._perform(procedures.set_freshness(table_path, freshness), options)

    def fence_tierer(self, tierer_id: str, *, reason: str | None = None, **options: Unpack[CallOptions]) -> FenceTiererResult:
        """Takes a tierer's tables away from it, and gives it no more. Raises InvalidArgument for an unknown id."""
        return self._perform(procedures.fence_tierer(tierer_id, reason), options)

    def tier_database(
        self,
        database_name: str,
        *,
        include: str | None = None,
        exclude: str | None = None,
        only_stale: bool = True,
        wait: bool = True,
        timeout_ms: int = 300_000,
        on_progress: OnProgress | None = None,
        **options: Unpack[CallOptions],
    ) -> list[TierDatabaseRow]:
        """Brings the lake up to now for the tables of a database. A row a table, with its error if it has one.

        `include` and `exclude` are SQL LIKE patterns; `only_stale` takes those that lack rows; `on_progress` hears how many are done.
        Raises UnknownDatabase, InvalidName, InvalidArgument.
        """
        call = procedures.tier_database(database_name, include, exclude, only_stale, wait, timeout_ms)
        return list(self._perform(call, options, on_progress).rows)

    def wait_for_tiering(
        self,
        table_path: TableName,
        *,
        timestamp: datetime | None = None,
        offsets: Mapping[str, int] | None = None,
        timeout_ms: int = 300_000,
        caller: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> WaitForTieringResult:
        """Waits until the lake has the rows written until `timestamp`, or below `offsets`, or all of now.

        `offsets` by bucket as `sys.lake_commits` shows them; `on_progress` hears why it has not got them yet. Raises UnknownTable,
        LakeDisabled, InvalidArgument.
        """
        call = procedures.wait_for_tiering(table_path, timestamp, offsets, timeout_ms)
        return self._perform(call, {"caller": caller}, on_progress)

    def explain_tiering(self, table_path: TableName, *, caller: str | None = None) -> tuple[Explanation, ...]:
        """What a round would read now, and all that keeps one from beginning. Raises UnknownTable, ClusterUnavailable."""
        return self._perform(procedures.explain_tiering(table_path), {"caller": caller}).lines

    def validate_table(
        self, table_path: TableName, *, level: str = "offsets", snapshot_id: int | None = None, caller: str | None = None
    ) -> tuple[CheckResult, ...]:
        """Proves that a lake table equals its log, a result a check. Raises UnknownTable, InvalidArgument."""
        return self._perform(procedures.validate_table(table_path, level, snapshot_id), {"caller": caller})

    def reconcile_lake(self, table_path: TableName, action: str, **options: Unpack[CallOptions]) -> ReconcileResult:
        """Makes a lake table that failed the base check one to build on: adopt, accept, retier or deduplicate. Raises CannotReconcile."""
        return self._perform(procedures.reconcile_lake(table_path, action), options)

    def skip_record(
        self,
        table_path: TableName,
        bucket_id: int,
        offset: int,
        *,
        partition: str | None = None,
        reason: str | None = None,
        **options: Unpack[CallOptions],
    ) -> SkipRecordResult:
        """Leaves out the record at which a bucket stands, for good. Raises UnknownTable, UnknownPartition, InvalidArgument."""
        return self._perform(procedures.skip_record(table_path, bucket_id, offset, partition, reason), options)

    def set_table_option(
        self, table_path: TableName, name: str, value: str | None = None, **options: Unpack[CallOptions]
    ) -> SetOptionResult:
        """Sets an option of a table; None takes it back to its default. Raises UnknownTable, InvalidArgument."""
        return self._perform(procedures.set_table_option(table_path, name, value), options)

    def take_kv_snapshot(self, table_path: TableName, **options: Unpack[CallOptions]) -> TakeSnapshotResult:
        """Takes a KV snapshot of each changed bucket now. Raises UnknownTable, InvalidArgument."""
        return self._perform(procedures.take_kv_snapshot(table_path), options)

    def acquire_kv_snapshot_lease(
        self, lease_id: str, table_path: TableName, *, ttl_ms: int | None = None, **options: Unpack[CallOptions]
    ) -> LeaseResult:
        """Keeps a table's newest KV snapshots alive. Raises UnknownTable, InvalidArgument."""
        return self._perform(procedures.acquire_kv_snapshot_lease(lease_id, table_path, ttl_ms), options)

    def renew_kv_snapshot_lease(self, lease_id: str, *, ttl_ms: int | None = None, **options: Unpack[CallOptions]) -> LeaseResult:
        """Makes a lease last longer. Raises UnknownLease, InvalidArgument."""
        return self._perform(procedures.renew_kv_snapshot_lease(lease_id, ttl_ms), options)

    def release_kv_snapshot_lease(self, lease_id: str, table_path: TableName, **options: Unpack[CallOptions]) -> LeaseResult:
        """Lets go of what a lease holds of one table. Raises UnknownLease, UnknownTable."""
        return self._perform(procedures.release_kv_snapshot_lease(lease_id, table_path), options)

    def drop_kv_snapshot_lease(self, lease_id: str, **options: Unpack[CallOptions]) -> LeaseResult:
        """Lets go of all that a lease holds. Raises UnknownLease."""
        return self._perform(procedures.drop_kv_snapshot_lease(lease_id), options)

    def rewrite_data_files(
        self,
        table_path: TableName,
        *,
        where: str | None = None,
        full: bool = False,
        wait: bool = True,
        timeout_ms: int = 300_000,
        wait_for_tierer: bool = False,
        on_progress: OnProgress | None = None,
        **options: Unpack[CallOptions],
    ) -> UpkeepResult:
        """Merges small data files of a lake table and applies deletes, of the partitions that `where` matches, until none is left.

        `full` rewrites all files. Raises UnknownTable, TablePaused, InvalidArgument, or the error of its round.
        """
        call = procedures.rewrite_data_files(table_path, where, full, procedures.UpkeepWait(wait, timeout_ms, wait_for_tierer))
        return self._perform(call, options, on_progress)

    def expire_snapshots(
        self,
        table_path: TableName,
        *,
        older_than: datetime | None = None,
        retain_last: int | None = None,
        wait: bool = True,
        timeout_ms: int = 300_000,
        wait_for_tierer: bool = False,
        on_progress: OnProgress | None = None,
        **options: Unpack[CallOptions],
    ) -> UpkeepResult:
        """Removes old snapshots of a lake table; `UpkeepResult.kept` says which stay and why. Raises as `rewrite_data_files`."""
        call = procedures.expire_snapshots(table_path, older_than, retain_last, procedures.UpkeepWait(wait, timeout_ms, wait_for_tierer))
        return self._perform(call, options, on_progress)

    def rewrite_manifests(
        self,
        table_path: TableName,
        *,
        wait: bool = True,
        timeout_ms: int = 300_000,
        wait_for_tierer: bool = False,
        on_progress: OnProgress | None = None,
        **options: Unpack[CallOptions],
    ) -> UpkeepResult:
        """Merges the manifests of a lake table. Raises as `rewrite_data_files`."""
        call = procedures.rewrite_manifests(table_path, procedures.UpkeepWait(wait, timeout_ms, wait_for_tierer))
        return self._perform(call, options, on_progress)

    def remove_orphan_files(
        self, table_path: TableName, *, older_than: datetime | None = None, **options: Unpack[CallOptions]
    ) -> OrphanFilesResult:
        """Deletes files of a lake table that nothing names any more. Raises UnknownTable, InvalidArgument."""
        return self._perform(procedures.remove_orphan_files(table_path, older_than), options)

    def explain_upkeep(self, table_path: TableName, *, caller: str | None = None) -> tuple[UpkeepLine, ...]:
        """What the next upkeep of a lake table would do, and why it waits. Raises UnknownTable, ClusterUnavailable."""
        return self._perform(procedures.explain_upkeep(table_path), {"caller": caller}).lines

    def pause_upkeep(self, table_path: TableName, *, reason: str | None = None, **options: Unpack[CallOptions]) -> PauseResult:
        """Begins no upkeep round of a table any more, until its upkeep is resumed. Raises UnknownTable."""
        return self._perform(procedures.pause_upkeep(table_path, reason), options)

    def resume_upkeep(self, table_path: TableName, **options: Unpack[CallOptions]) -> PauseResult:
        """Ends a pause of upkeep. Raises UnknownTable."""
        return self._perform(procedures.resume_upkeep(table_path), options)

    def _perform(self, call: ProcedureCall[ResultT], options: CallOptions, on_progress: OnProgress | None = None) -> ResultT:
        pieces: list[bytes] = []
        with self._connection.calling():
            for step in self._control.CallProcedure(call.request(options), timeout=call.timeout):
                pieces += pieces_of(step, on_progress)
        return call.result(pieces, self._connection.uri)
