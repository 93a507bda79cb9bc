"""Every fault of this folder in random order: `PYTHONPATH=.:tests python -m faults.processes --seeds 20 --faults 8`.

A seed is one deployment of real processes, on which faults follow each other, each beside new writes; after each everything must be in
the lake once, and `sys` must say so. Prints how often each fault happened, and the seeds that failed, whose folders are kept. A seed
chooses the same faults again; what the processes do meanwhile is theirs. It takes about a minute for three faults.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from faults.processes.stories import STORIES, Story

PREFIX = "lakeward-faults-"


def failure_of(seed: int, faults: int, counts: Counter[str]) -> str | None:
    """Runs a seed; the error that it ended with."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{seed}-"))
    story = Story(folder, seed)
    try:
        story.begin()
        for _ in range(faults):
            counts[story.next_fault()] += 1
    except Exception:  # any end but a good one is a defect
        return f"{traceback.format_exc()}after {story.happened}, in {folder}"
    finally:
        story.close()
    shutil.rmtree(folder)
    return None


def main() -> int:
    """Returns the exit status: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.processes")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--faults", type=int, default=8, help="A seed.")
    options = parser.parse_args()
    started, counts, failed = time.monotonic(), Counter[str](), 0
    for seed in range(options.first, options.first + options.seeds):
        failure = failure_of(seed, options.faults, counts)
        if failure is not None:
            failed += 1
            print(f"seed {seed}: {failure}", flush=True)
    for name in STORIES:
        print(f"{counts[name]:>6}  {name}")
    print(f"{options.seeds} seeds, {counts.total()} faults, {time.monotonic() - started:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
