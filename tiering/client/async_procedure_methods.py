"""Methods of the client for asyncio that call a procedure by its name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, Unpack

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
from tiering.wire.calls import TableName
from tiering.wire.channel import AsyncConnection
from tiering.wire.procedure_calls import CallOptions, OnProgress, ProcedureCall, pieces_of

if TYPE_CHECKING:
    from tiering.rpc.v1.control_pb2_grpc import TieringControlAsyncStub

ResultT = TypeVar("ResultT")


class AsyncProcedureMethods:
    """The same as `ProcedureMethods`, for asyncio.

    `options` of those that change something: `dry_run` only answers, a repeat under one `idempotency_key` has one effect, `caller` is
    the user of this process unless named.
    """

    _connection: AsyncConnection
    _control: TieringControlAsyncStub

    async def pause_tiering(
        self, table_path: TableName, *, reason: str | None = None, until: datetime | None = None, **options: Unpack[CallOptions]
    ) -> PauseResult:
        """See `ProcedureMethods.pause_tiering`."""
        return await self._perform(procedures.pause_tiering(table_path, reason, until), options)

    async def resume_tiering(self, table_path: TableName, *, reason: str | None = None, **options: Unpack[CallOptions]) -> PauseResult:
        """See `ProcedureMethods.resume_tiering`."""
        return await self._perform(procedures.resume_tiering(table_path, reason), options)

    async def cancel_tiering(self, round_id: str, *, message: str | None = None, **options: Unpack[CallOptions]) -> CancelResult:
        """See `ProcedureMethods.cancel_tiering`."""
        return await self._perform(procedures.cancel_tiering(round_id, message), options)

    async def retry_tiering(self, table_path: TableName, **options: Unpack[CallOptions]) -> RetryResult:
        """See `ProcedureMethods.retry_tiering`."""
        return await self._perform(procedures.retry_tiering(table_path), options)

    async def reset_errors(self, table_path: TableName, **options: Unpack[CallOptions]) -> ResetResult:
        """See `ProcedureMethods.reset_errors`."""
        return await self._perform(procedures.reset_errors(table_path), options)

    async def set_freshness(self, table_path: TableName, freshness: str, **options: Unpack[CallOptions]) -> SetFreshnessResult:
        """See `ProcedureMethods.set_freshness`."""
        return await self._perform(procedures.set_freshness(table_path, freshness), options)

    async def fence_tierer(self, tierer_id: str, *, reason: str | None = None, **options: Unpack[CallOptions]) -> FenceTiererResult:
        """See `ProcedureMethods.fence_tierer`."""
        return await self._perform(procedures.fence_tierer(tierer_id, reason), options)

    async def tier_database(
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
        """See `ProcedureMethods.tier_database`. Cancelling ends the wait, not the rounds."""
        call = procedures.tier_database(database_name, include, exclude, only_stale, wait, timeout_ms)
        return list((await self._perform(call, options, on_progress)).rows)

    async def wait_for_tiering(
        self,
        table_path: TableName,
        *,
        timestamp: datetime | None = None,
        offsets: Mapping[str, int] | None = None,
        timeout_ms: int = 300_000,
        caller: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> WaitForTieringResult:
        """See `ProcedureMethods.wait_for_tiering`."""
        call = procedures.wait_for_tiering(table_path, timestamp, offsets, timeout_ms)
        return await self._perform(call, {"caller": caller}, on_progress)

    async def explain_tiering(self, table_path: TableName, *, caller: str | None = None) -> tuple[Explanation, ...]:
        """See `ProcedureMethods.explain_tiering`."""
        return (await self._perform(procedures.explain_tiering(table_path), {"caller": caller})).lines

    async def validate_table(
        self, table_path: TableName, *, level: str = "offsets", snapshot_id: int | None = None, caller: str | None = None
    ) -> tuple[CheckResult, ...]:
        """See `ProcedureMethods.validate_table`."""
        return await self._perform(procedures.validate_table(table_path, level, snapshot_id), {"caller": caller})

    async def reconcile_lake(self, table_path: TableName, action: str, **options: Unpack[CallOptions]) -> ReconcileResult:
        """See `ProcedureMethods.reconcile_lake`."""
        return await self._perform(procedures.reconcile_lake(table_path, action), options)

    async def skip_record(
        self,
        table_path: TableName,
        bucket_id: int,
        offset: int,
        *,
        partition: str | None = None,
        reason: str | None = None,
        **options: Unpack[CallOptions],
    ) -> SkipRecordResult:
        """See `ProcedureMethods.skip_record`."""
        return await self._perform(procedures.skip_record(table_path, bucket_id, offset, partition, reason), options)

    async def set_table_option(
        self, table_path: TableName, name: str, value: str | None = None, **options: Unpack[CallOptions]
    ) -> SetOptionResult:
        """See `ProcedureMethods.set_table_option`."""
        return await self._perform(procedures.set_table_option(table_path, name, value), options)

    async def take_kv_snapshot(self, table_path: TableName, **options: Unpack[CallOptions]) -> TakeSnapshotResult:
        """See `ProcedureMethods.take_kv_snapshot`."""
        return await self._perform(procedures.take_kv_snapshot(table_path), options)

    async def acquire_kv_snapshot_lease(
        self, lease_id: str, table_path: TableName, *, ttl_ms: int | None = None, **options: Unpack[CallOptions]
    ) -> LeaseResult:
        """See `ProcedureMethods.acquire_kv_snapshot_lease`."""
        return await self._perform(procedures.acquire_kv_snapshot_lease(lease_id, table_path, ttl_ms), options)

    async def renew_kv_snapshot_lease(self, lease_id: str, *, ttl_ms: int | None = None, **options: Unpack[CallOptions]) -> LeaseResult:
        """See `ProcedureMethods.renew_kv_snapshot_lease`."""
        return await self._perform(procedures.renew_kv_snapshot_lease(lease_id, ttl_ms), options)

    async def release_kv_snapshot_lease(self, lease_id: str, table_path: TableName, **options: Unpack[CallOptions]) -> LeaseResult:
        """See `ProcedureMethods.release_kv_snapshot_lease`."""
        return await self._perform(procedures.release_kv_snapshot_lease(lease_id, table_path), options)

    async def drop_kv_snapshot_lease(self, lease_id: str, **options: Unpack[CallOptions]) -> LeaseResult:
        """See `ProcedureMethods.drop_kv_snapshot_lease`."""
        return await self._perform(procedures.drop_kv_snapshot_lease(lease_id), options)

    async def rewrite_data_files(
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
        """See `ProcedureMethods.rewrite_data_files`."""
        call = procedures.rewrite_data_files(table_path, where, full, procedures.UpkeepWait(wait, timeout_ms, wait_for_tierer))
        return await self._perform(call, options, on_progress)

    async def expire_snapshots(
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
        """See `ProcedureMethods.expire_snapshots`."""
        call = procedures.expire_snapshots(table_path, older_than, retain_last, procedures.UpkeepWait(wait, timeout_ms, wait_for_tierer))
        return await self._perform(call, options, on_progress)

    async def rewrite_manifests(
        self,
        table_path: TableName,
        *,
        wait: bool = True,
        timeout_ms: int = 300_000,
        wait_for_tierer: bool = False,
        on_progress: OnProgress | None = None,
        **options: Unpack[CallOptions],
    ) -> UpkeepResult:
        """See `ProcedureMethods.rewrite_manifests`."""
        call = procedures.rewrite_manifests(table_path, procedures.UpkeepWait(wait, timeout_ms, wait_for_tierer))
        return await self._perform(call, options, on_progress)

    async def remove_orphan_files(
        self, table_path: TableName, *, older_than: datetime | None = None, **options: Unpack[CallOptions]
    ) -> OrphanFilesResult:
        """See `ProcedureMethods.remove_orphan_files`."""
        return await self._perform(procedures.remove_orphan_files(table_path, older_than), options)

    async def explain_upkeep(self, table_path: TableName, *, caller: str | None = None) -> tuple[UpkeepLine, ...]:
        """See `ProcedureMethods.explain_upkeep`."""
        return (await self._perform(procedures.explain_upkeep(table_path), {"caller": caller})).lines

    async def pause_upkeep(self, table_path: TableName, *, reason: str | None = None, **options: Unpack[CallOptions]) -> PauseResult:
        """See `ProcedureMethods.pause_upkeep`."""
        return await self._perform(procedures.pause_upkeep(table_path, reason), options)

    async def resume_upkeep(self, table_path: TableName, **options: Unpack[CallOptions]) -> PauseResult:
        """See `ProcedureMethods.resume_upkeep`."""
        return await self._perform(procedures.resume_upkeep(table_path), options)

    async def _perform(self, call: ProcedureCall[ResultT], options: CallOptions, on_progress: OnProgress | None = None) -> ResultT:
        pieces: list[bytes] = []
        with self._connection.calling():
            async for step in self._control.CallProcedure(call.request(options), timeout=call.timeout):
                pieces += pieces_of(step, on_progress)
        return call.result(pieces, self._connection.uri)
