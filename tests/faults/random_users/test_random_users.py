"""Random users of a deployment whose processes die, for a minute; and that the machine behind them notices what it is there to notice.

A soak is `python -m faults.random_users --minutes N --seed S`, which also tells the story of a seed that failed here once more.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from faults.random_users.command_line import unclear
from faults.random_users.healing import prove
from faults.random_users.kept_deployment import TIERERS
from faults.random_users.machine import run_story
from faults.random_users.model import Table
from faults.random_users.users import Users

from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, PAIMON_CLEAN, LakeKind
from support.repository import ROOT
from support.running.commands import Ended
from support.running.processes import Process, wait_for
from tiering.model.tables import TablePath

SEEDS = (1, 2)
STEPS = 20
ORDERS = TablePath("sales", "orders")
_DRAW = "from faults.random_users.machine import run_story; print('\\n'.join(run_story(7, 30, None).steps))"


@pytest.mark.in_turn("seed")
@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")  # from a user's compaction with pyiceberg
@pytest.mark.parametrize("seed", SEEDS)
def test_the_lake_has_every_row_once_under_random_users_and_killed_processes(tmp_path: Path, seed: int) -> None:
    story = run_story(seed, STEPS, tmp_path)
    if story.failure is not None:
        story.failure.add_note(str(story))
        raise story.failure


@pytest.mark.soak
def test_a_seed_draws_the_same_steps_in_every_process() -> None:
    """The process may have imported this file before, or run other tests."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests")))}
    fresh = subprocess.run([sys.executable, "-c", _DRAW], env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert fresh == run_story(7, 30, None).steps
    assert fresh != run_story(8, 30, None).steps
    assert len(fresh) == 30


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    """With a log table that is tiered."""
    users = Users(tmp_path)
    try:
        users.start()
        users.create("orders", LAKE_KINDS.index(ICEBERG), False, False, 1, random.Random(1))
        users.do("wait", str(ORDERS), "--timeout-ms", "90000")
        yield users
    finally:
        users.close()


def test_a_row_that_was_removed_unreported_is_noticed(users: Users) -> None:
    table = users.tables["orders"]
    users.lake.remove(table, table.former[0]["id"])
    table.removed.clear()
    with pytest.raises(AssertionError, match="the lake lacks") as raised:
        prove(users)
    assert "the service says 1" in str(raised.value)
    assert "validate --data says 1" in str(raised.value)


@pytest.mark.soak
def test_a_roll_back_that_no_user_reported_is_noticed(users: Users) -> None:
    table = users.tables["orders"]
    users.write(table, random.Random(2))
    users.do("wait", str(ORDERS), "--timeout-ms", "90000")
    users.lake.change(table, "roll back", 0)
    table.is_harmed = False
    users.write(table, random.Random(3))
    users.run("tier", str(ORDERS))
    with pytest.raises(AssertionError, match=r"no user damaged it: .*orders: LakeRolledBack"):
        users.look()


@pytest.mark.soak
def test_a_process_that_ends_by_itself_is_noticed(users: Users) -> None:
    users.deployment._parts[TIERERS[0]].send(signal.SIGTERM)
    wait_for("the keeper finds it", lambda: users.deployment.defects)
    with pytest.raises(AssertionError, match=f"{TIERERS[0]} ended with 0"):
        users.look()


@pytest.mark.parametrize(
    ("ended", "fault"),
    [
        (Ended(1, "", "Traceback (most recent call last):"), "it prints a traceback"),
        (Ended(-11, "", ""), "exit status -11"),
        (Ended(1, "", "lakeward: sales.orders: 'id' [KeyError]\n  a hint"), "no error of Lakeward's: KeyError"),
        (Ended(1, "", ""), "it fails and says nothing"),
        (Ended(1, "", "lakeward: the lake is away [LakeUnavailable]"), None),
        (Ended(1, '[{"ok": false}]', ""), None),
        (Ended(0, "done", ""), None),
    ],
)
def test_an_unclear_error_is_noticed(ended: Ended, fault: str | None) -> None:
    assert unclear(ended) == fault


def test_a_keeper_starts_processes_also_where_interrupts_are_ignored(tmp_path: Path) -> None:
    """Interrupts are ignored as in a shell's background job."""
    started: list[Process] = []
    keeper = Thread(target=lambda: started.append(Process("pass", log=tmp_path / "log", program=(sys.executable, "-c"))))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        keeper.start()
        keeper.join()
    finally:
        signal.signal(signal.SIGINT, before)
    [process] = started
    assert process.wait_ended() == 0


def table(has_primary_key: bool = False, partitioned: bool = False, kind: LakeKind = PAIMON_CLEAN) -> Table:
    """With three rows."""
    table = Table(ORDERS, kind, has_primary_key, partitioned)
    table.write([{"id": number, "region": region, "text": "a"} for number, region in enumerate(("eu", "us", "eu"))])
    return table


def test_rows_that_a_lake_lacks_or_has_beside_are_named() -> None:
    rows = list(table().rows.values())
    assert table().differences(rows) == []
    assert "lacks [((2, 'eu', 'a'), 1)]" in table().differences(rows[:2])[0]
    beside, strange = table().differences([*rows, rows[0]])
    assert "beside the table's rows [((0, 'eu', 'a'), 1)]" in beside
    assert "no user wrote so often [((0, 'eu', 'a'), 1)]" in strange


def test_a_row_of_a_dropped_partition_may_stay_once() -> None:
    dropped = table(partitioned=True)
    rows = list(dropped.rows.values())
    dropped.drop_partition("eu")
    assert dropped.differences(rows) == []
    assert dropped.differences(rows[1:]) == []
    assert "no user wrote so often [((0, 'eu', 'a'), 1)]" in dropped.differences([*rows, rows[0]])[0]


def test_a_row_that_was_left_out_is_excused_and_no_other_one() -> None:
    left_out = table()
    rows = list(left_out.rows.values())
    left_out.left_out = 1
    assert left_out.differences(rows[1:]) == []
    assert "lacks" in left_out.differences(rows[2:])[0]


def test_an_older_version_of_a_row_is_named() -> None:
    keyed = table(has_primary_key=True)
    old = list(keyed.rows.values())
    keyed.write([{"id": 0, "region": "us", "text": "b"}])
    faults = keyed.differences(old)
    assert "lacks [((0, 'us', 'b'), 1)]" in faults[0]
    assert "beside the table's rows [((0, 'eu', 'a'), 1)]" in faults[1]
