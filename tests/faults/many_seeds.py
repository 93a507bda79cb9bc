"""Programs that tell the stories of many seeds on two processes and print what was injected and lost, and what tests read of that."""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog

from support.repository import ROOT
from support.worlds.faults import Fault

PROCESSES = 2
CHUNK = 20


@dataclass(frozen=True)
class SeedResult:
    """How often each fault was injected in a story, and what tells whether two tellings of it are alike."""

    injected: Counter[str]
    trace: str


Run = Callable[[int], SeedResult]
"""Tells the story of a seed. Raises if something is lost."""


def tell_many(module: str, faults: Sequence[Fault], run_seed: Run, steps: float) -> int:
    """Does what the command line of `python -m module` says, and prints each fault with how often it was injected, the digest of all
    traces, steps a second (a seed has `steps`), and the seeds that failed.

    Returns the exit status: 1 if one did.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    started, injected, digest, failed = time.monotonic(), Counter[str](), hashlib.sha256(), 0
    with ProcessPoolExecutor(PROCESSES) as processes:
        seeds = range(options.first, options.first + options.seeds)
        for seed, of_seed, trace, failure in processes.map(partial(_result_of, run_seed), seeds, chunksize=CHUNK):
            injected += of_seed
            digest.update(trace.encode())
            if failure is not None:
                failed += 1
                print(f"seed {seed}: {failure}", flush=True)
    for fault in faults:
        print(f"{injected[fault.name]:>9}  {fault.name:<26} {fault.description}")
    seconds = time.monotonic() - started
    print(f"trace {digest.hexdigest()}")
    print(f"{options.seeds} seeds, {options.seeds * steps / seconds:.0f} steps a second, {seconds:.1f} s, {failed} failed")
    return 1 if failed else 0


def _result_of(run_seed: Run, seed: int) -> tuple[int, Counter[str], str, str | None]:
    """The seed, its faults, its trace, and what was lost."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        result = run_seed(seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # any end but a good one is a defect, a simulated death that comes through, too
        return seed, Counter(), "", f"{type(error).__name__}: {error}"
    return seed, result.injected, result.trace, None


def printed_trace(module: str, *arguments: str, hash_seed: int) -> str:
    """The line of the digest. `hash_seed`: the order of sets in that process."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-m", module, *arguments]
    lines = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=240).stdout.splitlines()
    return next(line for line in lines if line.startswith("trace "))
