"""Runs every harness that finds lost rows and stuck tables, one after the other: `make soak SEEDS=10000`.

Simulated deployments run SEEDS seeds. The other harnesses, which work on real files or search states, run a share of them. The soak prints
the output of each harness, then one line for each harness. `--counts` writes how often each fault was injected, for
`python -m faults.reliability --counts`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.beside_flink.faults import FAULTS as FLINK_FAULTS
from faults.simulated.faults import FAULTS as SIMULATED_FAULTS

from support.dealt_out import folders_in_memory
from support.worlds.faults import Fault
from support.worlds.story_faults import FAULTS as STORY_FAULTS

TABLE_LINE = re.compile(r"^ *(?P<count>[0-9]+)  (?P<fault>[a-z0-9-]+) +\S", re.MULTILINE)
ALL_SEEDS = 10_000
"""Seeds of a whole soak. The number of seeds of each harness below is for this number."""


@dataclass(frozen=True)
class Harness:
    """One program: its module, its arguments, and the value of `seeds_option` for a soak of ALL_SEEDS."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    seeds: int | None = None
    seeds_option: str = "--seeds"

    def command(self, seeds: int) -> list[str]:
        """Returns the command for a soak of that many seeds. Each harness runs at least two seeds."""
        share = [] if self.seeds is None else [self.seeds_option, str(max(2, self.seeds * seeds // ALL_SEEDS))]
        return [sys.executable, "-m", self.module, *self.arguments, *share]

    @property
    def part(self) -> str:
        """The key in PARTS if the harness injects faults of these lists, and otherwise its module."""
        return next((part for part in PARTS if self.module.startswith(part)), self.module)


PARTS: Mapping[str, Sequence[Fault]] = {
    "faults.simulated": SIMULATED_FAULTS,
    "faults.stories": STORY_FAULTS,
    "faults.beside_flink": FLINK_FAULTS,
}
"""Injected faults by the first part of the harness's module."""
ENOUGH = 100
"""A soak of ALL_SEEDS injects each fault of PARTS at least this number of times."""

HARNESSES = (
    Harness("simulator", "faults.simulated", seeds=ALL_SEEDS),
    Harness("simulator on pyiceberg", "faults.simulated.real_lakes", ("--lake", "iceberg-system-columns"), 100),
    Harness("simulator on clean Iceberg tables", "faults.simulated.real_lakes", ("--lake", "iceberg-clean"), 100),
    Harness("simulator on Paimon", "faults.simulated.real_lakes", ("--lake", "paimon-system-columns"), 50),
    Harness("simulator on clean Paimon tables", "faults.simulated.real_lakes", ("--lake", "paimon-clean"), 50),
    Harness("stories on pyiceberg", "faults.stories", ("--kind", "iceberg-system-columns"), 100),
    Harness("stories on clean Iceberg tables", "faults.stories", ("--kind", "iceberg-clean"), 100),
    Harness("stories on Paimon", "faults.stories", ("--kind", "paimon-system-columns"), 115),
    Harness("stories on clean Paimon tables", "faults.stories", ("--kind", "paimon-clean"), 115),
    Harness("beside Flink", "faults.beside_flink", seeds=2_000),
    Harness("drawn rounds of lake tables", "faults.reliability.deep_tests", ("--of", "lake tables"), 150, "--examples"),
    Harness("drawn values", "faults.reliability.deep_tests", ("--of", "values"), 1_000, "--examples"),
    Harness("all that CI takes in turn", "faults.reliability.deep_tests", ("--of", "marked"), 20, "--examples"),
    Harness("S3 that answers 503 for a minute", "faults.object_store.long_outage", ("--seconds", "60")),
    Harness("model", "faults.model", ("--minutes", "6")),
    Harness("random users", "faults.random_users", ("--minutes", "3")),
    Harness("real processes", "faults.processes", ("--faults", "6"), 10),
    Harness("the database gone for a minute", "faults.database", ("--away-seconds", "60")),
)


def counts_of(output: str) -> dict[str, int]:
    """Returns how often each fault was injected, read from the output of a harness."""
    return {line["fault"]: int(line["count"]) for line in TABLE_LINE.finditer(output)}


def seldom(struck: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Returns the faults that were injected less than ENOUGH times, with that number. `struck`: counts by key of PARTS."""
    few = {}
    for part, faults in PARTS.items():
        counts = {fault.name: struck.get(part, {}).get(fault.name, 0) for fault in faults}
        few |= {f"{name} ({part})": count for name, count in counts.items() if count < ENOUGH}
    return few


def main() -> int:
    """Returns the exit status: 1 if a harness failed, or if a soak of ALL_SEEDS injected a fault too seldom."""
    parser = argparse.ArgumentParser(prog="python -m faults.reliability.soak")
    parser.add_argument("--seeds", type=int, default=ALL_SEEDS)
    parser.add_argument("--only", choices=sorted({harness.module for harness in HARNESSES}))
    parser.add_argument("--counts", type=Path, help="write the counts to this file, one line per fault")
    options = parser.parse_args()
    folders_in_memory()
    lines, struck, failed = [], defaultdict[str, Counter[str]](Counter), False
    for harness in HARNESSES:
        if options.only not in (None, harness.module):
            continue
        started = time.monotonic()
        print(f"--- {harness.name}", flush=True)
        run = subprocess.run(harness.command(options.seeds), stdout=subprocess.PIPE, text=True, check=False)
        print(run.stdout, flush=True)
        struck[harness.part].update(counts_of(run.stdout))
        failed |= run.returncode != 0
        last = run.stdout.strip().splitlines()[-1:] or ["nothing was printed"]
        lines.append(f"{(time.monotonic() - started) / 60:6.1f} min  {'FAILED' if run.returncode else 'passed'}  {harness.name}: {last[0]}")
    if options.counts is not None:
        counts = sum(struck.values(), Counter[str]())
        options.counts.write_text("".join(f"{count:>9}  {fault} .\n" for fault, count in sorted(counts.items())))
    print("\n".join(lines))
    too_seldom = seldom(struck) if options.seeds >= ALL_SEEDS and options.only is None else {}
    if too_seldom:
        print(f"FAILED: injected less than {ENOUGH} times: {too_seldom}")
    return 1 if failed or too_seldom else 0


if __name__ == "__main__":
    sys.exit(main())
