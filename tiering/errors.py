"""The one tree of errors that Lakeward raises.

    LakewardError
    ├── BadRequest                      the caller can mend it: a wrong name, argument or option
    │   ├── InvalidName
    │   ├── InvalidArgument
    │   ├── UnknownDatabase
    │   ├── UnknownTable
    │   ├── UnknownPartition
    │   ├── UnknownProcedure
    │   ├── UnknownLease
    │   ├── StatementOutdated           what a SQL statement was planned with has changed
    │   ├── AlreadyExists
    │   ├── UnsupportedType
    │   ├── InvalidData                 a file or batch that does not fit; nothing of it was taken
    │   ├── CannotReconcile             reconcile_lake would lose or double a row
    │   ├── LakeDisabled
    │   └── TablePaused
    ├── PermanentTieringError           tiering of this table stops until a person or a change mends it
    │   ├── ClusterMismatch             the lake table was tiered from another cluster
    │   ├── TableMismatch               ... from another table of that name (dropped and made anew)
    │   ├── LakeTableReplaced           another lake table stands where ours was
    │   ├── UntrackedLakeTable          rows, but no marker
    │   ├── MarkerLost                  offsets are recorded, the lake has no marker
    │   ├── RecordAheadOfLake           offsets are recorded that the lake does not have
    │   ├── LakeRolledBack
    │   ├── ForeignTiering              another tiering service committed to the lake table
    │   ├── ForeignTieringOverlap       ... rows that are in it already
    │   ├── ForeignTieringGap           ... rows behind others that are missing
    │   ├── ForeignTieringUnproved      ... rows without offsets that are not, or cannot be shown to be, those of the log
    │   ├── HistoryExpired              expired lake history: cannot tell whether it was rolled back
    │   ├── LogTruncated                the log no longer holds the next row to tier
    │   ├── LogBehindLake               the lake holds rows that the log does not have yet
    │   ├── LogRewritten                the log holds other records at offsets that were tiered
    │   ├── SchemaDrift
    │   ├── ForbiddenLocation           the lake table names a file outside of where its lake's files may lie
    │   └── MarkerCorrupt
    ├── TransientTieringError           the next attempt may go through
    │   ├── RoundFailed
    │   ├── RoundStalled                its splits made no progress for too long: somebody else takes the table
    │   ├── CommitOutcomeUnknown
    │   ├── LakeUnavailable
    │   ├── ClusterUnavailable
    │   │   └── ClusterAccessDenied     the source cluster refuses the user, the password or what the user wants to do
    │   ├── LakeRecordUnreadable        the cluster cannot tell any more which lake snapshot it recorded
    │   ├── SourceChanged               the source changed under the round: the next one plans afresh
    │   ├── KvSnapshotGone              a KV snapshot was deleted before it was read to its end
    │   ├── BaseMoved                   a foreign commit moved rows that a round's deletes name
    │   ├── TableBusy                   another acknowledgement, a reconciliation or a round of the table is at work
    │   ├── BucketStopped               the next record of a bucket cannot be read or written; the other buckets go on
    │   ├── TiererStopped
    │   └── TiererLost                  nothing was heard of the tierer for the service timeout
    ├── Cancelled                       a person or a stopping tierer ended the round before its fence
    ├── Fenced                          an older epoch: another round owns the table now
    ├── UnsupportedLogVersion           record batches of Fluss in a version that this release does not read
    ├── DataCorrupt                     a segment or snapshot does not match its checksum
    ├── Unauthenticated                 the service does not know who calls: no token, or one that does not hold
    ├── AccessDenied                    the caller is known, and lacks a privilege: the message names it
    ├── ServiceUnreachable
    │   └── InsecureConnection          TLS on one side alone, or a certificate that does not hold
    ├── ServiceBusy                     the service takes no more for now: nothing of the call was done
    ├── InvalidAnswer                   the service's answer cannot be read, never ends or is larger than a client takes
    ├── PeerTooOld                      the other side does not offer this call
    ├── StatementFailed                 a SQL engine refused a statement, or failed while it ran
    ├── StoreError
    └── SetupError                      this machine lacks something: Java, a free port, a writable folder

`error_class` is what SQL shows (the class name, unless an outside error was wrapped), `retryable` whether
the same attempt may go through later, `hint` what to do. Ids travel in `ids`. Each class declares in which phases of a round it may
happen, which statement helps, or why none can, and what to look at or run next; docs/errors.md is made of that.
"""

from __future__ import annotations

from typing import ClassVar

from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.redaction.redact import cut_message as cut_message  # whoever stores or shows an error knows it from here

_ID_LIMIT = 1_000
"""Characters of an id: of two names, or of a path."""

_OF_THE_SOURCE = "No lake table can have what the source table has: change it, or recreate it without that. That resumes its tiering."
_NOT_READ = "No statement makes this release read the log. After an upgrade, retry the table."
_OF_A_CALL = "It answers a statement or a call, whose caller mends what the message names; no table waits for it."
_OF_A_SERVICE = "It tells of a service or a machine, not of a table: the message names what to look at."


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
    """The root. Carries a message for the user, a hint, and the ids it is about.

    Whatever an error says came, in part, from outside: it is redacted, cut and free of control characters from here on, wherever it
    is stored, logged, sent or shown.
    """

    retryable: ClassVar[bool] = False
    default_hint: ClassVar[str] = ""
    phases: ClassVar[tuple[str, ...]] = ()
    """Where in a round it may happen (`Phase`); empty = it is no error of a round."""
    next_action: ClassVar[str] = ""
    """The statement that helps, as the documentation shows it; which one it is for a table, and whether it leaves no row out, says
    `coordinator.decisions.next_action`. Empty = no statement can help."""
    no_statement: ClassVar[str] = "It stands for the classes below it."
    """Why no statement can help, as a sentence; empty if one can."""
    look: ClassVar[str] = _STATUS
    """The statement or command with which somebody on call goes on: it shows more, or does what the message asks for."""

    def __init_subclass__(
        cls, phases: tuple[str, ...] | None = None, next_action: str = "", no_statement: str = "", look: str | None = None
    ) -> None:
        """What a class does not declare is as its base has it; a class has either a statement or the sentence."""
        super().__init_subclass__()
        if phases is not None:
            cls.phases = phases
        if look is not None:
            cls.look = look
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


class BadRequest(LakewardError, no_statement=_OF_A_CALL, look=_HELP):
    """The caller can mend it."""


class InvalidName(BadRequest, phases=("PLAN",), no_statement=_OF_THE_SOURCE, look=_COLUMNS):
    """A database, table or column name outside the name rule."""

    default_hint = "Use ASCII letters, digits, '_' and '-', at most 200 characters, not starting with '__'."


class InvalidArgument(BadRequest, phases=("PLAN",), no_statement=_OF_THE_SOURCE, look=_HELP):
    """An argument or option with a value it cannot have; the message names it."""


class UnknownDatabase(BadRequest, look="SELECT DISTINCT database_name FROM fluss.sys.tables"):
    """No such database."""


class UnknownTable(BadRequest, look="SELECT database_name, table_name FROM fluss.sys.tables"):
    """No such table."""


class UnknownPartition(BadRequest, look=_of_table("DISTINCT partition_name", "tiering_buckets")):
    """No such partition."""


class UnknownProcedure(BadRequest, look="SELECT procedure_name, description FROM fluss.sys.procedures"):
    """No such procedure."""


class UnknownLease(BadRequest, look="SELECT lease_id, owner, state, expires_at FROM fluss.sys.kv_snapshot_leases"):
    """No lease of that id, or it does not hold what was named."""


class StatementOutdated(BadRequest, look=_COLUMNS):
    """A column that a SQL statement was planned with is gone or has another type."""

    default_hint = "Run the statement again."


class AlreadyExists(BadRequest, look="SELECT database_name, table_name, created_at FROM fluss.sys.tables"):
    """A database or table of that name is already there."""


class UnsupportedType(BadRequest, phases=("PLAN",), no_statement=_OF_THE_SOURCE, look=_COLUMNS):
    """A column type that the lake cannot hold."""


class InvalidData(BadRequest, look=_COLUMNS):
    """Input that cannot be read or does not fit its table. Nothing of it was taken."""


class CannotReconcile(BadRequest, look=_STATUS):
    """The lake table cannot be reconciled in the way that was asked for."""


class LakeDisabled(BadRequest, look="CALL fluss.sys.set_table_option('db.t', 'table.datalake.enabled', 'true')"):
    """Tiering was asked for a table that has its lake disabled."""

    default_hint = "Enable it with the table option table.datalake.enabled=true."


class TablePaused(BadRequest, next_action="CALL fluss.sys.resume_tiering('db.t')", look=_PAUSE):
    """Tiering was asked for a table that is paused."""


class PermanentTieringError(LakewardError, phases=("PLAN", "LAKE_COMMIT"), no_statement="It stands for the classes below it."):
    """Tiering of this table stops until somebody mends the cause."""


class ClusterMismatch(
    PermanentTieringError,
    no_statement="Nobody but a person knows which of two clusters the lake table belongs to: "
    "give the other one a lake of its own. That resumes it.",
):
    """The lake table's marker names another cluster."""


class TableMismatch(PermanentTieringError, next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7"):
    """The lake table's marker names another source table id."""


class LakeTableReplaced(PermanentTieringError, phases=("PLAN", "WRITE", "LAKE_COMMIT"), next_action=_RETIER):
    """The lake table is not the one tiered to before: its uuid changed."""


class UntrackedLakeTable(PermanentTieringError, next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7"):
    """The lake table holds snapshots but no marker of ours."""


class MarkerLost(PermanentTieringError, next_action=_RETIER):
    """Offsets are recorded for the table, but the lake has no marker."""


class RecordAheadOfLake(PermanentTieringError, next_action=_RETIER):
    """The coordinator or the cluster records offsets beyond the lake's marker."""


class LakeRolledBack(PermanentTieringError, next_action=_RETIER):
    """The lake table was rolled back behind its marker."""


class ForeignTiering(PermanentTieringError, next_action="CALL fluss.sys.reconcile_lake('db.t', 'adopt')"):
    """Another tiering service committed to the lake table."""


class ForeignTieringOverlap(PermanentTieringError, next_action="CALL fluss.sys.reconcile_lake('db.t', 'deduplicate')"):
    """Another tiering service committed rows that the lake table holds already; names bucket and offsets."""


class ForeignTieringGap(PermanentTieringError, next_action=_RETIER):
    """Another tiering service committed rows behind others that the lake table lacks; names bucket and offsets."""


class ForeignTieringUnproved(PermanentTieringError, next_action="CALL lake.system.set_current_snapshot('db.t', 4217)"):
    """Another tiering service changed a clean lake table, and not as the log says, or the log between is not kept any more."""


class HistoryExpired(PermanentTieringError, next_action=_RETIER):
    """Snapshots that would tell whether the table was rolled back expired, and the metadata files that named them are gone."""


class LogTruncated(PermanentTieringError, phases=("PLAN",), next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7", look=_OFFSETS):
    """The log starts after the next row to tier."""


class LogBehindLake(
    PermanentTieringError,
    phases=("PLAN",),
    no_statement="The lake alone holds rows that the cluster lost, so whatever goes on without them leaves them out. "
    "Bring the cluster's newest state back: that resumes it.",
    look=_OFFSETS,
):
    """The lake holds records beyond the end of the log."""


class LogRewritten(
    PermanentTieringError,
    phases=("PLAN",),
    next_action="ALTER TABLE lake.db.t RENAME TO t_former_3_7",
    look=_VALIDATE,
):
    """The cluster lost records that were tiered, and wrote others at their offsets."""


class SchemaDrift(PermanentTieringError, phases=("PLAN", "WRITE", "LAKE_COMMIT"), next_action="ALTER TABLE lake.db.t RENAME COLUMN b TO a"):
    """The lake table's columns do not fit the source table's; the message names the column."""


class MarkerCorrupt(PermanentTieringError, next_action=_RETIER):
    """A marker that cannot be read."""


class ForbiddenLocation(
    PermanentTieringError,
    phases=("PLAN", "WRITE", "LAKE_COMMIT"),
    no_statement="Only who starts the coordinator says where files may lie: with that option it goes on.",
    look="CALL fluss.sys.tier_table('db.t')",
):
    """Metadata of a lake table names a file outside of the places where files of its lake may lie. It was not opened."""

    default_hint = (
        "If that place belongs to the lake, name it with --lake-property lakeward.allowed-locations=LOCATION where the coordinator is "
        "started, then CALL sys.tier_table. If not, somebody else wrote that metadata."
    )


class TransientTieringError(
    LakewardError,
    phases=("PLAN", "LEASE", "READ", "WRITE", "LAKE_COMMIT", "ACK"),
    no_statement="Tiering tries again by itself: waiting is right.",
    look=_WAITING,
):
    """The next attempt may go through."""

    retryable = True


class RoundFailed(TransientTieringError, look=_of_table("phase, message, hint, count, last_seen", "tiering_errors")):
    """A round ended without a commit for a reason outside this tree; the cause is in the message, and mostly stands in the place of this
    name: a library's own, `DataFilesMissing` (files went before they were committed), `InconsistentRound` (results do not fit each
    other), `RoundLost` (its thread ended), `RoundRepeated` (it is in the lake already)."""

    def __init__(self, message: str, *, cause_class: str = "RoundFailed", hint: str | None = None, **ids: object) -> None:
        super().__init__(message, hint=hint, **ids)
        self.cause_class = outside_text(cause_class, NAME_TEXT_LIMIT)

    @property
    def error_class(self) -> str:
        return self.cause_class


class RoundStalled(TransientTieringError, phases=("READ", "WRITE"), look=_SPLITS):
    """The splits of a round made no progress for `--stalled-after`: its tierer gave it up, and what it still writes is never committed."""

    default_hint = (
        "Look at the storage that the tierer and its executors read and write: a network file system may hang. The table is tried again, "
        "by any tierer; one with hung rounds is best started again. --stalled-after of lakeward tierer says how long a round may rest."
    )


class CommitOutcomeUnknown(TransientTieringError, phases=("LAKE_COMMIT", "ACK"), look=_COMMITS):
    """A commit was sent and its outcome could not be learned; the next round's base check will tell."""


class LakeUnavailable(TransientTieringError, look=_DOCTOR):
    """The lake's catalog or storage does not answer."""


class ClusterUnavailable(TransientTieringError, look=_DOCTOR):
    """The source cluster does not answer."""


class ClusterAccessDenied(
    ClusterUnavailable,
    no_statement="The cluster's administrator grants what it refuses, or the coordinator gets another user. Tiering tries again by itself.",
    look=_RETRY,
):
    """The source cluster refuses a login, or what the user wants to do; that may be mended without a restart here."""


class LakeRecordUnreadable(TransientTieringError, phases=("PLAN",)):
    """The cluster recorded a lake snapshot, but the file with its offsets is gone (docs/fluss-facts.md H1), or broken."""

    default_hint = "Another tiering service deleted the file, or registered a wrong one. The next round commits and registers a new one."


class SourceChanged(TransientTieringError, phases=("PLAN", "READ", "WRITE")):
    """A table, a partition or the columns of the source are not what the round was planned with."""

    default_hint = "Nothing needs to be done: the next round plans with what the source is now."


class KvSnapshotGone(TransientTieringError, phases=("LEASE", "READ")):
    """A KV snapshot is not there (any more): superseded, and not leased, or its lease had expired."""

    default_hint = "Nothing needs to be done: the next round plans with the newest KV snapshot."


class BaseMoved(TransientTieringError, phases=("LAKE_COMMIT",)):
    """Files that a round's position deletes name are not in the lake table any more: a foreign commit rewrote them."""

    default_hint = "Nothing needs to be done: the rows are looked up again."


class TableBusy(TransientTieringError, phases=("FENCE", "ACK"), look=_CALLS):
    """Another acknowledgement or reconciliation of the same table does not end; or a commit may bring the record that a CALL would skip."""

    default_hint = "Try again. If it stays like that, the lake's catalog or storage does not answer: check that it does."


class BucketStopped(
    TransientTieringError,
    phases=("READ", "WRITE"),
    no_statement="The statement that helps, sys.skip_record, leaves an acknowledged record out of the lake: "
    "the hint names it, a person decides.",
    look=_of_table("bucket_id, error_message, stopped_at_offset, stopped_at_record", "tiering_buckets"),
):
    """A record that was acknowledged cannot be decoded or written, or the KV state of a bucket cannot take it; names bucket and offset.

    The rounds that follow tier what comes to the other buckets, so they are tried again; this one waits for `sys.skip_record`.
    """


class TiererStopped(TransientTieringError, phases=(), look=_TIERERS):
    """The tierer was told to stop; the table goes to the next one without back-off."""


class Cancelled(LakewardError, no_statement="The table has not failed: its next round follows by itself.", look=_ROUNDS):
    """The round was ended on request before its commit was granted."""


class TiererLost(TransientTieringError, phases=(), look=_TIERERS):
    """Nothing was heard of the tierer for the service timeout; the table goes to the next one."""

    default_hint = "Look at the tierer's log, and whether it still runs and reaches the coordinator."


class Fenced(LakewardError, phases=("PLAN", "FENCE", "LAKE_COMMIT"), no_statement="The next round follows by itself.", look=_ROUNDS):
    """Another round, process or service took the table before the commit. One fence is normal; more in a row count as failures."""

    retryable = True


class UnsupportedLogVersion(LakewardError, phases=("PLAN", "READ"), no_statement=_NOT_READ, look=_RETRY):
    """The log has record batches in a version of Fluss's format that this release does not read. Nothing is damaged."""

    default_hint = "Fluss 1.0 writes them where 'table.statistics.columns' is set. Upgrade Lakeward, then CALL sys.retry_tiering."


class DataCorrupt(LakewardError, phases=("READ", "WRITE"), next_action=_RETRY, look=_VALIDATE):
    """Stored data does not match its checksum; names file, bucket and offset range."""


class Unauthenticated(LakewardError, no_statement=_OF_A_SERVICE, look="lakeward token list --data ./lakeward-data"):
    """The call proves no identity: its token is missing, unknown, revoked or expired. Nothing of the call was done."""

    default_hint = "Put the path of a token into LAKEWARD_TOKEN_FILE, or into the catalog option token-file of Spark."


class AccessDenied(LakewardError, no_statement=_OF_A_SERVICE, look=_POLICIES):
    """The policies of the service do not let the caller do this; message and hint name the privilege, and the statement that grants it."""

    default_hint = "Ask who keeps the service's policy file."


class ServiceUnreachable(LakewardError, no_statement=_OF_A_SERVICE, look=_DOCTOR):
    """No Lakeward service answers at the uri."""

    retryable = True


class InsecureConnection(ServiceUnreachable, look="lakeward doctor --uri host:7707 --tls-ca ca.pem"):
    """No connection that is safe: TLS on one side alone, a certificate that has expired, names another host or comes from nobody known."""

    default_hint = "Compare the service's --server-cert with --tls-ca, --tls-cert and --tls-key of the client."


class ServiceBusy(LakewardError, no_statement=_OF_A_SERVICE, look=_CALLS):
    """The service works on as much as it takes at once. Nothing of the call was done."""

    retryable = True
    default_hint = "Try again in a moment, with fewer calls at once."


class InvalidAnswer(LakewardError, no_statement=_OF_A_SERVICE, look=_DOCTOR):
    """A service's answer that cannot be read, never ends, or is larger than a client takes."""

    default_hint = "Check that the uri is that of a Lakeward service, and which version it has."


class PeerTooOld(LakewardError, no_statement=_OF_A_SERVICE, look=_DOCTOR):
    """The service is of an older version and does not offer this call."""


class StatementFailed(LakewardError, no_statement=_OF_A_SERVICE, look="lakeward sql --data ./lakeward-data 'SHOW TABLES IN fluss.sys'"):
    """A SQL engine refused a statement, or failed while it ran; the message is the engine's."""


class StoreError(LakewardError, no_statement=_OF_A_SERVICE, look=_DOCTOR_HERE):
    """The state store refused or lost a write."""

    retryable = True


class SetupError(LakewardError, no_statement=_OF_A_SERVICE, look=_DOCTOR_HERE):
    """This machine lacks something: Java, a free port, a writable folder."""
