"""Tells many stories on two processes: `PYTHONPATH=.:tests python -m faults.stories --seeds 200 --kind iceberg-clean`.

The number of a seed says which faults its story is to meet, so that of hundred seeds that follow one another each fault has some forty;
others are drawn. Prints each fault with how often it was injected, steps a second, the digest of all traces, and the seeds that
failed; with `--log`, what happened in them. Without `--kind` seeds go to the kinds of lakes in turn.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import sys
import tempfile
import time
import traceback
import uuid
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import structlog

from support.lake_kinds.kinds import LAKE_KINDS
from support.worlds.stories.story import Story, wanted_of
from support.worlds.stories.upkeep import upkeep_often
from support.worlds.story_faults import FAULTS

PROCESSES = 2
CHUNK = 2
STEPS = 25
KINDS = {kind.name: kind for kind in LAKE_KINDS}


@dataclass(frozen=True)
class Told:
    """A story that ended. `failure`: what was lost; None = it ended well."""

    seed: int
    kind: str
    injected: Counter[str]
    log: list[str]
    failure: str | None

    @property
    def trace(self) -> str:
        """Actions in order; without texts, because texts have paths and times."""
        return "\n".join(line.split(":")[0] for line in self.log) + repr(sorted(self.injected.items()))


def tell(seed: int, kind: str, steps: int, folder: Path) -> Told:
    """A whole story with every fault, healed and proved at its end. Ids come from the seed as well."""
    ids = random.Random(seed)
    with patch("uuid.uuid4", lambda: uuid.UUID(int=ids.getrandbits(128), version=4)), upkeep_often():
        story = Story(folder, seed, KINDS[kind], FAULTS, wanted_of(seed, FAULTS))
        try:
            story.tell(steps)
            story.heal()
            story.prove()
            story.end_of_all()
        except BaseException:  # any end but a good one is a defect
            return Told(seed, kind, story.injected, story.log, traceback.format_exc())
        finally:
            story.close()
    return Told(seed, kind, story.injected, story.log, None)


def result_of(seed: int, kind: str, steps: int) -> Told:
    """In a folder of its own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        return tell(seed, kind, steps, Path(folder))


def main() -> int:
    """Returns the exit status: 1 if a story failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.stories")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--log", action="store_true")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    kinds = [options.kind or list(KINDS)[seed % len(KINDS)] for seed in seeds]
    started, injected, digest, failed = time.monotonic(), Counter[str](), hashlib.sha256(), 0
    with ProcessPoolExecutor(PROCESSES) as processes:
        for story in processes.map(result_of, seeds, kinds, [options.steps] * len(seeds), chunksize=CHUNK):
            injected += story.injected
            digest.update(story.trace.encode())
            if story.failure is not None:
                failed += 1
                lines = story.failure.strip().splitlines()
                print(f"seed {story.seed} of {story.kind}: {lines[-1]}", flush=True)
                if options.log:
                    print("\n".join([*story.log, *lines]), flush=True)
    for fault in FAULTS:
        print(f"{injected[fault.name]:>9}  {fault.name:<32} {fault.description}")
    seconds = time.monotonic() - started
    print(f"trace {digest.hexdigest()}")
    print(f"{options.seeds} seeds, {options.seeds * options.steps / seconds:.0f} steps a second, {seconds:.1f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
