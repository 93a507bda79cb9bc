"""Converts Fluss's error codes to Lakeward's errors, with the server's own message. The numbers are those of Fluss 0.9 and 1.0."""

from __future__ import annotations

import re

from tiering.errors import (
    AlreadyExists,
    ClusterAccessDenied,
    ClusterUnavailable,
    DataCorrupt,
    Fenced,
    InvalidArgument,
    KvSnapshotGone,
    LakewardError,
    PeerTooOld,
    SourceChanged,
    UnknownDatabase,
    UnknownPartition,
    UnknownTable,
)

UNKNOWN_SERVER_ERROR = -1
"""Any failure of a server for which it has no code."""
UNSUPPORTED_VERSION = 2
TABLE_NOT_EXIST = 7
NOT_LEADER_OR_FOLLOWER = 12
LOG_OFFSET_OUT_OF_RANGE = 19
UNKNOWN_TABLE_OR_BUCKET = 21
INVALID_COORDINATOR = 23
PARTITION_NOT_EXISTS = 36
KV_SNAPSHOT_NOT_EXIST = 41
AUTHENTICATION = 46
AUTHORIZATION = 48
FENCED_TIERING_EPOCH = 50
LAKE_SNAPSHOT_NOT_EXIST = 53
LAKE_TABLE_EXISTS = 54

_CODE_ID = "fluss_error"
_REFUSAL = re.compile(
    r"Principal FlussPrincipal\{name='(?P<name>[^']*)', type='(?P<kind>\w*)'\} have no authorization to operate (?P<operation>\w+) "
    r"on resource Resource\{type=(?P<resource_kind>\w+), name='(?P<resource>[^']*)'\}"
)
"""The text with which Fluss's own authorizer refuses an operation (AbstractAuthorizer of 1.0)."""
_STACK_LINE = re.compile(r"\s+(at [\w.$/<>]+\(|\.\.\. \d+ more)")
_CLASSES: dict[int, type[LakewardError]] = {
    UNSUPPORTED_VERSION: PeerTooOld,
    3: DataCorrupt,  # of a message
    4: UnknownDatabase,
    6: AlreadyExists,  # a database
    TABLE_NOT_EXIST: UnknownTable,
    8: AlreadyExists,  # a table
    9: SourceChanged,  # no such schema
    13: InvalidArgument,  # a record that is too large
    14: DataCorrupt,  # of a record
    15: InvalidArgument,  # an invalid table
    16: InvalidArgument,  # an invalid database
    17: InvalidArgument,  # an invalid replication factor
    20: InvalidArgument,  # a table without a primary key
    INVALID_COORDINATOR: Fenced,
    34: InvalidArgument,  # an invalid projection
    35: InvalidArgument,  # an invalid target column
    PARTITION_NOT_EXISTS: UnknownPartition,
    37: InvalidArgument,  # a table without partitions
    38: InvalidArgument,  # an invalid timestamp
    39: InvalidArgument,  # an invalid option
    40: InvalidArgument,  # the cluster has no lake
    KV_SNAPSHOT_NOT_EXIST: KvSnapshotGone,
    42: AlreadyExists,  # a partition
    43: InvalidArgument,  # invalid values of a partition
    45: InvalidArgument,  # too many partitions
    AUTHENTICATION: ClusterAccessDenied,
    47: ClusterAccessDenied,  # a login, but the server has no authentication
    AUTHORIZATION: ClusterAccessDenied,
    49: InvalidArgument,  # too many buckets
    FENCED_TIERING_EPOCH: Fenced,
    LAKE_TABLE_EXISTS: AlreadyExists,
    56: InvalidArgument,  # an invalid change of a table
}
"""Any other code is temporary or of a later version: it becomes ClusterUnavailable, so that the call is retried."""
_UNSUPPORTED = "java.lang.UnsupportedOperationException"
"""Beginning of the message of an UNKNOWN_SERVER_ERROR that a repeat would get again."""
OVERLOOKED = (
    "Check that the tablet servers run. Sometimes Fluss 0.9.1 overlooks what is created just after a drop: then restart Fluss's "
    "coordinator, or drop what is still empty and create it again."
)
"""Hint for a bucket that has no leader, or an unaware leader, for longer than an election takes."""
_HINTS = {
    NOT_LEADER_OR_FOLLOWER: f"The error is temporary while leaders move. If it persists: {OVERLOOKED[0].lower()}{OVERLOOKED[1:]}",
    LAKE_TABLE_EXISTS: "The lake still has a table with that name, from a former table: rename or drop it in the lake's catalog first.",
    AUTHENTICATION: "Check the user's name, FLUSS_PASSWORD in the environment, and whether this listener of the cluster requires a login.",
    47: "Leave out the user's name: this listener of the Fluss cluster accepts no login.",
    AUTHORIZATION: "Grant the Fluss user this privilege (ACLs of the Fluss cluster). Lakeward changes nothing in the table until then.",
}


def error_of(code: int, message: str, **ids: object) -> LakewardError:
    """Returns the error of a code, with the server's message; `error_code` returns the code of such an error."""
    kind, hint = _CLASSES.get(code, ClusterUnavailable), _HINTS.get(code)
    if code == AUTHORIZATION:
        message, hint = _missing_privilege(message) or (message, hint)
    if code == UNKNOWN_SERVER_ERROR and message.lstrip().startswith(_UNSUPPORTED):
        kind, hint = InvalidArgument, "The Fluss cluster, or the lake plugin of its coordinator, cannot do this in its version."
    return kind(f"{_without_stack(message) or 'the server gave no reason'} (Fluss error {code})", hint=hint, **ids, **{_CODE_ID: code})


def _missing_privilege(message: str) -> tuple[str, str] | None:
    """Returns message and hint for a refusal by Fluss's authorizer, with the statement that grants the privilege; None for a refusal with
    another text, such as that of an authorizer from a plugin.
    """
    refusal = _REFUSAL.search(message)
    if refusal is None:
        return None
    name, kind, operation, resource_kind, resource = refusal.groups()
    granted = "cluster" if resource_kind == "CLUSTER" else f"cluster.{resource}"
    text = f"the Fluss user {name!r} lacks the privilege {operation} on the {resource_kind.lower()} {resource!r}"
    hint = (
        f"Grant it in Fluss: CALL sys.add_acl(resource => '{granted}', permission => 'ALLOW', principal => '{kind}:{name}', "
        f"operation => '{operation}') in Flink SQL, in Fluss's catalog. Lakeward changes nothing in the table until then."
    )
    return text, hint


def _without_stack(message: str) -> str:
    """Returns a server's message and its causes without stack trace lines: an unexpected failure of a server comes with a Java stack
    trace.
    """
    lines = message.strip().splitlines()
    return " ".join(line.strip() for line in lines if not _STACK_LINE.match(line))


def error_code(error: LakewardError) -> int | None:
    """Returns Fluss's code of an error from a server's answer; None for any other error."""
    code = error.ids.get(_CODE_ID)
    return None if code is None else int(code)
