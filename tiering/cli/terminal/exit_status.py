"""The exit statuses of `lakeward`. The table in docs/cli.md is `as_markdown()`; a test compares them."""

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


MEANINGS = {
    ExitStatus.DONE: "done",
    ExitStatus.FAILED: "it failed; for `doctor`: something that Lakeward needs is missing",
    ExitStatus.USAGE: "wrong usage or input: nothing was changed",
    ExitStatus.UNREACHABLE: "no service answers at the uri",
    ExitStatus.NOT_YET: "`tier`, `wait` or another command stopped waiting too early: standard error says why; a round continues",
    ExitStatus.INTERRUPTED: "ended by Ctrl-C (`up`, `coordinator`, `tierer` and `status --watch` end with 0)",
    ExitStatus.READER_GONE: "the reader of the output closed it, as `head -1` does",
    ExitStatus.TERMINATED: "ended by SIGTERM (`up`, `coordinator` and `tierer` end with 0)",
}


def exit_status(error: LakewardError) -> ExitStatus:
    """Returns the exit status of an error."""
    match error:
        case BadRequest():
            return ExitStatus.USAGE
        case ServiceUnreachable():
            return ExitStatus.UNREACHABLE
        case _:
            return ExitStatus.FAILED
