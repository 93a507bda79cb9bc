"""Drawn options of tables and drawn changes of metadata: no import, no file elsewhere, no error but Lakeward's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.depth import examples
from support.repository import ROOT

EXAMPLES = examples(60)
"""Number of examples of each kind; some thousand take minutes."""


def test_whatever_is_drawn_nothing_of_it_is_run_or_opened(tmp_path: Path) -> None:
    root = ROOT
    command = [sys.executable, "-m", "support.lakes.lake_fuzz", str(tmp_path / "home"), str(EXAMPLES)]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    outcome = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout[-2_000:] + outcome.stderr[-6_000:]
    assert f"{2 * EXAMPLES} examples" in outcome.stdout
