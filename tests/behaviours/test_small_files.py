"""Rounds merge small files of the lake table: few are left at any time, no row changes, and the proofs of the rows stay."""

from __future__ import annotations

import pytest

from support.behaviours.backends import EMBEDDED
from support.behaviours.deployment import Deployment, StoryTable
from support.lakes.lake_proof import assert_chain
from tiering.lake.rules.upkeep.small_files import SMALL_FILES
from tiering.round.steps import actions as act

ROUNDS = 24
ONLY_EMBEDDED = pytest.mark.parametrize("backend", [EMBEDDED], indirect=True, scope="session")
LAYOUTS = pytest.mark.parametrize("layout", ["clean", "system-columns"])


def new_table(deployment: Deployment, layout: str, *, key: tuple[str, ...] = (), **options: str) -> StoryTable:
    return deployment.make("orders", key=key, properties={"table.datalake.layout": layout, **options})


def write(table: StoryTable, number: int) -> None:
    table.write(dict.fromkeys(range(10 * number, 10 * number + 4), f"round {number}"))


@ONLY_EMBEDDED
@LAYOUTS
def test_a_bucket_never_has_more_small_files_than_it_may(deployment: Deployment, layout: str) -> None:
    table = new_table(deployment, layout)
    buckets, most, merged = table.info.bucket_count, 0, 0
    for number in range(ROUNDS):
        write(table, number)
        outcome = table.tier()
        assert outcome.error is None
        merged += 0 if outcome.stats.upkeep is None else outcome.stats.upkeep.files_before - outcome.stats.upkeep.files_after
        most = max(most, len(deployment.by_hand.data_files(table.path)))
    assert SMALL_FILES < most <= buckets * (SMALL_FILES + 1)
    assert merged == ROUNDS - len(deployment.by_hand.data_files(table.path)), "the stats of rounds tell all merges"
    table.check()
    assert_chain(deployment.lake_properties, table.path, deployment.lake_format)


@ONLY_EMBEDDED
@LAYOUTS
def test_a_table_whose_option_forbids_it_keeps_its_files(deployment: Deployment, layout: str) -> None:
    table = new_table(deployment, layout, **{"table.datalake.auto-compaction": "false"})
    for number in range(SMALL_FILES + 4):
        write(table, number)
        table.tier()
    assert len(deployment.by_hand.data_files(table.path)) >= SMALL_FILES + 4
    table.check()


@ONLY_EMBEDDED
@LAYOUTS
def test_a_round_lands_without_its_rewrites_where_another_program_compacts_meanwhile(deployment: Deployment, layout: str) -> None:
    table, dropped = new_table(deployment, layout), 0
    for number in range(ROUNDS):
        write(table, number)
        deployment.due()
        begun = deployment.begin(table.info).advance_to(act.CommitLake)
        commit = begun.runner.next_action
        assert isinstance(commit, act.CommitLake)
        if commit.committable.rewrites:
            deployment.by_hand.rewrite(table.path)
            dropped += 1
        assert begun.end().error is None
    assert dropped
    table.check()


@ONLY_EMBEDDED
@LAYOUTS
def test_a_primary_key_bucket_has_few_files_and_one_file_of_deletes(deployment: Deployment, layout: str) -> None:
    table = new_table(deployment, layout, key=("id",))
    table.write(dict.fromkeys(range(1_000), "before"))
    table.tiered()
    for number in range(ROUNDS):
        table.write(dict.fromkeys(range(7 * number, 7 * number + 5), f"round {number}"))
        table.delete([{"id": 500 + number}])
        assert table.tier().error is None
        files = deployment.by_hand.data_files(table.path)
        assert len(files) <= table.info.bucket_count * (SMALL_FILES + 1)
        if not number % 5:
            table.check()
    table.check()
    view = deployment.lake.view(table.path)
    assert view is not None
    lists = deployment.lake.file_lists(view, None)
    assert len(lists.position_deletes) <= table.info.bucket_count


@ONLY_EMBEDDED
def test_a_users_delete_meanwhile_stays_where_small_files_of_the_bucket_are_merged(deployment: Deployment) -> None:
    table = new_table(deployment, "clean", key=("id",))
    for number in range(ROUNDS):
        table.write({number: "written", 1_000 + number: "changed"})
        deployment.due()
        begun = deployment.begin(table.info).advance_to(act.CommitLake)
        if number and not number % 4:
            deployment.by_hand.delete(table.path, "id", number - 1)
            del table.rows[(number - 1,)]
        assert begun.end().error is None
    assert sorted(table.lake_rows()["id"].to_pylist()) == sorted(row["id"] for row in table.rows.values())
