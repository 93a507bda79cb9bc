"""One table of exit statuses: in the code, in the manual, and as commands end."""

from __future__ import annotations

import pytest

from support.repository import ROOT
from tiering.cli.terminal.exit_status import ExitStatus, exit_status
from tiering.errors import DataCorrupt, InvalidName, LakewardError, RoundFailed, ServiceUnreachable, SetupError

MANUAL = ROOT / "docs" / "cli.md"
MEANINGS = {
    ExitStatus.DONE: "done",
    ExitStatus.FAILED: "it failed; for `doctor`: something that Lakeward needs is missing",
    ExitStatus.USAGE: "wrong usage or input: nothing was changed",
    ExitStatus.UNREACHABLE: "no service answers at the uri",
    ExitStatus.NOT_YET: "`tier`, `wait` or another command stopped waiting too early: standard error says why; a round continues",
    ExitStatus.INTERRUPTED: "ended by Ctrl-C (`up`, `coordinator`, `tierer`, `console` and `status --watch` end with 0)",
    ExitStatus.READER_GONE: "the reader of the output closed it, as `head -1` does",
    ExitStatus.TERMINATED: "ended by SIGTERM (`up`, `coordinator` and `tierer` end with 0)",
}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidName("x"), ExitStatus.USAGE),
        (ServiceUnreachable("x"), ExitStatus.UNREACHABLE),
        (SetupError("x"), ExitStatus.FAILED),
        (RoundFailed("x"), ExitStatus.FAILED),
        (DataCorrupt("x"), ExitStatus.FAILED),
    ],
)
def test_the_kind_of_an_error_decides(error: LakewardError, status: ExitStatus) -> None:
    assert exit_status(error) is status


def test_every_status_has_a_meaning_and_the_manual_has_the_table() -> None:
    assert list(MEANINGS) == list(ExitStatus)
    lines = [f"| {int(status)} | {meaning} |" for status, meaning in MEANINGS.items()]
    table = "\n".join(["| exit status | meaning |", "|---|---|", *lines, ""])
    assert table in MANUAL.read_text(encoding="utf-8")
