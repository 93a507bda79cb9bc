"""Runs the stages of `make test` or of `make test-all`, all of them also where one failed, and ends with one verdict.

`PYTHONPATH=.:tests python -m support.stages make-test`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from tempfile import TemporaryFile

from support.repository import ROOT
from support.stages.make_test import LEFT_TO_TEST_ALL, MARK, UNIT, journeys

PYTEST = (sys.executable, "-m", "pytest")
PLUGIN_TESTS = ("make", "--no-print-directory", "--old-file=test-setup", "plugin-test")
"""The set-up was done: `make test-all` did it."""


@dataclass(frozen=True)
class Stage:
    """A command whose exit status says whether its tests passed."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    """How a stage ended."""

    stage: Stage
    status: int
    seconds: float
    output: str = field(default="", repr=False)
    """Output of the stage, unless it was shown at once."""

    def __str__(self) -> str:
        return f"{self.stage.name:<12} {'passed' if self.status == 0 else f'FAILED (status {self.status})'} in {self.seconds:.0f} s"


def stages_of_make_test() -> list[Stage]:
    """Two stages that run at the same time. The journeys wait much of their time for processes, and end first."""
    ignored = [f"--ignore={file}" for file in LEFT_TO_TEST_ALL if "::" not in file]
    return [
        Stage("unit", (*PYTEST, "-n", "2", "-m", MARK, *ignored, *UNIT)),
        Stage("journeys", (*PYTEST, "-n", "2", "-m", MARK, *journeys())),
    ]


def stages_of_make_test_all(workers: int) -> list[Stage]:
    """One stage after the other: each uses all cores."""
    at_once = ("-n", str(workers))
    return [
        Stage("plugin", PLUGIN_TESTS),
        Stage("unit", (*PYTEST, *at_once, "-m", f"not integration and not {MARK}")),
        Stage("integration", (*PYTEST, *at_once, "-m", f"integration and not {MARK}")),
    ]


def run_stage(stage: Stage, is_shown: bool = True) -> Outcome:
    """Runs a stage. Its output is shown as it comes, or else kept in the outcome.

    Tests and the commands that they start get the PYTHONPATH of a user, which is none. Ours is relative: a command that is started
    elsewhere would import what lies there. Kept output goes through a file and not through a pipe: a process that a test leaves behind
    would keep the pipe open.
    """
    begun = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as kept:
        place = None if is_shown else kept
        ended = subprocess.run(stage.command, cwd=ROOT, env=environment, stdout=place, stderr=subprocess.STDOUT, check=False)
        kept.seek(0)
        return Outcome(stage, ended.returncode, time.monotonic() - begun, kept.read())


def run_at_once(stages: Sequence[Stage]) -> list[Outcome]:
    """Runs stages at the same time. The output of the first is shown as it comes, that of each other one when all ended."""
    with ThreadPoolExecutor(len(stages)) as pool:
        outcomes = list(pool.map(run_stage, stages, [stage is stages[0] for stage in stages]))
    for outcome in outcomes[1:]:
        print(f"--- {outcome.stage.name}", outcome.output, sep="\n", flush=True)
    return outcomes


def verdict(target: str, outcomes: Sequence[Outcome]) -> int:
    """Prints a line a stage, then one of all; the exit status."""
    for outcome in outcomes:
        print(f"{target}: {outcome}")
    failed = [outcome.stage.name for outcome in outcomes if outcome.status != 0]
    print(f"{target}: {'FAILED: ' + ', '.join(failed) if failed else 'all passed'}", flush=True)
    return 1 if failed else 0


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m support.stages")
    parser.add_argument("target", choices=("make-test", "make-test-all"))
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    if options.target == "make-test":
        outcomes = run_at_once(stages_of_make_test())
    else:
        outcomes = [run_stage(stage) for stage in stages_of_make_test_all(options.workers)]
    return verdict(options.target.replace("-", " ", 1), outcomes)


if __name__ == "__main__":
    sys.exit(main())
