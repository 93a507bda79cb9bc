"""Tells stories for so many minutes: `PYTHONPATH=.:tests python -m faults.random_users --minutes 10 --seed 1`.

Each seed is a story of its own, on a deployment of its own. Prints each with how it ended; one that failed with all that was done.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

from faults.random_users.machine import run_story

STEPS = 40


def main() -> int:
    """Returns the exit status: 1 if a story failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.random_users")
    parser.add_argument("--minutes", type=float, default=0.0, help="Stories begin within so many; 0: one story.")
    parser.add_argument("--seed", type=int, default=1, help="Of the first story; the next ones count on.")
    parser.add_argument("--steps", type=int, default=STEPS, help="Of each story.")
    parser.add_argument("--keep", type=Path, help="Where the folders of stories that failed stay.")
    parser.add_argument("--tell", action="store_true", help="Print also what was done in stories that ended well.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begun, number, failed = time.monotonic(), options.seed, 0
    while number == options.seed or time.monotonic() - begun < options.minutes * 60:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="random-users-", ignore_cleanup_errors=True) as folder:
            story = run_story(number, options.steps, Path(folder))
            if story.failure is not None and options.keep is not None:
                Path(folder).rename(options.keep / f"story-{number}")
        failed += story.failure is not None
        is_printed = options.tell or story.failure is not None
        print(story if is_printed else f"story {number}: {time.monotonic() - started:.0f} s, all is well", flush=True)
        number += 1
    print(f"{number - options.seed} stories, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
