"""All errors that Lakeward raises, as one tree of classes.

    LakewardError
    ├── BadRequest                      the caller can correct it: a wrong name, argument or option
    │   ├── InvalidName
    │   ├── InvalidArgument
    │   ├── UnknownDatabase
    │   ├── UnknownTable
    │   ├── UnknownPartition
    │   ├── UnknownProcedure
    │   ├── UnknownLease
    │   ├── StatementOutdated           a column that the plan of a SQL statement uses has changed
    │   ├── ReadExpired                 the time of a read is over, or the read was closed
    │   ├── AlreadyExists
    │   ├── UnsupportedType
    │   ├── InvalidData                 a file or batch that does not fit its table; no row of it was written
    │   ├── CannotReconcile             reconcile_lake or adopt_table would lose or double a row
    │   ├── LakeDisabled
    │   └── TablePaused
    ├── PermanentTieringError           tiering of the table stops until a user repairs the cause or the cause ends
    │   ├── ClusterMismatch             the lake table was tiered from another cluster
    │   ├── TableMismatch               the lake table was tiered from another table of that name (dropped and recreated)
    │   ├── LakeTableReplaced           the lake table is not the one that was tiered to before
    │   ├── UntrackedLakeTable          the lake table has snapshots and no marker
    │   ├── MarkerLost                  offsets are recorded, but the lake table has no marker
    │   ├── RecordAheadOfLake           the recorded offsets are beyond those of the lake table
    │   ├── LakeRolledBack
    │   ├── ForeignTiering              another tiering service committed to the lake table
    │   ├── ForeignTieringOverlap       ... and wrote rows that it contains already
    │   ├── ForeignTieringGap           ... and wrote rows, while earlier rows are missing
    │   ├── ForeignTieringUnproved      ... and wrote rows without offsets; no comparison can show that they are those of the log
    │   ├── HistoryExpired              snapshots expired that would show whether the lake table was rolled back
    │   ├── LogTruncated                the log no longer holds the next row to tier
    │   ├── LogBehindLake               the lake table has rows that the log does not have yet
    │   ├── LogRewritten                the log has other records at offsets that were tiered
    │   ├── SchemaDrift
    │   ├── ForbiddenLocation           the lake table names a file outside the allowed locations of its lake
    │   └── MarkerCorrupt
    ├── TransientTieringError           the next attempt may succeed
    │   ├── RoundFailed
    │   ├── RoundStalled                the splits made no progress for too long: another tierer gets the table
    │   ├── CommitOutcomeUnknown
    │   ├── LakeUnavailable
    │   ├── ClusterUnavailable
    │   │   └── ClusterAccessDenied     the source cluster refuses the user, the password or an operation
    │   ├── LakeRecordUnreadable        the cluster cannot return the lake snapshot that it recorded
    │   ├── SourceChanged               the source changed during the round: the next round makes a new plan
    │   ├── KvSnapshotGone              a KV snapshot was deleted before the round had read all of it
    │   ├── BaseMoved                   a foreign commit moved rows that a round's position deletes name
    │   ├── TableBusy                   another acknowledgement, reconciliation or round uses the table
    │   ├── BucketStopped               the next record of a bucket cannot be read or written; other buckets are tiered
    │   ├── TiererStopped
    │   └── TiererLost                  the tierer sent no heartbeat for the service timeout
    ├── Cancelled                       a user or a stopping tierer ended the round before its fence
    ├── Fenced                          an older epoch: another round has the table now
    ├── UnsupportedLogVersion           record batches in a version of Fluss's format that this release cannot read
    ├── DataCorrupt                     a segment or snapshot does not match its checksum
    ├── Unauthenticated                 the call has no valid token
    ├── AccessDenied                    the caller lacks a privilege, which the message names
    ├── ServiceUnreachable
    │   └── InsecureConnection          only one side uses TLS, or a certificate is not valid
    ├── ServiceBusy                     the service accepts no more work now, and did nothing of the call
    ├── InvalidAnswer                   the service's answer cannot be read, does not end or is larger than a client accepts
    ├── PeerTooOld                      the other side does not have this call
    ├── StatementFailed                 a SQL engine refused a statement, or the statement failed
    ├── StoreError
    └── SetupError                      this machine lacks something: Java, a free port, a writable folder

`error_class` is the name that SQL shows: the class name, or the name of a wrapped outside error. `retryable` tells whether the same attempt
may succeed later. `hint` tells what to do. `ids` has the ids. Each class declares in which phases of a round it may happen, the statement
that helps or why there is none, and what to look at or run next. docs/errors.md is generated from these declarations.
"""

from __future__ import annotations

from typing import ClassVar

from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.redaction.redact import cut_message as cut_message  # code that stores or shows an error imports it from here

_ID_LIMIT = 1_000
"""The most characters of an id, which is enough for two names or a path."""

_SOURCE_MUST_CHANGE = (
    "A lake table cannot contain what the message names. Change the source table, or recreate it without that. Tiering then continues."
)
_UPGRADE_NEEDED = "No statement enables this release to read the log. Upgrade Lakeward, then retry the table."
_CALLER_CORRECTS = "The caller corrects what the message names and repeats the statement or call. No table waits for it."
_SERVICE_ERROR = "The error is about a service or a machine, not about a table. The message names what to check."


def _of_table(columns: str, table: str = "lake_tiering_status") -> str:
    return f"SELECT {columns} FROM fluss.sys.{table} WHERE table_name = 't'"


_STATUS, _WAITING = _of_table("last_error, error_hint, next_action"), _of_table("last_error, error_hint, next_retry_time")
_COLUMNS, _ROUNDS = _of_table("schema, primary_key", "tables"), _of_table("round_id, state, error_message", "tiering_rounds")
_TIERERS = "SELECT tierer_id, host, state, heartbeat_time FROM fluss.sys.tierers"
_CALLS = "SELECT procedure_name, caller, running_ms FROM fluss.sys.open_calls"
_DOCTOR, _DOCTOR_HERE = "lakeward doctor --uri host:7707", "lakeward doctor --data ./lakeward-data"
_OFFSETS = _of_table("bucket_id, log_start_offset, log_end_offset, lake_offset", "tiering_buckets")
_SPLITS = _of_table("split_id, executor, state, fraction_completed", "tiering_splits")
_COMMITS, _PAUSE = _of_table("round_id, state, lake_snapshot_id", "lake_commits"), _of_table("paused_by, paused_reason, paused_until")
_POLICIES = "SELECT policy_id, effect, principal, privileges, resource FROM fluss.sys.grants"
_VALIDATE = "CALL fluss.sys.validate_table('db.t', 'rows')"
_RETIER = "CALL fluss.sys.reconcile_lake('db.t', 'retier')"
_RETRY, _HELP = "CALL fluss.sys.retry_tiering('db.t')", "CALL fluss.sys.help()"


class LakewardError(Exception):
    """The root of the tree. An error has a message for the user, a hint, and the ids of the things it is about.

    Parts of every error's text come from outside. So the constructor redacts and shortens the text and removes control characters, before
    the error is stored, logged, sent or shown.
    """

    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = ""
    phases: ClassVar[tuple[str, ...]] = ()
    """The phases of a round (`Phase`) in which it may happen; empty = it is not an error of a round."""
    next_action: ClassVar[str] = ""
    """The statement that helps, as the documentation shows it; empty = no statement can help. `coordinator.decisions.next_action` decides
    for a table which statement it is, and whether the statement leaves no row out."""
    no_statement: ClassVar[str] = "Each class below it has its own next action."
    """The reason why no statement can help, as a sentence; empty if a statement can."""
    check: ClassVar[str] = _STATUS
    """The statement or command that a person on call uses next. It shows more, or does what the message asks for."""

    def __init_subclass__(
        cls, phases: tuple[str, ...] | None = None, next_action: str = "", no_statement: str = "", check: str | None = None
    ) -> None:
        """Inherits from the base class what a class does not declare. A class has either a statement or the sentence of `no_statement`."""
        super().__init_subclass__()
        if phases is not None:
            cls.phases = phases
        if check is not None:
            cls.check = check
        if next_action or no_statement:
            cls.next_action, cls.no_statement = next_action, no_statement

    def __init__(self, message: str, *, hint: str | None = None, **ids: object) -> None:
        self.message = outside_text(message)
        super().__init__(self.message)
        self.hint = self.default_hint if hint is None else outside_text(hint)
        self.ids = {name: outside_text(str(value), _ID_LIMIT) for name, value in ids.items() if value is not None}

    @property
    def error_class(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        return self.message


class BadRequest(LakewardError, no_statement=_CALLER_CORRECTS, check=_HELP):
    """A request that the caller can correct."""


class InvalidName(BadRequest, phases=("PLAN",), no_statement=_SOURCE_MUST_CHANGE, check=_COLUMNS):
    """A database, table or column name that does not follow the name rule."""

    default_hint = "Use ASCII letters, digits, '_' and '-', at most 200 characters, not starting with '__'."


class InvalidArgument(BadRequest, phases=("PLAN",), no_statement=_SOURCE_MUST_CHANGE, check=_HELP):
    """An argument or option with a value that is not allowed. The message names it."""


class UnknownDatabase(BadRequest, check="SELECT DISTINCT database_name FROM fluss.sys.tables"):
    """The named database does not exist."""


class UnknownTable(BadRequest, check="SELECT database_name, table_name FROM fluss.sys.tables"):
    """The named table does not exist."""


class UnknownPartition(BadRequest, check=_of_table("DISTINCT partition_name", "tiering_buckets")):
    """The named partition does not exist."""


class UnknownProcedure(BadRequest, check="SELECT procedure_name, description FROM fluss.sys.procedures"):
    """The named procedure does not exist."""


class UnknownLease(BadRequest, check="SELECT lease_id, owner, state, expires_at FROM fluss.sys.kv_snapshot_leases"):
    """No lease has that id, or the lease does not contain the named bucket."""


class StatementOutdated(BadRequest, check=_COLUMNS):
    """A column that the plan of a SQL statement uses was removed or has another type."""

    default_hint = "Run the statement again."


class ReadExpired(BadRequest, check="SELECT read_id, table_name, state, expires_at FROM fluss.sys.open_reads"):
    """The time of a read of a data table is over, or the read was closed. Rows that it needs may be deleted."""


class AlreadyExists(BadRequest, check="SELECT database_name, table_name, created_at FROM fluss.sys.tables"):
    """A database or table of that name exists already."""


class UnsupportedType(BadRequest, phases=("PLAN",), no_statement=_SOURCE_MUST_CHANGE, check=_COLUMNS):
    """A column type that a lake table cannot have."""


class InvalidData(BadRequest, check=_COLUMNS):
    """Input that cannot be read or does not fit its table. None of it was written."""


class CannotReconcile(BadRequest, check=_STATUS):
    """The requested action cannot reconcile the lake table."""


class LakeDisabled(BadRequest, check="CALL fluss.sys.set_table_option('db.t', 'table.datalake.enabled', 'true')"):
    """Tiering, or rows that only the lake copy has, were requested for a table whose lake is disabled."""

    default_hint = "Enable the lake with the table option table.datalake.enabled=true."


class TablePaused(BadRequest, next_action="CALL fluss.sys.resume_tiering('db.t')", check=_PAUSE):
    """Tiering was requested for a paused table."""


class PermanentTieringError(LakewardError, phases=("PLAN", "LAKE_COMMIT")):
    """Tiering of the table stops until a user repairs the cause, or the cause ends."""


class ClusterMismatch(
    PermanentTieringError,
    no_statement="Only a person can decide to which of the two clusters the lake table belongs. "
    "Configure another lake for the other cluster. Tiering then continues.",
):
    """The lake table's marker names another cluster."""


class TableMismatch(PermanentTieringError, next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7"):
    """The lake table's marker names another source table id."""


class LakeTableReplaced(PermanentTieringError, phases=("PLAN", "WRITE", "LAKE_COMMIT"), next_action=_RETIER):
    """The lake table is not the one that was tiered to before: its uuid changed."""


class UntrackedLakeTable(PermanentTieringError, next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7"):
    """The lake table has snapshots but no marker of Lakeward."""


class MarkerLost(PermanentTieringError, next_action=_RETIER):
    """Offsets are recorded for the table, but the lake has no marker."""


class RecordAheadOfLake(PermanentTieringError, next_action=_RETIER):
    """The coordinator or the cluster recorded offsets beyond those of the lake table's marker."""


class LakeRolledBack(PermanentTieringError, next_action=_RETIER):
    """The lake table was rolled back to a snapshot before its newest marker."""


class ForeignTiering(PermanentTieringError, next_action="CALL fluss.sys.reconcile_lake('db.t', 'adopt')"):
    """Another tiering service committed to the lake table."""


class ForeignTieringOverlap(PermanentTieringError, next_action="CALL fluss.sys.reconcile_lake('db.t', 'deduplicate')"):
    """Another tiering service committed rows that the lake table had already. The message names bucket and offsets."""


class ForeignTieringGap(PermanentTieringError, next_action=_RETIER):
    """Another tiering service committed rows while the lake table lacks earlier ones. The message names bucket and offsets."""


class ForeignTieringUnproved(PermanentTieringError, next_action="CALL lake.system.set_current_snapshot('db.t', 4217)"):
    """Another tiering service changed a clean lake table, and not as the log says, or the log no longer has the records to compare."""


class HistoryExpired(PermanentTieringError, next_action=_RETIER):
    """Snapshots that would show whether the lake table was rolled back expired, and the metadata files that named them were deleted."""


class LogTruncated(PermanentTieringError, phases=("PLAN",), next_action=_RETIER, check=_OFFSETS):
    """The log starts after the next row to tier."""


class LogBehindLake(
    PermanentTieringError,
    phases=("PLAN",),
    no_statement="Only the lake has the rows that the cluster lost, so tiering without them would leave them out. "
    "Restore the cluster's newest state. Tiering then continues.",
    check=_OFFSETS,
):
    """The lake table has records beyond the end of the log."""


class LogRewritten(PermanentTieringError, phases=("PLAN",), next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7", check=_VALIDATE):
    """The cluster lost records that were tiered, and other records now have their offsets."""


class SchemaDrift(PermanentTieringError, phases=("PLAN", "WRITE", "LAKE_COMMIT"), next_action="ALTER TABLE lake.db.t RENAME COLUMN b TO a"):
    """The lake table's columns do not fit those of the source table. The message names the column."""


class MarkerCorrupt(PermanentTieringError, next_action=_RETIER):
    """A marker in the lake table that cannot be read."""


class ForbiddenLocation(
    PermanentTieringError,
    phases=("PLAN", "WRITE", "LAKE_COMMIT"),
    no_statement="Start the coordinator with an option that allows the location. Tiering then continues.",
    check="CALL fluss.sys.tier_table('db.t')",
):
    """Metadata of a lake table names a file outside the locations that are allowed for files of its lake. It was not opened."""

    default_hint = (
        "If that location belongs to the lake, start the coordinator with --lake-property lakeward.allowed-locations=LOCATION. Then CALL "
        "sys.tier_table. If it does not, another program wrote that metadata."
    )


class TransientTieringError(
    LakewardError,
    phases=("PLAN", "LEASE", "READ", "WRITE", "LAKE_COMMIT", "ACK"),
    no_statement="Lakeward retries automatically: waiting is right.",
    check=_WAITING,
):
    """The next attempt may succeed."""

    retryable = True


class RoundFailed(TransientTieringError, check=_of_table("phase, message, hint, count, last_seen", "tiering_errors")):
    """A round ended without a commit for a reason outside this tree. The message has the cause. SQL mostly shows the cause's name in place
    of this one: a library's class, `DataFilesMissing` (files were deleted before the commit), `InconsistentRound` (results do not match),
    `RoundLost` (its thread ended), `RoundRepeated` (the lake table has it already)."""

    def __init__(self, message: str, *, cause_class: str = "RoundFailed", hint: str | None = None, **ids: object) -> None:
        super().__init__(message, hint=hint, **ids)
        self.cause_class = outside_text(cause_class, NAME_TEXT_LIMIT)

    @property
    def error_class(self) -> str:
        return self.cause_class


class RoundStalled(TransientTieringError, phases=("READ", "WRITE"), check=_SPLITS):
    """The splits made no progress for `--stalled-after`. The tierer gave up the round. Files that it still writes are never committed."""

    default_hint = (
        "Check the storage that the tierer and its executors read and write: a network file system may hang. Any tierer retries the table. "
        "Restart a tierer with hung rounds. Its option --stalled-after sets how long a round may make no progress."
    )


class CommitOutcomeUnknown(TransientTieringError, phases=("LAKE_COMMIT", "ACK"), check=_COMMITS):
    """A commit was sent, but its outcome is unknown. The base check of the next round will find it."""


class LakeUnavailable(TransientTieringError, check=_DOCTOR):
    """The lake's catalog or storage does not answer."""


class ClusterUnavailable(TransientTieringError, check=_DOCTOR):
    """The source cluster does not answer."""


class ClusterAccessDenied(
    ClusterUnavailable,
    no_statement="Ask the cluster's administrator for the privilege, or give the coordinator another user. Lakeward retries automatically.",
    check=_RETRY,
):
    """The source cluster refuses the login or an operation. An administrator may correct that without a restart of the coordinator."""


class LakeRecordUnreadable(TransientTieringError, phases=("PLAN",)):
    """The cluster recorded a lake snapshot, but the file with its offsets was deleted (docs/fluss-facts.md H1) or is damaged."""

    default_hint = "Another tiering service deleted the file or registered a wrong one. The next round commits and registers a new one."


class SourceChanged(TransientTieringError, phases=("PLAN", "READ", "WRITE")):
    """A table, a partition or columns of the source differ from those in the plan of the round."""

    default_hint = "Nothing needs to be done: the next round plans with the new state of the source."


class KvSnapshotGone(TransientTieringError, phases=("LEASE", "READ")):
    """A KV snapshot does not exist (any more): a newer one replaced it and no valid lease kept it."""

    default_hint = "Nothing needs to be done: the next round plans with the newest KV snapshot."


class BaseMoved(TransientTieringError, phases=("LAKE_COMMIT",)):
    """The lake table no longer has files that a round's position deletes name, because a foreign commit rewrote them."""

    default_hint = "Nothing needs to be done: the next attempt finds the rows again."


class TableBusy(TransientTieringError, phases=("FENCE", "ACK"), check=_CALLS):
    """Another acknowledgement or reconciliation of the table does not end, or a commit may write the record that a CALL wants to skip."""

    default_hint = "Try again. If the error stays, the lake's catalog or storage does not respond: check it."


class BucketStopped(
    TransientTieringError,
    phases=("READ", "WRITE"),
    no_statement="The statement that helps, sys.skip_record, leaves an acknowledged record out of the lake. "
    "The hint has the statement; a person decides.",
    check=_of_table("bucket_id, error_message, stopped_at_offset, stopped_at_record", "tiering_buckets"),
):
    """A record that was acknowledged cannot be decoded or written, or a bucket's KV state cannot take it. Names bucket and offset.

    Later rounds tier the other buckets, so the error is retryable. The stopped bucket waits for `sys.skip_record`.
    """


class TiererStopped(TransientTieringError, phases=(), check=_TIERERS):
    """The tierer got a request to stop. The next tierer that asks gets the table, without back-off."""


class Cancelled(LakewardError, no_statement="The table has not failed. Its next round follows automatically.", check=_ROUNDS):
    """A request ended the round before its commit was granted."""


class TiererLost(TransientTieringError, phases=(), check=_TIERERS):
    """The tierer sent no heartbeat for the service timeout. Another tierer gets the table."""

    default_hint = "Check whether the tierer still runs and reaches the coordinator, and read its log."


class Fenced(LakewardError, phases=("PLAN", "FENCE", "LAKE_COMMIT"), no_statement="The next round follows automatically.", check=_ROUNDS):
    """Another round, process or service took the table before the commit. One fence is normal. More in a row count as failures."""

    retryable = True


class UnsupportedLogVersion(LakewardError, phases=("PLAN", "READ"), no_statement=_UPGRADE_NEEDED, check=_RETRY):
    """The log has record batches in a version of Fluss's format that this release cannot read. No data is damaged."""

    default_hint = "A newer Fluss writes such batches. Upgrade Lakeward, then CALL sys.retry_tiering."


class DataCorrupt(LakewardError, phases=("READ", "WRITE"), next_action=_RETRY, check=_VALIDATE):
    """Stored data does not match its checksum. The message names file, bucket and offset range."""


class Unauthenticated(LakewardError, no_statement=_SERVICE_ERROR, check="lakeward token list --data ./lakeward-data"):
    """The call has no valid token: it is missing, unknown, revoked or expired. The service did nothing of the call."""

    default_hint = "Set LAKEWARD_TOKEN_FILE, or the catalog option token-file of Spark, to the path of a token."


class AccessDenied(LakewardError, no_statement=_SERVICE_ERROR, check=_POLICIES):
    """The policies of the service do not allow the call. Message and hint name the privilege and the statement that grants it."""

    default_hint = "Ask the person who maintains the service's policy file."


class ServiceUnreachable(LakewardError, no_statement=_SERVICE_ERROR, check=_DOCTOR):
    """No Lakeward service responds at the address."""

    retryable = True


class InsecureConnection(ServiceUnreachable, check="lakeward doctor --uri host:7707 --tls-ca ca.pem"):
    """The connection would not be secure: only one side uses TLS, or the certificate has expired, has another host or no known issuer."""

    default_hint = "Compare the service's --server-cert with --tls-ca, --tls-cert and --tls-key of the client."


class ServiceBusy(LakewardError, no_statement=_SERVICE_ERROR, check=_CALLS):
    """The service has as much work as it accepts at once. It did nothing of the call."""

    retryable = True
    default_hint = "Try again in a moment, with fewer calls at once."


class InvalidAnswer(LakewardError, no_statement=_SERVICE_ERROR, check=_DOCTOR):
    """A service's answer cannot be read, does not end, or is larger than a client accepts."""

    default_hint = "Check that the uri is the address of a Lakeward service, and which version the service has."


class PeerTooOld(LakewardError, no_statement=_SERVICE_ERROR, check=_DOCTOR):
    """The service has an older version, which does not have this call."""


class StatementFailed(LakewardError, no_statement=_SERVICE_ERROR, check="lakeward sql --data ./lakeward-data 'SHOW TABLES IN fluss.sys'"):
    """A SQL engine refused a statement, or the statement failed. The message is the engine's."""


class StoreError(LakewardError, no_statement=_SERVICE_ERROR, check=_DOCTOR_HERE):
    """The state store refused or lost a write."""

    retryable = True


class SetupError(LakewardError, no_statement=_SERVICE_ERROR, check=_DOCTOR_HERE):
    """This machine lacks something: Java, a free port, a writable folder."""
