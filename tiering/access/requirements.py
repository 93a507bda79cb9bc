"""The privilege that each RPC, procedure and system table needs. A call without a line here is refused.

`docs/security-grants.md` is made from these tables. Tests compare them with the services, procedures and system tables that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tiering.access.privileges import Privilege


class On(StrEnum):
    """What a privilege is needed on."""

    NOTHING = "nothing: every identified caller may do it"
    SERVICE = "the service"
    TABLE = "the table"
    NEW_TABLE = "the table that is made"
    TABLE_OR_SERVICE = "the table; without one, the service"
    DATABASE = "the database"
    EVERY_TABLE = "each table of the answer"
    ROUND = "the round's table"
    PROCEDURE = "what the procedure's line says"
    SYSTEM_TABLE = "what the system table's line says"


@dataclass(frozen=True)
class Requirement:
    """One line. `privilege` None with `On.NOTHING` alone; a `tierer` does it with the role TIERER on the service, too."""

    privilege: Privilege | None
    on: On
    tierer: bool = False
    audited: bool = False
    """Whether calls that are allowed leave a row in sys.audit. Refused ones leave a row, up to a number a minute, and then are counted."""
    identified: bool = True
    """False: the call needs no identity."""

    def __str__(self) -> str:
        if not self.identified:
            return "no identity"
        if self.privilege is None:
            return str(self.on)
        return f"{self.privilege} on {self.on}" + ("; or TIERER on the service" if self.tierer else "")


_FREE = Requirement(None, On.NOTHING, identified=False)
_KNOWN = Requirement(None, On.NOTHING)
_LISTED = Requirement(Privilege.DESCRIBE, On.EVERY_TABLE)
_BY_PROCEDURE = Requirement(None, On.PROCEDURE, audited=True)
_BY_TABLE = Requirement(None, On.SYSTEM_TABLE)
_AS_TIERER = Requirement(Privilege.TIERER, On.SERVICE)
_WRITE_ROWS = Requirement(Privilege.WRITE, On.TABLE)
_CHANGE_TABLE = Requirement(Privilege.OPERATE, On.TABLE, audited=True)
_LOOK = Requirement(Privilege.DESCRIBE, On.TABLE, tierer=True)
_READ_ROWS = Requirement(Privilege.SELECT, On.TABLE, tierer=True)

_OF_SERVICES: Mapping[str, Mapping[str, Requirement]] = {
    "sys_tables.rpc.v1.SysCatalog": {
        "Describe": _LISTED,
        "ListTables": _LISTED,
        "DescribeTable": _LISTED,
        "ReadTable": _BY_TABLE,
        "ReadAllTables": _BY_TABLE,
        "CallProcedure": _BY_PROCEDURE,
    },
    "tiering.rpc.v1.TieringStatus": {"ListTieringStatuses": _LISTED, "ListKvSnapshotLeases": _LISTED},
    "tiering.rpc.v1.TieringControl": {
        "TierTable": _BY_PROCEDURE,
        "SweepLake": _BY_PROCEDURE,
        "CallProcedure": _BY_PROCEDURE,
    },
    "tiering.rpc.v1.TieringCoordinator": {
        "LakeTieringHeartbeat": _AS_TIERER,
        "RecordPlan": _AS_TIERER,
        "BeginLakeCommit": _AS_TIERER,
        "CommitLakeSnapshot": _AS_TIERER,
        "ReportProgress": _AS_TIERER,
        "AcquireKvSnapshotLease": _AS_TIERER,
        "ReleaseKvSnapshotLease": _AS_TIERER,
        "DropKvSnapshotLease": _AS_TIERER,
        "GetServiceConfig": _KNOWN,
    },
    "tiering.rpc.v1.EmbeddedCluster": {
        "DescribeCluster": _KNOWN,
        "CreateDatabase": Requirement(Privilege.WRITE, On.DATABASE, audited=True),
        "ListDatabases": Requirement(Privilege.DESCRIBE, On.EVERY_TABLE, tierer=True),
        "CreateTable": Requirement(Privilege.WRITE, On.NEW_TABLE, audited=True),
        "DropTable": _CHANGE_TABLE,
        "AlterTable": _CHANGE_TABLE,
        "SetTableOption": _CHANGE_TABLE,
        "ListTables": Requirement(Privilege.DESCRIBE, On.EVERY_TABLE, tierer=True),
        "GetTable": _LOOK,
        "ListPartitions": _LOOK,
        "DropPartition": _CHANGE_TABLE,
        "Append": _WRITE_ROWS,
        "Upsert": _WRITE_ROWS,
        "Delete": _WRITE_ROWS,
        "SnapshotKv": _CHANGE_TABLE,
        "ListKvSnapshots": _LOOK,
        "GetKvSnapshot": _READ_ROWS,
        "ListOffsets": _LOOK,
        "ListOldestTimestamps": _LOOK,
        "ListRecordTraces": _LOOK,
        "ListSegments": _READ_ROWS,
        "GetLakeSnapshot": _LOOK,
    },
    "grpc.health.v1.Health": {"Check": _FREE, "List": _FREE, "Watch": _FREE},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": _KNOWN},
    "grpc.reflection.v1.ServerReflection": {"ServerReflectionInfo": _KNOWN},
}

RPCS: Mapping[str, Requirement] = {
    f"/{service}/{method}": requirement for service, methods in _OF_SERVICES.items() for method, requirement in methods.items()
}
"""By `/package.Service/Method`."""

_DESCRIBES = Requirement(Privilege.DESCRIBE, On.TABLE)
_TIERS = Requirement(Privilege.TIER, On.TABLE, audited=True)
_OPERATES = Requirement(Privilege.OPERATE, On.TABLE, audited=True)
_OPERATES_SERVICE = Requirement(Privilege.OPERATE, On.SERVICE, audited=True)

PROCEDURES: Mapping[str, Requirement] = {
    "acquire_kv_snapshot_lease": _OPERATES,
    "cancel_tiering": Requirement(Privilege.OPERATE, On.ROUND, audited=True),
    "drop_kv_snapshot_lease": _OPERATES_SERVICE,
    "expire_snapshots": _OPERATES,
    "explain_tiering": _DESCRIBES,
    "explain_upkeep": _DESCRIBES,
    "fence_tierer": _OPERATES_SERVICE,
    "help": _KNOWN,
    "pause_tiering": _OPERATES,
    "pause_upkeep": _OPERATES,
    "reconcile_lake": _OPERATES,
    "release_kv_snapshot_lease": _OPERATES_SERVICE,
    "remove_orphan_files": _OPERATES,
    "renew_kv_snapshot_lease": _OPERATES_SERVICE,
    "reset_errors": _OPERATES,
    "resume_tiering": _OPERATES,
    "resume_upkeep": _OPERATES,
    "retry_tiering": _TIERS,
    "rewrite_data_files": _OPERATES,
    "rewrite_manifests": _OPERATES,
    "set_freshness": _OPERATES,
    "set_table_option": _OPERATES,
    "skip_record": _OPERATES,
    "sweep_lake": Requirement(Privilege.OPERATE, On.TABLE_OR_SERVICE, audited=True),
    "take_kv_snapshot": _OPERATES,
    "tier_database": Requirement(Privilege.TIER, On.EVERY_TABLE, audited=True),
    "tier_table": _TIERS,
    "validate_table": Requirement(Privilege.SELECT, On.TABLE, audited=True),
    "wait_for_tiering": _DESCRIBES,
}
"""By name, without `sys.`; `sweep_lake` is a call of TieringControl alone."""


@dataclass(frozen=True)
class RowsFor:
    """The privilege that shows the rows of a system table, and the columns of the table. A new column has to be added here, too."""

    requirement: Requirement
    columns: str
    note: str = ""
    """A sentence of docs/security-grants.md about the rows."""
    more: Mapping[Requirement, str] = field(default_factory=dict)
    """Columns and rows that a further privilege shows, as docs/security-grants.md names them."""


def _of_tables(columns: str, note: str = "", more: Mapping[Requirement, str] | None = None) -> RowsFor:
    return RowsFor(_LISTED, columns, note, more or {})


_SELECTS = Requirement(Privilege.SELECT, On.TABLE)
_NEXT_ACTION_NOTE = "`next_action` is a statement if the caller may run it, and otherwise names the privilege to ask for."

SYSTEM_TABLES: Mapping[str, RowsFor] = {
    "audit": RowsFor(
        Requirement(Privilege.ADMIN, On.SERVICE),
        """
        call_id occurred_at principal authentication on_behalf_of peer action object allowed outcome error_class message
        idempotency_key
        """,
    ),
    "freshness_misses": _of_tables("""
        database_name table_name round_id deadline reached_at missed_by_ms largest_part largest_part_ms explanation
        """),
    "grants": RowsFor(
        Requirement(Privilege.ADMIN, On.SERVICE),
        """
        policy_id effect principal privileges resource policy_text loaded_at
        """,
    ),
    "kv_snapshot_lease_buckets": _of_tables("""
        lease_id database_name table_name partition_name bucket_id snapshot_id log_offset available
        """),
    "kv_snapshot_leases": _of_tables(
        """
        lease_id owner acquired_at renewed_at expires_at ttl_ms remaining_ms tables buckets state
        """,
        "The numbers count only tables that the caller may describe.",
        {_OPERATES_SERVICE: "leases without a table that the caller may describe"},
    ),
    "lake_commits": _of_tables("""
        round_id database_name table_name table_id tiering_epoch base_round_id state prepared_at lake_snapshot_id
        lake_committed_at acked_at offsets files records reconciled_by
        """),
    "lake_table_health": _of_tables("""
        database_name table_name table_id lake_format score reason data_files small_files average_file_bytes target_file_bytes
        delete_files dead_row_share snapshots oldest_snapshot_time manifests metadata_files metadata_bytes rewrite_bytes
        last_upkeep_time last_upkeep_outcome next_upkeep_time upkeep_waits_for upkeep_paused_by next_action observed_time
        """),
    "lake_tiering_status": _of_tables(
        """
        database_name table_name status tiering_epoch last_tiered_time last_error last_error_time table_id table_type
        lake_format status_since status_reason status_source freshness_ms lag_ms freshness_deadline pending_records
        pending_bytes oldest_pending_time offsets_observed_time is_backlog round_id tierer_id round_started_time
        heartbeat_time fraction_completed last_checked_time last_round_duration_ms lake_snapshot_id lake_records
        lake_bytes lake_files error_class error_phase error_hint error_retryable error_count consecutive_failures
        next_retry_time paused paused_by paused_reason paused_until next_action observed_time
        """,
        _NEXT_ACTION_NOTE,
    ),
    "lake_upkeep": _of_tables("""
        round_id database_name table_name table_id trigger triggered_by actions reason outcome files_before files_after
        bytes_read bytes_written rows_dropped dropped_buckets bytes_left budget_bytes manifests_before manifests_after
        snapshots_expired pending_time started_time finished_time duration_ms lake_snapshot_id tierer_id ran_on error_class
        error_message
        """),
    "open_calls": RowsFor(
        _KNOWN,
        """
        call_id procedure_name caller idempotency_key started_time running_ms
        """,
        "The table shows the caller's own CALLs.",
        {_OPERATES_SERVICE: "CALLs of other callers"},
    ),
    "options": RowsFor(
        _KNOWN,
        """
        scope name value default source description
        """,
    ),
    "procedures": RowsFor(
        _KNOWN,
        """
        procedure_name parameters output privilege description
        """,
    ),
    "tables": _of_tables("""
        database_name table_name table_id table_type bucket_count bucket_keys primary_key partition_keys partitions
        lake_enabled lake_format lake_location freshness_ms schema created_at
        """),
    "tierers": RowsFor(
        Requirement(Privilege.OPERATE, On.SERVICE),
        """
        tierer_id host application_id version state started_at heartbeat_time slots tables_running rounds
        records_per_second
        """,
    ),
    "tiering_buckets": _of_tables(
        """
        database_name table_name partition_id partition_name bucket_id log_start_offset log_end_offset lake_offset
        staged_offset lag_records lag_ms oldest_pending_time backlog_offset is_backlog offsets_observed_time
        error_class error_message stopped_at_offset stopped_at_record log_only_records both_records lake_only_records
        """,
        more={_SELECTS: "`stopped_at_record`"},
    ),
    "tiering_errors": _of_tables(
        """
        database_name table_name phase error_class message hint next_action retryable count first_seen last_seen
        last_round_id resolved_at
        """,
        _NEXT_ACTION_NOTE,
    ),
    "tiering_events": _of_tables(
        """
        event_id occurred_at level event_type principal database_name table_name round_id message details
        """,
        more={_OPERATES_SERVICE: "`event_id`, and events about no table"},
    ),
    "tiering_rounds": _of_tables("""
        round_id database_name table_name table_id tiering_epoch coordinator_epoch trigger triggered_by tierer_id
        state pending_time started_time finished_time duration_ms completion_target splits_total splits_done
        records_read bytes_read records_written bytes_written files_written deletes_written lake_snapshot_id
        idempotency_key error_class error_message attempt deadline missed_by_ms mode queued_late_ms waited_for_slot_ms
        no_tierer_ms earlier_rounds_ms backoff_ms paused_ms plan_ms lease_ms read_ms write_ms commit_ms ack_ms
        ran_on spark_application_id spark_job_id
        """),
    "tiering_splits": _of_tables("""
        round_id split_id split_type database_name table_name partition_name bucket_id snapshot_id starting_offset
        stopping_offset current_offset backlog_offset fraction_completed executor attempt state
        """),
    "validation_results": _of_tables(
        """
        validated_at database_name table_name lake_snapshot_id level check scope expected actual ok details
        duration_ms engine
        """,
        more={_SELECTS: "`details`"},
    ),
}
"""By name; columns in their order."""
