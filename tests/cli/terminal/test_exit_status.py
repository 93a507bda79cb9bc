"""One table of exit statuses: in the code, in the manual, and as commands end."""

from __future__ import annotations

import pytest

from support.repository import ROOT
from tiering.cli.terminal.exit_status import MEANINGS, ExitStatus, exit_status
from tiering.errors import DataCorrupt, InvalidName, LakewardError, RoundFailed, ServiceUnreachable, SetupError

MANUAL = ROOT / "docs" / "cli.md"


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
