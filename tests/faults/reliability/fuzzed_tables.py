"""Rounds of drawn schemas, rows and steps over real Iceberg tables: the tests of every day, with more examples than these have time for.

`PYTHONPATH=.:tests python -m faults.reliability.fuzzed_tables --examples 150`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from support.repository import ROOT

TESTS = (
    "tests/lake/iceberg/test_fuzzed_rounds.py",
    "tests/lake/iceberg/primary_key/test_stories.py",
    "tests/lake/iceberg/primary_key/test_shared_stories.py",
)
PROCESSES = 2


def main() -> int:
    """Returns the exit status: that of pytest."""
    parser = argparse.ArgumentParser(prog="python -m faults.reliability.fuzzed_tables")
    parser.add_argument("--examples", type=int, default=150)
    options = parser.parse_args()
    no_limits = ("-p", "no:timeout", "-p", "no:cacheprovider", "-W", "ignore")
    command = [sys.executable, "-m", "pytest", "-n", str(PROCESSES), "-v", *no_limits, *TESTS]
    environment = os.environ | {"LAKEWARD_FUZZ_EXAMPLES": str(options.examples)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
