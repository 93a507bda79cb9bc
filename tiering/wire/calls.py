"""Converts requests and answers of TieringControl to messages and back."""

from __future__ import annotations

import getpass

from tiering.model.names import parse_table_path
from tiering.model.rounds import RoundProgress
from tiering.model.tables import TablePath
from tiering.procedures.base import Progress
from tiering.procedures.sweep_lake import SweepResult
from tiering.procedures.tier_table import TierTableResult
from tiering.rpc.v1.common_pb2 import PbTablePath
from tiering.rpc.v1.control_pb2 import (
    PbCallOptions,
    PbRoundProgress,
    PbSweepResult,
    PbTierTableResult,
    SweepLakeRequest,
    TierTableRequest,
    TierTableResponse,
)
from tiering.wire.codec import Codec
from tiering.wire.model_codecs import PATH

TableName = TablePath | str
"""A path, or the text `database.table` as in SQL."""

_ROUND_PROGRESS = Codec(RoundProgress, PbRoundProgress)


def path_of(table: TableName) -> TablePath:
    """Returns the path of a table that a caller names. Raises InvalidName."""
    return parse_table_path(table) if isinstance(table, str) else table


def table_name_to_pb(table: TableName) -> PbTablePath:
    """Returns the path of a table that a caller names. Raises InvalidName."""
    return PATH.to_pb(path_of(table))


def tier_table_request(
    table: TableName,
    wait: bool,
    timeout_ms: int,
    dry_run: bool,
    idempotency_key: str | None,
    caller: str | None,
    wait_for_tierer: bool = False,
) -> TierTableRequest:
    """Returns the request to tier a table. Without a caller it is the user of this process. Raises InvalidName."""
    return TierTableRequest(
        table_path=table_name_to_pb(table),
        wait=wait,
        timeout_ms=timeout_ms,
        dry_run=dry_run,
        idempotency_key=idempotency_key,
        caller=caller or getpass.getuser(),
        wait_for_tierer=wait_for_tierer,
    )


def tier_table_step_to_pb(step: Progress | TierTableResult) -> TierTableResponse:
    """Returns progress or the result as a message of the stream."""
    if isinstance(step, Progress):
        round_progress = None if step.round is None else _ROUND_PROGRESS.to_pb(step.round)
        return TierTableResponse(progress=step.message, round_progress=round_progress)
    return TierTableResponse(result=tier_table_result_to_pb(step))


def progress_from_pb(message: TierTableResponse) -> Progress:
    """Returns the progress of a step that is not the result."""
    return Progress(message.progress, _ROUND_PROGRESS.from_pb(message.round_progress) if message.HasField("round_progress") else None)


def tier_table_result_to_pb(result: TierTableResult) -> PbTierTableResult:
    """Returns the result as a message. Fields that are None are absent."""
    return PbTierTableResult(
        table_path=PATH.to_pb(result.path),
        round_id=result.round_id,
        state=result.state,
        tiering_epoch=result.tiering_epoch,
        lake_snapshot_id=result.lake_snapshot_id,
        splits=result.splits,
        records=result.records,
        files=result.files,
        bytes=result.bytes,
        lag_ms_before=result.lag_ms_before,
        lag_ms_after=result.lag_ms_after,
        duration_ms=result.duration_ms,
    )


def tier_table_result_from_pb(message: PbTierTableResult) -> TierTableResult:
    """Returns the result of a message. Absent fields are None."""
    return TierTableResult(
        path=PATH.from_pb(message.table_path),
        round_id=message.round_id if message.HasField("round_id") else None,
        state=message.state,
        tiering_epoch=message.tiering_epoch,
        lake_snapshot_id=message.lake_snapshot_id if message.HasField("lake_snapshot_id") else None,
        splits=message.splits if message.HasField("splits") else None,
        records=message.records if message.HasField("records") else None,
        files=message.files if message.HasField("files") else None,
        bytes=message.bytes if message.HasField("bytes") else None,
        lag_ms_before=message.lag_ms_before if message.HasField("lag_ms_before") else None,
        lag_ms_after=message.lag_ms_after if message.HasField("lag_ms_after") else None,
        duration_ms=message.duration_ms,
    )


def sweep_lake_request(table: TableName | None, older_than_ms: int, dry_run: bool, caller: str | None) -> SweepLakeRequest:
    """Returns the request to sweep one lake table, or all of them. Without a caller it is the user of this process. Raises InvalidName."""
    return SweepLakeRequest(
        table_path=None if table is None else table_name_to_pb(table),
        older_than_ms=older_than_ms,
        dry_run=dry_run,
        caller=caller or getpass.getuser(),
    )


def sweep_result_to_pb(result: SweepResult) -> PbSweepResult:
    """Returns the result of a sweep of one table as a message."""
    return PbSweepResult(
        table_path=PATH.to_pb(result.path),
        files=result.files,
        removed=result.removed,
        removed_bytes=result.removed_bytes,
        kept=dict(result.kept),
        error=result.error,
    )


def sweep_result_from_pb(message: PbSweepResult) -> SweepResult:
    """Returns the result of a sweep in a message. An absent error is None."""
    return SweepResult(
        path=PATH.from_pb(message.table_path),
        files=message.files,
        removed=message.removed,
        removed_bytes=message.removed_bytes,
        kept=dict(message.kept),
        error=message.error if message.HasField("error") else None,
    )


def call_options(dry_run: bool, idempotency_key: str | None, caller: str | None) -> PbCallOptions:
    """Returns the options of a call that changes something. Without a caller it is the user of this process."""
    return PbCallOptions(dry_run=dry_run, idempotency_key=idempotency_key, caller=caller or getpass.getuser())
