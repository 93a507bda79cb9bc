"""The program `lakeward` before its commands are loaded."""

from __future__ import annotations

import subprocess
import sys

from tiering.cli.start import INTERRUPTED
from tiering.cli.terminal.exit_status import ExitStatus

INTERRUPTED_WHILE_LOADING = """
import sys
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "tiering.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from tiering.cli.start import main
main()
"""


def test_ctrl_c_in_the_first_second_ends_it_without_a_word() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED_WHILE_LOADING], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitStatus.INTERRUPTED, "", "")
    assert INTERRUPTED == ExitStatus.INTERRUPTED
