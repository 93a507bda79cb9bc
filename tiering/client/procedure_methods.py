"""The methods of the clients that call a procedure by its name: `CALL sys.pause_tiering` is `pause_tiering`.

`tests/support/services/client_methods.py` makes this file from the declarations in `tiering/procedures`, and a test compares the two. After
a change of a declaration run `PYTHONPATH=.:tests python -m support.services.client_methods`. docs/reference.md describes the arguments.

`options`: `dry_run` only answers, a repeat under one `idempotency_key` has one effect, and `caller` is by default the user of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from tiering.client.methods import AsyncPerformer, Performer, PreparedCall, async_method, method
from tiering.procedures.acquire_kv_snapshot_lease import AcquireKvSnapshotLease, AcquireKvSnapshotLeaseResult
from tiering.procedures.base import UpkeepResult
from tiering.procedures.cancel_tiering import CancelTiering, CancelTieringResult
from tiering.procedures.drop_kv_snapshot_lease import DropKvSnapshotLease, DropKvSnapshotLeaseResult
from tiering.procedures.expire_snapshots import ExpireSnapshots
from tiering.procedures.explain_tiering import ExplainTiering, Explanation
from tiering.procedures.explain_upkeep import ExplainUpkeep, UpkeepLine
from tiering.procedures.fence_tierer import FenceTierer, FenceTiererResult
from tiering.procedures.pause_tiering import PauseTiering, PauseTieringResult
from tiering.procedures.pause_upkeep import PauseUpkeep, PauseUpkeepResult
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult
from tiering.procedures.release_kv_snapshot_lease import ReleaseKvSnapshotLease, ReleaseKvSnapshotLeaseResult
from tiering.procedures.remove_orphan_files import RemoveOrphanFiles, RemoveOrphanFilesResult
from tiering.procedures.renew_kv_snapshot_lease import RenewKvSnapshotLease, RenewKvSnapshotLeaseResult
from tiering.procedures.reset_errors import ResetErrors, ResetErrorsResult
from tiering.procedures.resume_tiering import ResumeTiering, ResumeTieringResult
from tiering.procedures.resume_upkeep import ResumeUpkeep, ResumeUpkeepResult
from tiering.procedures.retry_tiering import RetryTiering, RetryTieringResult
from tiering.procedures.rewrite_data_files import RewriteDataFiles
from tiering.procedures.rewrite_manifests import RewriteManifests
from tiering.procedures.set_freshness import SetFreshness, SetFreshnessResult
from tiering.procedures.set_table_option import SetTableOption, SetTableOptionResult
from tiering.procedures.skip_record import SkipRecord, SkipRecordResult
from tiering.procedures.take_kv_snapshot import TakeKvSnapshot, TakeKvSnapshotResult
from tiering.procedures.tier_table import TierTable, TierTableResult
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.procedures.wait_for_tiering import WaitForTiering, WaitForTieringResult
from tiering.wire.procedure_calls import CallOptions, OnProgress, TableName, path_of


def acquire_kv_snapshot_lease(
    lease_id: str, table_path: TableName, ttl_ms: int = 21600000, **options: Unpack[CallOptions]
) -> PreparedCall[AcquireKvSnapshotLeaseResult]:
    """Keeps the newest KV snapshots of a table alive."""
    return PreparedCall(AcquireKvSnapshotLease(lease_id=lease_id, path=path_of(table_path), ttl_ms=ttl_ms, **options))


def cancel_tiering(round_id: str, message: str | None = None, **options: Unpack[CallOptions]) -> PreparedCall[CancelTieringResult]:
    """Ends a running round without a commit."""
    return PreparedCall(CancelTiering(round_id=round_id, message=message, **options))


def drop_kv_snapshot_lease(lease_id: str, **options: Unpack[CallOptions]) -> PreparedCall[DropKvSnapshotLeaseResult]:
    """Releases all KV snapshots of a lease."""
    return PreparedCall(DropKvSnapshotLease(lease_id=lease_id, **options))


def expire_snapshots(
    table_path: TableName,
    older_than: datetime | None = None,
    retain_last: int | None = None,
    wait: bool = True,
    timeout_ms: int = 300000,
    wait_for_tierer: bool = False,
    on_progress: OnProgress | None = None,
    **options: Unpack[CallOptions],
) -> PreparedCall[UpkeepResult]:
    """Removes old snapshots of a lake table, now."""
    return PreparedCall(
        ExpireSnapshots(
            path=path_of(table_path),
            older_than=older_than,
            retain_last=retain_last,
            wait=wait,
            timeout_ms=timeout_ms,
            wait_for_tierer=wait_for_tierer,
            **options,
        ),
        on_progress,
    )


def explain_tiering(table_path: TableName, caller: str = "") -> PreparedCall[tuple[Explanation, ...]]:
    """Shows what a round would read now, and everything that prevents one from beginning."""
    return PreparedCall(ExplainTiering(path=path_of(table_path), caller=caller))


def explain_upkeep(table_path: TableName, caller: str = "") -> PreparedCall[tuple[UpkeepLine, ...]]:
    """Shows what the next upkeep of a lake table would do, and why it waits."""
    return PreparedCall(ExplainUpkeep(path=path_of(table_path), caller=caller))


def fence_tierer(tierer_id: str, reason: str | None = None, **options: Unpack[CallOptions]) -> PreparedCall[FenceTiererResult]:
    """Takes a tierer's tables away from it, and gives it no more."""
    return PreparedCall(FenceTierer(tierer_id=tierer_id, reason=reason, **options))


def pause_tiering(
    table_path: TableName, reason: str | None = None, until: datetime | None = None, **options: Unpack[CallOptions]
) -> PreparedCall[PauseTieringResult]:
    """Stops the tiering of a table until it is resumed."""
    return PreparedCall(PauseTiering(path=path_of(table_path), reason=reason, until=until, **options))


def pause_upkeep(table_path: TableName, reason: str | None = None, **options: Unpack[CallOptions]) -> PreparedCall[PauseUpkeepResult]:
    """Stops the upkeep of a lake table, also in tiering rounds, until it is resumed."""
    return PreparedCall(PauseUpkeep(path=path_of(table_path), reason=reason, **options))


def reconcile_lake(table_path: TableName, action: str, **options: Unpack[CallOptions]) -> PreparedCall[ReconcileLakeResult]:
    """Makes a lake table that other programs changed usable for tiering again."""
    return PreparedCall(ReconcileLake(path=path_of(table_path), action=action, **options))


def release_kv_snapshot_lease(
    lease_id: str, table_path: TableName, **options: Unpack[CallOptions]
) -> PreparedCall[ReleaseKvSnapshotLeaseResult]:
    """Releases the KV snapshots of one table."""
    return PreparedCall(ReleaseKvSnapshotLease(lease_id=lease_id, path=path_of(table_path), **options))


def remove_orphan_files(
    table_path: TableName, older_than: datetime | None = None, **options: Unpack[CallOptions]
) -> PreparedCall[RemoveOrphanFilesResult]:
    """Deletes files of a lake table that no snapshot references any more."""
    return PreparedCall(RemoveOrphanFiles(path=path_of(table_path), older_than=older_than, **options))


def renew_kv_snapshot_lease(
    lease_id: str, ttl_ms: int | None = None, **options: Unpack[CallOptions]
) -> PreparedCall[RenewKvSnapshotLeaseResult]:
    """Extends a lease on KV snapshots."""
    return PreparedCall(RenewKvSnapshotLease(lease_id=lease_id, ttl_ms=ttl_ms, **options))


def reset_errors(table_path: TableName, **options: Unpack[CallOptions]) -> PreparedCall[ResetErrorsResult]:
    """Resets the count of a table's errors."""
    return PreparedCall(ResetErrors(path=path_of(table_path), **options))


def resume_tiering(table_path: TableName, reason: str | None = None, **options: Unpack[CallOptions]) -> PreparedCall[ResumeTieringResult]:
    """Ends a pause, so that the table is tiered again."""
    return PreparedCall(ResumeTiering(path=path_of(table_path), reason=reason, **options))


def resume_upkeep(table_path: TableName, **options: Unpack[CallOptions]) -> PreparedCall[ResumeUpkeepResult]:
    """Ends a pause of upkeep."""
    return PreparedCall(ResumeUpkeep(path=path_of(table_path), **options))


def retry_tiering(table_path: TableName, **options: Unpack[CallOptions]) -> PreparedCall[RetryTieringResult]:
    """Tries a failed table again now and forgets its back-off."""
    return PreparedCall(RetryTiering(path=path_of(table_path), **options))


def rewrite_data_files(
    table_path: TableName,
    where: str | None = None,
    full: bool = False,
    wait: bool = True,
    timeout_ms: int = 300000,
    wait_for_tierer: bool = False,
    on_progress: OnProgress | None = None,
    **options: Unpack[CallOptions],
) -> PreparedCall[UpkeepResult]:
    """Merges small data files of a lake table and applies deletes, now."""
    return PreparedCall(
        RewriteDataFiles(
            path=path_of(table_path), where=where, full=full, wait=wait, timeout_ms=timeout_ms, wait_for_tierer=wait_for_tierer, **options
        ),
        on_progress,
    )


def rewrite_manifests(
    table_path: TableName,
    wait: bool = True,
    timeout_ms: int = 300000,
    wait_for_tierer: bool = False,
    on_progress: OnProgress | None = None,
    **options: Unpack[CallOptions],
) -> PreparedCall[UpkeepResult]:
    """Merges the manifests of a lake table, now."""
    return PreparedCall(
        RewriteManifests(path=path_of(table_path), wait=wait, timeout_ms=timeout_ms, wait_for_tierer=wait_for_tierer, **options),
        on_progress,
    )


def set_freshness(table_path: TableName, freshness: str, **options: Unpack[CallOptions]) -> PreparedCall[SetFreshnessResult]:
    """Changes the freshness of a table."""
    return PreparedCall(SetFreshness(path=path_of(table_path), freshness=freshness, **options))


def set_table_option(
    table_path: TableName, name: str, value: str | None = None, **options: Unpack[CallOptions]
) -> PreparedCall[SetTableOptionResult]:
    """Sets an option of a table, or resets it to its default."""
    return PreparedCall(SetTableOption(path=path_of(table_path), name=name, value=value, **options))


def skip_record(
    table_path: TableName,
    bucket_id: int,
    offset: int,
    partition: str | None = None,
    reason: str | None = None,
    **options: Unpack[CallOptions],
) -> PreparedCall[SkipRecordResult]:
    """Excludes the record at which a bucket has stopped."""
    return PreparedCall(
        SkipRecord(path=path_of(table_path), bucket_id=bucket_id, offset=offset, partition=partition, reason=reason, **options)
    )


def take_kv_snapshot(table_path: TableName, **options: Unpack[CallOptions]) -> PreparedCall[TakeKvSnapshotResult]:
    """Takes a KV snapshot of each bucket that changed since its last one."""
    return PreparedCall(TakeKvSnapshot(path=path_of(table_path), **options))


def tier_table(
    table_path: TableName,
    wait: bool = True,
    timeout_ms: int = 300000,
    wait_for_tierer: bool = False,
    on_progress: OnProgress | None = None,
    **options: Unpack[CallOptions],
) -> PreparedCall[TierTableResult]:
    """Tiers a table now and waits until the lake has caught up."""
    return PreparedCall(
        TierTable(path=path_of(table_path), wait=wait, timeout_ms=timeout_ms, wait_for_tierer=wait_for_tierer, **options), on_progress
    )


def validate_table(
    table_path: TableName, level: str = "offsets", snapshot_id: int | None = None, on_progress: OnProgress | None = None, caller: str = ""
) -> PreparedCall[tuple[CheckResult, ...]]:
    """Proves with DuckDB that a lake table equals its log."""
    return PreparedCall(ValidateTable(path=path_of(table_path), level=level, snapshot_id=snapshot_id, caller=caller), on_progress)


def wait_for_tiering(
    table_path: TableName,
    timestamp: datetime | None = None,
    offsets: Mapping[str, int] | None = None,
    timeout_ms: int = 300000,
    on_progress: OnProgress | None = None,
    caller: str = "",
) -> PreparedCall[WaitForTieringResult]:
    """Waits until the lake has certain rows. It starts no round."""
    return PreparedCall(
        WaitForTiering(path=path_of(table_path), timestamp=timestamp, offsets=offsets, timeout_ms=timeout_ms, caller=caller), on_progress
    )


class ProcedureMethods(Performer):
    """A method per procedure."""

    acquire_kv_snapshot_lease = method(acquire_kv_snapshot_lease)
    cancel_tiering = method(cancel_tiering)
    drop_kv_snapshot_lease = method(drop_kv_snapshot_lease)
    expire_snapshots = method(expire_snapshots)
    explain_tiering = method(explain_tiering)
    explain_upkeep = method(explain_upkeep)
    fence_tierer = method(fence_tierer)
    pause_tiering = method(pause_tiering)
    pause_upkeep = method(pause_upkeep)
    reconcile_lake = method(reconcile_lake)
    release_kv_snapshot_lease = method(release_kv_snapshot_lease)
    remove_orphan_files = method(remove_orphan_files)
    renew_kv_snapshot_lease = method(renew_kv_snapshot_lease)
    reset_errors = method(reset_errors)
    resume_tiering = method(resume_tiering)
    resume_upkeep = method(resume_upkeep)
    retry_tiering = method(retry_tiering)
    rewrite_data_files = method(rewrite_data_files)
    rewrite_manifests = method(rewrite_manifests)
    set_freshness = method(set_freshness)
    set_table_option = method(set_table_option)
    skip_record = method(skip_record)
    take_kv_snapshot = method(take_kv_snapshot)
    tier_table = method(tier_table)
    validate_table = method(validate_table)
    wait_for_tiering = method(wait_for_tiering)


class AsyncProcedureMethods(AsyncPerformer):
    """A method per procedure. Cancelling a method ends the wait, not the work of the service."""

    acquire_kv_snapshot_lease = async_method(acquire_kv_snapshot_lease)
    cancel_tiering = async_method(cancel_tiering)
    drop_kv_snapshot_lease = async_method(drop_kv_snapshot_lease)
    expire_snapshots = async_method(expire_snapshots)
    explain_tiering = async_method(explain_tiering)
    explain_upkeep = async_method(explain_upkeep)
    fence_tierer = async_method(fence_tierer)
    pause_tiering = async_method(pause_tiering)
    pause_upkeep = async_method(pause_upkeep)
    reconcile_lake = async_method(reconcile_lake)
    release_kv_snapshot_lease = async_method(release_kv_snapshot_lease)
    remove_orphan_files = async_method(remove_orphan_files)
    renew_kv_snapshot_lease = async_method(renew_kv_snapshot_lease)
    reset_errors = async_method(reset_errors)
    resume_tiering = async_method(resume_tiering)
    resume_upkeep = async_method(resume_upkeep)
    retry_tiering = async_method(retry_tiering)
    rewrite_data_files = async_method(rewrite_data_files)
    rewrite_manifests = async_method(rewrite_manifests)
    set_freshness = async_method(set_freshness)
    set_table_option = async_method(set_table_option)
    skip_record = async_method(skip_record)
    take_kv_snapshot = async_method(take_kv_snapshot)
    tier_table = async_method(tier_table)
    validate_table = async_method(validate_table)
    wait_for_tiering = async_method(wait_for_tiering)
