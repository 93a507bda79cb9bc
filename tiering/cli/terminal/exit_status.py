"""What the exit status of `lakeward` says. The table in docs/cli.md is `as_markdown()`; a test compares them."""

from __future__ import annotations

from enum import IntEnum

from tiering.errors import BadRequest, LakewardError, ServiceUnreachable


class ExitStatus(IntEnum):
    """Every status that a command ends with. The last three are 128 + the signal, as shells have it."""

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
    ExitStatus.FAILED: "it failed; of `doctor`: something that Lakeward needs is missing",
    ExitStatus.USAGE: "wrong usage or input: nothing was changed",
    ExitStatus.UNREACHABLE: "no service answers at the uri",
    ExitStatus.NOT_YET: "`tier` or `wait` stopped waiting before the lake had every row: standard error says why; a round goes on",
    ExitStatus.INTERRUPTED: "ended by Ctrl-C (`up`, `coordinator`, `tierer` and `status --watch` end with 0)",
    ExitStatus.READER_GONE: "whoever read the output went away, as `head -1` does",
    ExitStatus.TERMINATED: "ended by SIGTERM (`up`, `coordinator` and `tierer` end with 0)",
}


def exit_status(error: LakewardError) -> ExitStatus:
    """Which exit status an error has."""
    match error:
        case BadRequest():
            return ExitStatus.USAGE
        case ServiceUnreachable():
            return ExitStatus.UNREACHABLE
        case _:
            return ExitStatus.FAILED
