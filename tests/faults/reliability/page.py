"""Writes docs/reliability.md: `PYTHONPATH=.:tests python -m faults.reliability [--counts FILE]`.

The promises and the faults stand here and in the lists of the harnesses. How often each fault was injected is what a soak left
(`faults.reliability.soak --counts`), else what the page says already.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from faults.beside_flink.faults import FAULTS as FLINK_FAULTS
from faults.reliability.process_faults import FAULTS as PROCESS_FAULTS
from faults.reliability.process_faults import KILLS
from faults.reliability.soak import ENOUGH, counts_of
from faults.simulated.faults import FAULTS as SIMULATED_FAULTS

from support.repository import ROOT
from support.worlds.faults import Fault
from support.worlds.story_faults import FAULTS as STORY_FAULTS

PAGE = ROOT / "docs" / "reliability.md"
_ROW = re.compile(r"^\| `(?P<fault>[a-z0-9-]+)` \| (?P<where>[\w, ]+) \| (?P<count>[0-9,]+) \|", re.MULTILINE)

LATE_COMMITS = "tests/coordinator/calls/lake_repair/test_sweeps_before_late_commits.py"

PROMISES = (
    (
        "Each row of the log is in the lake once, whatever dies, hangs or repeats; nothing is lost.",
        "tests/faults/simulated/test_simulated_deployments.py",
    ),
    (
        "Every interleaving of the commit protocol keeps that, and each of its rules is needed.",
        "tests/faults/model/test_commit_protocol.py",
    ),
    (
        "Claims, grants, commits and acks are linearizable, by somebody else's checker.",
        "tests/faults/linearizability/test_histories.py",
    ),
    ("It holds on real files of Iceberg and Paimon, with a file system that fails.", "tests/faults/simulated/test_fuzzed_stories.py"),
    (
        "Upkeep loses no row, brings no deleted row back, deletes no file that is needed, and holds no round with rows up.",
        "tests/faults/model/test_commit_protocol.py",
        "tests/faults/simulated/test_real_lakes.py",
        "tests/faults/processes/test_killed_upkeep.py",
    ),
    ("It holds where another tiering service works on the same tables.", "tests/faults/beside_flink/test_random_stories.py"),
    (
        "A process that is killed at any named point leaves nothing that stops the next.",
        "tests/faults/processes/test_every_crash_point.py",
        *dict.fromkeys(test.partition("::")[0] for fault in KILLS for test in fault.tests),
    ),
    ("The state store's database may be gone under load; what goes on is what was there.", "tests/faults/database/test_database_outage.py"),
    ("A state store that is lost, or set back, takes history along and no row.", "tests/faults/processes/test_lost_state.py", LATE_COMMITS),
    (
        "Nothing that a snapshot names, or a commit may still name, is deleted.",
        "tests/faults/simulated/test_simulated_rounds.py",
        LATE_COMMITS,
    ),
    (
        "Once a fault is over, every healthy table is tiered by itself, in bounded time.",
        "tests/faults/simulated/test_simulated_deployments.py",
    ),
    ("A table that waits for a person says so, and what its hint says ends that.", "tests/faults/simulated/test_fuzzed_stories.py"),
    ("A CALL that is repeated with its key has one effect.", "tests/sys_tables/procedures/test_changes_once.py"),
)
"""What is promised, and the tests that hold it."""

NOT_PROMISED = (
    "Rows that nobody has any more: what retention removed before it was tiered, or a cluster lost. The table says how many records that "
    "leaves out, and goes on only when somebody says so.",
    "A lake table that somebody writes rows into by hand. Rewriting and expiring it is fine; rows of one's own belong in another table.",
    "That a primary-key table shows no older row for a moment after `reconcile_lake(..., 'retier')`: changes are applied again, in order.",
    "A disk that says it has stored what it has not.",
)


def faults() -> list[Fault]:
    """Those of all harnesses, each name once."""
    by_name: dict[str, list[Fault]] = {}
    for fault in (*SIMULATED_FAULTS, *STORY_FAULTS, *FLINK_FAULTS):
        by_name.setdefault(fault.name, []).append(fault)
    return sorted(map(merged, by_name.values()), key=lambda fault: (fault.where, fault.name))


def merged(alike: Sequence[Fault]) -> Fault:
    """What several harnesses say of the fault that each of them injects under the same name."""
    first, *others = alike
    return replace(
        first,
        description=_joined(" ", (fault.description for fault in alike)),
        where=_joined(", ", (fault.where for fault in alike)),
        handled_by=_joined("; ", (fault.handled_by for fault in alike)),
        also_held_by=(*first.also_held_by, *(test for fault in others for test in fault.tests)),
    )


def kinds(of: Iterable[Fault]) -> list[Fault]:
    """Those that are no variants of others."""
    return [fault for fault in of if fault.variant_of is None]


def counts_on(page: str) -> dict[str, int]:
    """How often each fault was injected, as the page has it."""
    return {row["fault"]: int(row["count"].replace(",", "")) for row in _ROW.finditer(page)}


def render(counts: Mapping[str, int]) -> str:
    """The page."""
    promises = "\n".join(f"| {promise} | {_tests(tests)} |" for promise, *tests in PROMISES)
    limits = "\n".join(f"- {limit}" for limit in NOT_PROMISED)
    return f"""# Reliability

<!-- Written by `python -m faults.reliability`; do not edit. -->

What Lakeward promises when something goes wrong, which test holds each promise, and which faults were injected to see it.

## Promised

| promise | held by |
|---|---|
{promises}

## Not promised

{limits}

## Faults

{_injected(counts)}

## Faults of processes and services

{_of_processes()}
"""


def _injected(counts: Mapping[str, int]) -> str:
    rows = "\n".join(
        f"| `{fault.name}` | {fault.where} | {counts.get(fault.name, 0):,} | {_description(fault)} | {_cell(fault.handled_by)} | "
        f"{_tests(fault.tests)} |"
        for fault in faults()
    )
    return f"""{len(faults())} faults are injected by name, {len(kinds(faults()))} of them different kinds; the others are variants in
size or place.
`make soak SEEDS=10000` injects all of them, fails if one of them strikes less than {ENOUGH} times, and prints what it found; `injected`
is how often each struck in the last soak whose counts were kept. A seed tells its story again exactly, with `PYTHONPATH=.:tests`:

- of the simulator: `python -m faults.simulated --first SEED --seeds 1`
- of the simulator on files: `python -m faults.simulated.real_lakes --lake KIND --first SEED --seeds 1`
- of the stories: `python -m faults.stories --kind KIND --first SEED --seeds 1 --log`
- of the stories beside Flink: `python -m faults.beside_flink --first SEED --seeds 1`

KIND is the kind of lake that is printed with a seed that failed. The last column names the tests that fail when what handles the fault is
taken out.

| fault | injected by | injected | what happens | what handles it | held by |
|---|---|---|---|---|---|
{rows}"""


def _of_processes() -> str:
    rows = "\n".join(
        f"| `{fault.name}` | {fault.where} | {_description(fault)} | {_cell(fault.handled_by)} | {_tests(fault.tests)} |"
        for fault in PROCESS_FAULTS
    )
    return f"""{len(PROCESS_FAULTS)} more faults strike real processes and services, {len(kinds(PROCESS_FAULTS))} of them of kinds that are
not above: kills, stops, cut networks, a PostgreSQL that is away, a catalog and an S3 server that answer wrong, files of certificates,
tokens and policies that are damaged. Each is injected by a test, by hand: in every run of the tests, or, where that takes long, in each
soak. No count stands here.

| fault | part | what happens | what handles it | held by |
|---|---|---|---|---|
{rows}"""


def _description(fault: Fault) -> str:
    return fault.description if fault.variant_of is None else f"{fault.description} A variant of `{fault.variant_of}`."


def _tests(tests: Iterable[str]) -> str:
    return ", ".join(f"`{_cell(test)}`" for test in tests)


def _joined(separator: str, texts: Iterable[str]) -> str:
    """Each text once."""
    return separator.join(dict.fromkeys(texts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(prog="python -m faults.reliability")
    parser.add_argument("--counts", type=Path)
    options = parser.parse_args()
    former = counts_on(PAGE.read_text()) if PAGE.exists() else {}
    counts = former if options.counts is None else counts_of(options.counts.read_text())
    PAGE.write_text(render(counts))
