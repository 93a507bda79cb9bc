"""Users and other services change a lake table between rounds, tables are recreated, and the repairs work."""

from __future__ import annotations

import pytest

from support.background import tick
from support.behaviours.deployment import Deployment, StoryTable
from support.behaviours.lacks import Lack
from support.lakes.lake_proof import assert_chain
from tiering.errors import LakeRolledBack, LakeTableReplaced, LakewardError, RecordAheadOfLake, TableMismatch
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act

BOTH_KINDS = pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "primary key"])


def parked(table: StoryTable, error: type[LakewardError]) -> None:
    """The next round fails for good, and sys says why."""
    assert isinstance(table.tier().error, error)
    status = table.status()
    assert (status["status"], status["error_class"]) == ("Failed", error.__name__)


def with_two_rounds(deployment: Deployment, key: tuple[str, ...]) -> StoryTable:
    """A table whose lake has two rounds, and whose log has more."""
    table = deployment.make("orders", key=key)
    table.write(dict.fromkeys(range(6), "first"))
    table.tiered()
    table.write(dict.fromkeys(range(6, 12), "second"))
    if key:
        table.delete([{"id": 1}])
        table.write({2: "changed"})
    table.tiered()
    table.write(dict.fromkeys(range(12, 18), "third"))
    return table


def roll_back(table: StoryTable) -> None:
    view = table.deployment.lake.view(table.path)
    assert view is not None
    rounds = [snapshot for snapshot in view.snapshots.values() if snapshot.round_id is not None]
    first = min(rounds, key=lambda snapshot: snapshot.sequence_number)
    table.deployment.by_hand.roll_back(table.path, first.snapshot_id)


def rolled_back(table: StoryTable) -> type[LakewardError]:
    """In Paimon, newer snapshots go and only the records tell of them."""
    return RecordAheadOfLake if table.deployment.lake_format == "paimon" else LakeRolledBack


@BOTH_KINDS
def test_after_a_users_compaction_the_rounds_go_on(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = with_two_rounds(deployment, key)
    deployment.by_hand.rewrite(table.path)
    table.tiered()
    deployment.due()
    table.write({20: "before the round"})
    begun = deployment.begin(table.info).advance_to(act.CommitLake)
    deployment.by_hand.rewrite(table.path)  # in the middle of it
    assert begun.end().state is RoundState.SUCCEEDED
    table.check()
    assert_chain(deployment.lake_properties, table.path, deployment.lake_format)


@BOTH_KINDS
def test_after_ordinary_maintenance_the_rounds_go_on(deployment: Deployment, key: tuple[str, ...]) -> None:
    """The maintenance removes every snapshot between the newest tiering commit and the head."""
    table = with_two_rounds(deployment, key)
    for number in range(2):
        deployment.by_hand.maintain(table.path)
        table.tiered()
        table.write({30 + number: "behind the maintenance"})
    deployment.due()
    begun = deployment.begin(table.info).advance_to(act.CommitLake)
    deployment.by_hand.maintain(table.path)  # in the middle of a round
    assert begun.end().state is RoundState.SUCCEEDED
    table.check()


@BOTH_KINDS
def test_a_lake_that_was_rolled_back_is_named_and_retier_brings_the_rows_back(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = with_two_rounds(deployment, key)
    roll_back(table)
    parked(table, rolled_back(table))
    assert table.call("reconcile_lake", action="retier")["outcome"] == "reconciled"
    table.tiered()
    assert table.status()["error_class"] is None


def test_accept_after_a_roll_back_leaves_rows_out_and_says_how_many(deployment: Deployment) -> None:
    table = with_two_rounds(deployment, ())
    roll_back(table)
    parked(table, rolled_back(table))
    reconciled = table.call("reconcile_lake", action="accept")
    assert (reconciled["outcome"], reconciled["records_left_out"]) == ("reconciled", 6)
    assert table.tier().state is RoundState.SUCCEEDED
    assert sorted(table.lake_rows()["id"].to_pylist()) == [*range(6), *range(12, 18)]


@BOTH_KINDS
def test_a_lake_table_that_was_dropped_is_named_and_made_anew_by_retier(deployment: Deployment, key: tuple[str, ...]) -> None:
    table = with_two_rounds(deployment, key)
    deployment.by_hand.drop(table.path)
    parked(table, LakeTableReplaced)
    assert table.call("reconcile_lake", action="retier")["outcome"] == "reconciled"
    table.tiered()


@pytest.mark.needs(Lack.NAME_USED_AGAIN)
@BOTH_KINDS
def test_a_table_made_anew_under_its_name_is_not_taken_for_the_former_one(deployment: Deployment, key: tuple[str, ...]) -> None:
    former = with_two_rounds(deployment, key)
    rows_before = former.lake_rows().num_rows
    former.drop()
    table = deployment.make("orders", key=key)
    table.write({100: "of the new table"})
    parked(table, TableMismatch)
    assert former.lake_rows().num_rows == rows_before
    deployment.by_hand.drop(table.path)
    table.call("retry_tiering")
    table.tiered()


@BOTH_KINDS
def test_a_table_dropped_with_its_lake_table_begins_anew(deployment: Deployment, key: tuple[str, ...]) -> None:
    former = with_two_rounds(deployment, key)
    former.drop()
    deployment.by_hand.drop(former.path)
    table = deployment.make("orders", key=key)
    table.write({100: "of the new table", 101: None})
    table.tiered()


@pytest.mark.needs(Lack.NAME_USED_AGAIN)
def test_a_table_made_anew_in_the_middle_of_a_round_gets_none_of_its_rows(deployment: Deployment) -> None:
    former = deployment.make("orders")
    former.write(dict.fromkeys(range(6), "former"))
    deployment.due()
    begun = deployment.begin(former.info).advance_to(act.BeginCommit)
    former.drop()
    table = deployment.make("orders")
    table.write({100: "of the new table"})
    outcome = begun.end()
    assert outcome.state in (RoundState.FENCED, RoundState.FAILED)
    tick(deployment.coordinator)
    if deployment.lake.view(table.path) is not None:  # the former round made it, and left it without rows
        assert former.lake_rows().num_rows == 0
        deployment.by_hand.drop(table.path)
    table.tiered()
