"""Writes tests/faults/README.md: `PYTHONPATH=.:tests python -m faults.reliability [--counts FILE]`.

The promises stand here and in docs/reliability.md, which users read; a test compares them. The faults stand in the lists of the harnesses.
`--counts` names a file that a soak wrote (`faults.reliability.soak --counts`): how often each fault was injected. Without it the page keeps
the counts that it has.
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

PAGE = ROOT / "tests" / "faults" / "README.md"
USER_PAGE = ROOT / "docs" / "reliability.md"
"""The page that states the promises to users, without tests and faults. It is written by hand."""
_ROW = re.compile(r"^\| `(?P<fault>[a-z0-9-]+)` \| (?P<where>[\w, ]+) \| (?P<count>[0-9,]+) \|", re.MULTILINE)

LATE_COMMITS = "tests/coordinator/lake_repair/test_sweeps_before_late_commits.py"

PROMISES = (
    (
        "Every row of the log is in the lake exactly once.",
        "tests/faults/simulated/test_simulated_deployments.py",
        "tests/faults/model/test_commit_protocol.py",
        "tests/faults/linearizability/test_histories.py",
        "tests/faults/simulated/test_fuzzed_stories.py",
    ),
    (
        "Where another tiering service works on the same tables, no row is lost, and each row that the other service doubles is named or "
        "repaired.",
        "tests/faults/beside_flink/test_random_stories.py",
    ),
    (
        "Upkeep loses no row, brings back no deleted row, deletes no file that is needed, and delays no round that has rows.",
        "tests/faults/model/test_commit_protocol.py",
        "tests/faults/simulated/test_real_lakes.py",
        "tests/faults/processes/test_killed_upkeep.py",
    ),
    (
        "A killed process leaves nothing behind that stops the next one.",
        "tests/faults/processes/test_every_crash_point.py",
        *dict.fromkeys(test.partition("::")[0] for fault in KILLS for test in fault.tests),
    ),
    ("A state store that does not answer delays tiering and changes nothing else.", "tests/faults/database/test_database_outage.py"),
    (
        "A state store that is lost, or restored from an old backup, costs history and no row.",
        "tests/faults/processes/test_lost_state.py",
        LATE_COMMITS,
    ),
    (
        "No file is deleted that a snapshot names, or that a commit can still name.",
        "tests/faults/simulated/test_simulated_rounds.py",
        LATE_COMMITS,
    ),
    (
        "After a fault, every healthy table is tiered again by itself, in bounded time.",
        "tests/faults/simulated/test_simulated_deployments.py",
    ),
    ("A table that needs a person says so, and its hint says what helps.", "tests/faults/simulated/test_fuzzed_stories.py"),
    ("A CALL that is repeated with the same idempotency key has one effect.", "tests/sys_tables/procedures/test_changes_once.py"),
)
"""The promises of `USER_PAGE`, each with the files of the tests that hold it."""

FOLDERS = """| folder | what its tests do |
|---|---|
| `simulated/` | run coordinator and tierers in one process, in simulated time, and inject faults by seed; `real_lakes.py`: on real files |
| `stories/` | run a coordinator and a tierer on real files of Iceberg and Paimon, on a file system and a clock that fail |
| `model/` | search every interleaving of the commit protocol up to a bound, and show that each of its rules is needed |
| `linearizability/` | check with porcupine that claims, grants, commits and acks are linearizable |
| `beside_flink/` | run the rules of a shared Fluss cluster against a simulated Flink tiering service |
| `processes/` | kill, stop and cut off real processes, move their clocks, and let their disks fail |
| `database/` | take the state store's database away under load |
| `object_store/` | kill processes on a lake in S3, and let S3 and the catalog answer wrong |
| `random_users/` | let random users type commands, change lake tables and kill processes |
| `reliability/` | run all of this for long (`make soak`), and write this page |"""


def faults() -> list[Fault]:
    """Returns the faults of all harnesses, each name once."""
    by_name: dict[str, list[Fault]] = {}
    for fault in (*SIMULATED_FAULTS, *STORY_FAULTS, *FLINK_FAULTS):
        by_name.setdefault(fault.name, []).append(fault)
    return sorted(map(merged, by_name.values()), key=lambda fault: (fault.where, fault.name))


def merged(alike: Sequence[Fault]) -> Fault:
    """Returns one fault for the faults of the same name in several harnesses, with all of their texts and tests."""
    first, *others = alike
    return replace(
        first,
        description=_joined(" ", (fault.description for fault in alike)),
        where=_joined(", ", (fault.where for fault in alike)),
        handled_by=_joined("; ", (fault.handled_by for fault in alike)),
        also_held_by=(*first.also_held_by, *(test for fault in others for test in fault.tests)),
    )


def kinds(of: Iterable[Fault]) -> list[Fault]:
    """Returns the faults that are not variants of other faults."""
    return [fault for fault in of if fault.variant_of is None]


def counts_on(page: str) -> dict[str, int]:
    """Returns how often each fault was injected, read from the text of the page."""
    return {row["fault"]: int(row["count"].replace(",", "")) for row in _ROW.finditer(page)}


def render(counts: Mapping[str, int]) -> str:
    """Returns the page. `counts`: how often each fault was injected, by its name."""
    promises = "\n".join(f"| {promise} | {_tests(tests)} |" for promise, *tests in PROMISES)
    return f"""# Faults

<!-- Written by `PYTHONPATH=.:tests python -m faults.reliability`; do not edit. -->

This page is for contributors. It lists the tests that hold each promise of [reliability](../../docs/reliability.md), and every fault that
the tests inject.

## Folders

{FOLDERS}

## Promises

| promise | tests |
|---|---|
{promises}

## Injected faults

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
    return f"""{len(faults())} faults are injected by name, of {len(kinds(faults()))} kinds; the others are variants in size or place.
`make soak SEEDS=10000` injects all of them, prints what it found, and fails if it injected one of them less than {ENOUGH} times.
The column `injected` counts the injections of the last soak whose counts were kept. A seed replays its story exactly. The
commands need `PYTHONPATH=.:tests`:

- simulator: `python -m faults.simulated --first SEED --seeds 1`
- simulator on files: `python -m faults.simulated.real_lakes --lake KIND --first SEED --seeds 1`
- stories: `python -m faults.stories --kind KIND --first SEED --seeds 1 --log`
- stories beside Flink: `python -m faults.beside_flink --first SEED --seeds 1`

A seed that failed is printed with its KIND, the kind of lake. The last column names the tests that fail when the code that handles the
fault is taken out.

| fault | injected by | injected | what happens | what handles it | tests |
|---|---|---|---|---|---|
{rows}"""


def _of_processes() -> str:
    rows = "\n".join(
        f"| `{fault.name}` | {fault.where} | {_description(fault)} | {_cell(fault.handled_by)} | {_tests(fault.tests)} |"
        for fault in PROCESS_FAULTS
    )
    return f"""{len(PROCESS_FAULTS)} more faults strike real processes and services. {len(kinds(PROCESS_FAULTS))} of them are of kinds that
the table above does not have. A test injects each of them in every run, or, where that takes long, in each soak. So they have no count.

| fault | part | what happens | what handles it | tests |
|---|---|---|---|---|
{rows}"""


def _description(fault: Fault) -> str:
    return fault.description if fault.variant_of is None else f"{fault.description} A variant of `{fault.variant_of}`."


def _tests(tests: Iterable[str]) -> str:
    return ", ".join(f"`{_cell(test)}`" for test in tests)


def _joined(separator: str, texts: Iterable[str]) -> str:
    """Joins the texts, each text once."""
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
