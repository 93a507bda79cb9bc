"""Every program in bench/ runs at a tiny size (`--smoke`), and its last line is one JSON object without nonsense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.bench.modules import figures
from support.repository import ROOT
from tiering.child_process import SAFE_PATH

BENCH = ROOT / "bench"
STARTED_BY = {"scripted_service.py": "load.py", "poisoned_tierer.py": "blast_radius.py"}
"""Processes that a bench starts: no benches by themselves."""
SECONDS = 540


def programs() -> dict[str, str]:
    """The text of each file that can be run, by its path below bench/."""
    texts = {file.relative_to(BENCH).as_posix(): file.read_text() for file in sorted(BENCH.rglob("*.py"))}
    return {name: text for name, text in texts.items() if 'if __name__ == "__main__":' in text}


BENCHES = [name for name in programs() if name not in STARTED_BY]


def run(name: str, folder: Path) -> dict[str, Any]:
    """The figures of a tiny run. It is started as its own head says: one in a folder below bench/ finds the others by PYTHONPATH."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    environment.pop("PYTHONPATH", None)
    environment.pop(SAFE_PATH, None)  # a Spark session of another test sets it for all that this process starts
    if "/" in name:
        environment["PYTHONPATH"] = "bench"
    command = [sys.executable, f"bench/{name}", "--smoke"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 0, f"{ended.stdout[-2_000:]}\n{ended.stderr[-4_000:]}"
    last: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return last


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_runs_at_a_tiny_size_and_prints_no_nonsense(name: str, tmp_path: Path) -> None:
    result = run(name, tmp_path)

    assert result["bench"] == Path(name).stem
    assert list(figures.problems(result)) == []


def test_each_program_says_how_it_is_started_and_is_a_bench_or_started_by_one() -> None:
    texts = programs()
    assert STARTED_BY.keys() <= texts.keys()
    for name, bench in STARTED_BY.items():
        assert Path(name).stem in texts[bench]
    for name in BENCHES:
        prefix = "PYTHONPATH=bench " if "/" in name else ""
        assert f"\n    {prefix}.venv/bin/python bench/{name}" in texts[name], name
        assert "finish(" in texts[name], name
