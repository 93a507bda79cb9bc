"""`CALL sys.take_kv_snapshot`: takes a KV snapshot now of each bucket that changed since its last one."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import LOOK_SECONDS, OPERATE_TABLE, Mutation, Pool


@dataclass(frozen=True)
class TakeKvSnapshotResult:
    """The numbers of buckets with a new snapshot and with any snapshot."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    taken: int = column("Number of changed buckets of which a snapshot was taken; for a dry run, would be taken.", arrow_type=INT)
    buckets: int = column("Number of buckets that have a snapshot afterwards.", arrow_type=INT)


@dataclass(frozen=True)
class TakeKvSnapshot(Mutation[TakeKvSnapshotResult]):
    """The primary-key table."""

    procedure = "take_kv_snapshot"
    comment = "Takes a KV snapshot of each bucket that changed since its last one."
    requirement = OPERATE_TABLE
    pool = Pool.REPAIR
    answer_seconds = LOOK_SECONDS
    path: TablePath = parameter("The primary-key table: db.t or cat.db.t.", name="table")
