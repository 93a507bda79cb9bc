"""Tells many random stories beside Flink on two processes: `PYTHONPATH=.:tests python -m faults.beside_flink --seeds 2000`.

Prints each fault with how often it was injected, the digest of all traces, seeds and steps a second, and the seeds that failed.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import structlog
from faults.beside_flink.faults import FAULTS, STEPS, run_seed

PROCESSES = 2
CHUNK = 20


def result_of(seed: int) -> tuple[int, Counter[str], str, str | None]:
    """The seed, its faults, its trace, and what was lost."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        result = run_seed(seed)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # any end but a good one is a defect
        return seed, Counter(), "", f"{type(error).__name__}: {error}"
    return seed, result.injected, result.trace, None


def main() -> int:
    """Returns the exit status: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.beside_flink")
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    started, injected, digest, failed = time.monotonic(), Counter[str](), hashlib.sha256(), 0
    with ProcessPoolExecutor(PROCESSES) as processes:
        seeds = range(options.first, options.first + options.seeds)
        for seed, faults, trace, failure in processes.map(result_of, seeds, chunksize=CHUNK):
            injected += faults
            digest.update(trace.encode())
            if failure is not None:
                failed += 1
                print(f"seed {seed}: {failure}", flush=True)
    for fault in FAULTS:
        print(f"{injected[fault.name]:>9}  {fault.name:<26} {fault.description}")
    seconds = time.monotonic() - started
    print(f"trace {digest.hexdigest()}")
    rates = f"{options.seeds / seconds:.0f} seeds and {options.seeds * STEPS / seconds:.0f} steps a second"
    print(f"{options.seeds} seeds, {rates}, {seconds:.1f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
