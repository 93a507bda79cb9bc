"""What Fluss's error codes mean here, with the server's own message. The numbers are those of Fluss 0.9."""

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
"""Any failure of a server that it has no code for."""
UNSUPPORTED_VERSION = 2
TABLE_NOT_EXIST = 7
NOT_LEADER_OR_FOLLOWER = 12
LOG_OFFSET_OUT_OF_RANGE = 19
UNKNOWN_TABLE_OR_BUCKET = 21
INVALID_COORDINATOR = 23
PARTITION_NOT_EXISTS = 36
KV_SNAPSHOT_NOT_EXIST = 41
LEADER_NOT_AVAILABLE = 44
AUTHENTICATION = 46
AUTHORIZATION = 48
FENCED_TIERING_EPOCH = 50
LAKE_SNAPSHOT_NOT_EXIST = 53
LAKE_TABLE_EXISTS = 54

MOVED = frozenset({NOT_LEADER_OR_FOLLOWER, UNKNOWN_TABLE_OR_BUCKET, 24, LEADER_NOT_AVAILABLE})
"""Codes of a server that does not lead the bucket (any more), of an older leader epoch, or while nobody leads it."""

_CODE_ID = "fluss_error"
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
    15: InvalidArgument,  # a table that cannot be
    16: InvalidArgument,  # a database that cannot be
    17: InvalidArgument,  # a replication factor
    20: InvalidArgument,  # a table without a primary key
    INVALID_COORDINATOR: Fenced,
    34: InvalidArgument,  # a projection
    35: InvalidArgument,  # a target column
    PARTITION_NOT_EXISTS: UnknownPartition,
    37: InvalidArgument,  # a table without partitions
    38: InvalidArgument,  # a timestamp
    39: InvalidArgument,  # an option
    40: InvalidArgument,  # the cluster has no lake
    KV_SNAPSHOT_NOT_EXIST: KvSnapshotGone,
    42: AlreadyExists,  # a partition
    43: InvalidArgument,  # a partition's values
    45: InvalidArgument,  # too many partitions
    AUTHENTICATION: ClusterAccessDenied,
    47: ClusterAccessDenied,  # a login, and the server knows none
    AUTHORIZATION: ClusterAccessDenied,
    49: InvalidArgument,  # too many buckets
    FENCED_TIERING_EPOCH: Fenced,
    LAKE_TABLE_EXISTS: AlreadyExists,
    56: InvalidArgument,  # a change of a table
}
"""The rest passes or is of a later version: ClusterUnavailable, so that it is tried again."""
_UNSUPPORTED = "java.lang.UnsupportedOperationException"
"""How the message of an UNKNOWN_SERVER_ERROR begins that a repeat would get again."""
OVERLOOKED = (
    "Do tablet servers run? At times Fluss 0.9.1 overlooks what is made just after something was dropped: then restart Fluss's coordinator,"
    " or drop what is still empty and make it again."
)
"""What helps a bucket that has no leader, or whose leader knows nothing of it, for longer than an election takes."""
_HINTS = {
    NOT_LEADER_OR_FOLLOWER: f"It passes when leaders move. If it stays: {OVERLOOKED[0].lower()}{OVERLOOKED[1:]}",
    LAKE_TABLE_EXISTS: "The lake still has a table of that name, of a former table: rename or drop it in the lake's catalog first.",
    AUTHENTICATION: "Check the user's name, FLUSS_PASSWORD in the environment, and whether this listener of the cluster asks for a login.",
    47: "Leave the user's name away: this listener of the Fluss cluster takes no login.",
    AUTHORIZATION: "Let the Fluss user do this (ACLs of the Fluss cluster).",
}


def error_of(code: int, message: str, **ids: object) -> LakewardError:
    """The error of a code, with the server's message; `error_code` reads the code again."""
    kind, hint = _CLASSES.get(code, ClusterUnavailable), _HINTS.get(code)
    if code == UNKNOWN_SERVER_ERROR and message.lstrip().startswith(_UNSUPPORTED):
        kind, hint = InvalidArgument, "The Fluss cluster, or the lake plugin of its coordinator, cannot do this in its version."
    return kind(f"{_without_stack(message) or 'the server gave no reason'} (Fluss error {code})", hint=hint, **ids, **{_CODE_ID: code})


def _without_stack(message: str) -> str:
    """What a server says, and what it says of the causes; an unexpected failure of a server comes as a whole Java stack trace."""
    lines = message.strip().splitlines()
    return " ".join(line.strip() for line in lines if not _STACK_LINE.match(line))


def error_code(error: LakewardError) -> int | None:
    """Fluss's code of an error that a server answered with; None for any other."""
    code = error.ids.get(_CODE_ID)
    return None if code is None else int(code)
