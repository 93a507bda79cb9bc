"""What the public client asks and is answered, as messages and back. Pure."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from datetime import UTC

from tiering.model.call_results import SweepResult, TierTableResult
from tiering.model.names import parse_table_path
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.control_pb2 import PbSweepResult, PbTierTableResult, SweepLakeRequest, TierTableRequest
from tiering.rpc.v1.status_pb2 import ListTieringStatusesRequest, ListTieringStatusesResponse
from tiering.wire.statuses import status_from_pb

TableName = TablePath | str
"""A path, or `database.table` as SQL has it."""


def path_pb(path: TableName) -> common_pb2.PbTablePath:
    """Raises InvalidName."""
    parsed = parse_table_path(path) if isinstance(path, str) else path
    return common_pb2.PbTablePath(database_name=parsed.database_name, table_name=parsed.table_name)


def list_request(path: TableName | None, database: str | None, statuses: Iterable[str], page_size: int) -> ListTieringStatusesRequest:
    """Of the first page."""
    return ListTieringStatusesRequest(
        table_path=None if path is None else path_pb(path), database_name=database, statuses=list(statuses), page_size=page_size
    )


def tier_request(
    path: TableName, wait: bool, timeout_ms: int, dry_run: bool, idempotency_key: str | None, caller: str | None
) -> TierTableRequest:
    """The caller is the user of this process unless given."""
    return TierTableRequest(
        table_path=path_pb(path),
        wait=wait,
        timeout_ms=timeout_ms,
        dry_run=dry_run,
        idempotency_key=idempotency_key,
        caller=caller or getpass.getuser(),
    )


def sweep_request(path: TableName | None, older_than_ms: int, dry_run: bool, caller: str | None) -> SweepLakeRequest:
    """The caller is the user of this process unless given."""
    return SweepLakeRequest(
        table_path=None if path is None else path_pb(path),
        older_than_ms=older_than_ms,
        dry_run=dry_run,
        caller=caller or getpass.getuser(),
    )


def statuses(page: ListTieringStatusesResponse) -> list[TableStatus]:
    """Of one page."""
    observed = page.observed_time.ToDatetime(tzinfo=UTC)
    return [status_from_pb(message, observed) for message in page.tiering_statuses]


def result(pb: PbTierTableResult) -> TierTableResult:
    """Absent = None."""
    return TierTableResult(
        path=TablePath(pb.table_path.database_name, pb.table_path.table_name),
        round_id=pb.round_id if pb.HasField("round_id") else None,
        state=pb.state,
        tiering_epoch=pb.tiering_epoch,
        lake_snapshot_id=pb.lake_snapshot_id if pb.HasField("lake_snapshot_id") else None,
        splits=pb.splits if pb.HasField("splits") else None,
        records=pb.records if pb.HasField("records") else None,
        files=pb.files if pb.HasField("files") else None,
        bytes=pb.bytes if pb.HasField("bytes") else None,
        lag_ms_before=pb.lag_ms_before if pb.HasField("lag_ms_before") else None,
        lag_ms_after=pb.lag_ms_after if pb.HasField("lag_ms_after") else None,
        duration_ms=pb.duration_ms,
    )


def swept(pb: PbSweepResult) -> SweepResult:
    """Absent = None."""
    path = TablePath(pb.table_path.database_name, pb.table_path.table_name)
    return SweepResult(path, pb.files, pb.removed, pb.removed_bytes, dict(pb.kept), pb.error if pb.HasField("error") else None)
