"""The exit statuses of `lakeward`. docs/cli.md has a table with their meanings."""

from __future__ import annotations

from enum import IntEnum

from tiering.errors import BadRequest, LakewardError, ServiceUnreachable


class ExitStatus(IntEnum):
    """All exit statuses of commands. The last three are 128 + the signal, as in shells."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_YET = 4
    INTERRUPTED = 130
    READER_GONE = 141
    TERMINATED = 143


def exit_status(error: LakewardError) -> ExitStatus:
    """Returns the exit status of an error."""
    match error:
        case BadRequest():
            return ExitStatus.USAGE
        case ServiceUnreachable():
            return ExitStatus.UNREACHABLE
        case _:
            return ExitStatus.FAILED
