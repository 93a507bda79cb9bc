"""Upkeep on a full disk, beside another writer, over a damaged file and beside a user's branch: tiering goes on, and nothing is lost."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from support.background import tick
from support.behaviours.backends import EMBEDDED
from support.behaviours.deployment import MAX_BACKOFF_S, Deployment, StoryTable
from support.worlds.lake_world import SteppedRound
from tiering.lake.iceberg.catalogs.file_io import LakeFileIO
from tiering.lake.rules.upkeep import small_files
from tiering.model.rounds import RoundState
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.round.steps import actions as act

pytestmark = pytest.mark.parametrize("backend", [EMBEDDED], indirect=True, scope="session")
KINDS = pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary-key"])
FULL = UpkeepOrder(full=True)


def new_table(deployment: Deployment, key: tuple[str, ...] = (), rounds: int = 4, name: str = "orders") -> StoryTable:
    """A clean table with a small file for each bucket and round."""
    table = deployment.make(name, key=key, properties={"table.datalake.layout": "clean"})
    for number in range(rounds):
        write(table, number)
        assert table.tier().error is None
    return table


def write(table: StoryTable, number: int) -> None:
    table.write(dict.fromkeys(range(10 * number, 10 * number + 4), f"round {number}"))


def begin_upkeep(table: StoryTable, order: UpkeepOrder = FULL) -> SteppedRound:
    table.deployment.clock.advance(MAX_BACKOFF_S)
    tick(table.deployment.coordinator)
    return table.deployment.begin(table.info, upkeep=order)


def files_of(table: StoryTable) -> set[Path]:
    return set(table.deployment.by_hand.data_files(table.path))


def stored_files(table: StoryTable) -> set[Path]:
    """All data files, those that no snapshot names included."""
    return {file for folder in {file.parent for file in files_of(table)} for file in folder.glob("*.parquet")}


class FullDisk:
    """No new data file can be written."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._new_output = LakeFileIO.new_output
        patch.setattr(LakeFileIO, "new_output", lambda io, location: self._refuse(io, location))

    def _refuse(self, io: LakeFileIO, location: str) -> Any:
        if location.endswith(".parquet"):
            raise OSError(errno.ENOSPC, "No space left on device", location)
        return self._new_output(io, location)


@KINDS
def test_a_disk_that_fills_up_during_a_rewrite_fails_the_upkeep_round_alone(
    deployment: Deployment, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(deployment, key)
    before = stored_files(table)
    begun = begin_upkeep(table).advance_to(act.RewriteFiles)
    with monkeypatch.context() as patch:
        FullDisk(patch)
        outcome = begun.end()
    assert (outcome.state, outcome.error and outcome.error.error_class) == (RoundState.FAILED, "LakeUnavailable")
    assert outcome.error is not None
    assert "No space left on device" in outcome.error.message
    assert stored_files(table) == before
    write(table, 4)
    deployment.clock.advance(MAX_BACKOFF_S)
    table.tiered()


def test_a_disk_that_fills_up_during_a_merge_costs_the_round_the_merge_alone(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(deployment)
    monkeypatch.setattr(small_files, "SMALL_FILES", 2)
    write(table, 4)
    deployment.due()
    begun = deployment.begin(table.info).advance_to(act.MergeFiles)
    before = stored_files(table)
    with monkeypatch.context() as patch:
        FullDisk(patch)
        begun.runner.advance()
    assert begun.end().state is RoundState.SUCCEEDED
    assert stored_files(table) == before
    table.check()


@KINDS
def test_a_writer_that_commits_before_each_request_costs_upkeep_no_work_unless_it_changes_the_files(
    deployment: Deployment, key: tuple[str, ...]
) -> None:
    table = new_table(deployment, key)
    begun, requests = begin_upkeep(table).advance_to(act.CommitLake), 0
    while not isinstance(begun.runner.next_action, act.End):
        if isinstance(begun.runner.next_action, act.CommitLake):
            requests += 1
            if requests <= 3:
                append_nothing(table)
        begun.runner.advance()
    outcome = begun.end()
    assert (outcome.state, requests) == (RoundState.SUCCEEDED, 4)
    assert outcome.stats.upkeep is not None
    assert outcome.stats.upkeep.dropped == 0
    assert len(files_of(table)) == table.info.bucket_count
    table.check()


def append_nothing(table: StoryTable) -> None:
    """Commits as another writer, without a row."""
    rows = table.deployment.by_hand.rows(table.path)
    table.deployment.by_hand.append(table.path, rows.slice(0, 0), {})


@KINDS
def test_files_that_another_program_rewrote_meanwhile_are_left_out_and_counted(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = new_table(deployment, key)
    begun = begin_upkeep(table).advance_to(act.CommitLake)
    deployment.by_hand.rewrite(table.path)
    after = files_of(table)
    outcome = begun.end()
    assert outcome.error is None
    assert outcome.stats.upkeep is not None
    assert outcome.stats.upkeep.dropped == table.info.bucket_count
    assert files_of(table) == after
    write(table, 4)
    table.tiered()


@KINDS
def test_a_damaged_file_holds_up_its_own_bucket_alone(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = new_table(deployment, key)
    before = files_of(table)
    damaged = min(before, key=lambda file: file.stat().st_mtime_ns)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + bytes(byte ^ 0xFF for byte in content[4:120]) + content[120:])
    outcome = begin_upkeep(table).end()
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    assert damaged in files_of(table)
    assert len(files_of(table)) < len(before)
    damaged.write_bytes(content)
    assert begin_upkeep(table).end().error is None
    assert len(files_of(table)) == table.info.bucket_count
    table.check()


def test_a_snapshot_that_a_branch_needs_outlives_an_order_to_expire(deployment: Deployment) -> None:
    table = new_table(deployment)
    loaded = deployment.iceberg(table.info)
    oldest = loaded.metadata.snapshots[0].snapshot_id
    loaded.manage_snapshots().create_branch(oldest, "audit").commit()
    outcome = begin_upkeep(table, UpkeepOrder(rewrite=False, expiry=ExpiryOrder(deployment.clock.now(), 1))).end()
    assert outcome.state is RoundState.SUCCEEDED, outcome.error
    after = deployment.iceberg(table.info)
    assert outcome.stats.upkeep is not None
    assert outcome.stats.upkeep.snapshots_expired > 0
    assert after.metadata.refs["audit"].snapshot_id == oldest
    assert after.scan(snapshot_id=oldest).to_arrow().num_rows == 4
    table.check()
