"""Lakeward beside Flink's tiering, whose commits nothing fences: the stories that simpler rules did not survive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.flink.beside_flink import B0, BesideFlink, appended
from support.flink.flink_committer import FlinkFailed
from tiering.errors import CannotReconcile, ClusterUnavailable
from tiering.lake.maintenance import LakeSurvey
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot, RoundState
from tiering.model.tables import TablePath
from tiering.round.steps import actions as act


def at_fifty() -> BesideFlink:
    """The lake is at 50, by a round of ours."""
    world = BesideFlink()
    world.succeed()
    return world


def test_2_two_incarnations_that_planned_the_same_are_named() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    first, second = world.flink().plan().check(), world.flink().plan().check()
    first.prepare().append().tell()
    second.prepare().append().tell()
    assert world.refuse() == "ForeignTieringOverlap"


def test_3_rows_behind_a_roll_back_are_a_gap() -> None:
    world = at_fifty()
    ours = world.newest
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.cluster.write(0, *appended(20))
    late = world.flink().plan().check().prepare()
    world.lake.roll_back(ours)
    late.append()
    assert world.refuse() == "ForeignTieringGap"
    assert world.record.lake.offsets == {"0": 50}


def test_11_healthy_rounds_of_the_other_are_adopted() -> None:
    world = at_fifty()
    for _ in range(2):
        world.cluster.write(0, *appended(25))
        world.flink().whole()
    assert world.succeed().state is RoundState.EMPTY
    assert world.record.lake.offsets == {"0": 100}
    world.quiet()


def test_11_one_that_died_before_it_told_fluss_is_told_for() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.flink().plan().check().prepare().append()
    assert world.succeed().state is RoundState.SUCCEEDED
    world.assert_whole()
    world.quiet()


def test_4_a_table_whose_request_is_in_flight_is_kept_and_the_next_commit_kills_it() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.lake.faults = lambda: "late"
    outcome = world.tier()
    assert outcome.state is RoundState.FAILED
    assert world.record.unresolved_commit
    world.lake.faults = lambda: "ok"
    assert world.succeed().state is RoundState.SUCCEEDED
    assert not world.record.unresolved_commit
    world.lake.deliver_late()
    world.quiet()


def test_4_without_rows_to_tier_an_empty_snapshot_kills_it() -> None:
    """The one in flight may as well be an empty one: its compare-and-set is what ends it, not its rows."""
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    assignment, runner = world.begin()
    while not isinstance(runner.next_action, act.CommitLake):
        runner.advance()
    world.lake.faults = lambda: "late"
    assert world.end(assignment, runner).state is RoundState.FAILED
    world.lake.faults = lambda: "ok"
    world.lake.deliver_late()
    assert world.record.unresolved_commit
    assert world.succeed().state is not RoundState.FAILED
    assert not world.record.unresolved_commit
    world.quiet()


def test_4_what_landed_is_not_told_out_of_turn() -> None:
    """One that planned before would pass its check then; as it is, that check sees that Fluss lacks a snapshot."""
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    assignment, runner = world.begin()
    while not isinstance(runner.next_action, act.Ack):
        runner.advance()
    planned_before, before = world.flink().plan(), world.fluss_record
    records, options = world.coordinator.table_records, world.coordinator.table_records.options
    records.options = replace(options, assigned_by_cluster=True)  # no tierer has it assigned
    world.end(assignment, runner)
    assert world.fluss_record == before
    records.options = options
    with pytest.raises(FlinkFailed, match="Fluss lacked the snapshot"):
        planned_before.check()
    world.succeed()
    world.quiet()


def test_a_word_to_fluss_that_gets_lost_is_repeated_by_the_next_round() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.cluster.before_rewind = gets_lost
    world.tier()
    world.cluster.before_rewind = lambda: None
    assert world.fluss_record != RecordedLakeSnapshot(world.newest, {B0: 100})
    world.succeed()
    world.assert_whole()
    world.quiet()


def gets_lost() -> None:
    raise ClusterUnavailable("the request got lost")


def test_an_answer_of_fluss_that_gets_lost_changes_nothing() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    register = world.cluster.register

    def tells(snapshot_id: int, path: str, keep: int | None = None) -> None:
        register(snapshot_id, path, keep)
        raise ClusterUnavailable("the answer got lost")

    world.cluster.register = tells  # type: ignore[method-assign]
    world.tier()
    world.cluster.register = register  # type: ignore[method-assign]
    snapshots = len(world.lake.table.snapshots)
    assert world.succeed().state is RoundState.EMPTY
    assert len(world.lake.table.snapshots) == snapshots
    world.quiet()


def test_9_a_deleted_file_of_offsets_is_made_anew() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    first = world.flink().plan().check().prepare().append()
    world.cluster.register(world.newest, first.path, keep=-1)  # a second one's check
    first.tell()
    assert world.cluster.files.get(first.path) is None
    assert world.succeed().state is RoundState.SUCCEEDED
    world.quiet()


def test_10_what_fluss_is_told_of_our_snapshot_stands_in_no_other_record() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    assignment, runner = world.begin()
    while not isinstance(runner.next_action, act.Ack):
        runner.advance()
    ours = world.newest
    world.cluster.register(ours, world.lake.offsets_path[ours], keep=-1)  # one's check
    world.cluster.write(0, *appended(20))
    world.flink().whole()  # another one deletes that file
    assert world.end(assignment, runner).error is None
    world.succeed()
    world.quiet()


def test_11_between_our_two_reads_it_may_land() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    look = world.lake.view

    def view(path: object) -> object:
        world.lake.view = look  # type: ignore[method-assign]
        world.flink().whole()
        return look(path)  # type: ignore[arg-type]

    world.lake.view = view  # type: ignore[assignment,method-assign]
    world.succeed()
    world.quiet()


def test_11_rounds_of_offsets_without_rows_are_adopted() -> None:
    world = at_fifty()
    world.cluster.write(0, *[None] * 10)
    world.flink().whole()
    assert world.succeed().state is RoundState.EMPTY
    world.cluster.write(0, *[None] * 5, *appended(5))
    world.flink().whole()
    assert world.record.lake.offsets == {"0": 60}
    world.quiet()


def test_11_its_compaction_moves_nothing() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.flink().plan().check().prepare().append().compact().tell()
    assert world.succeed().state is RoundState.EMPTY
    world.quiet()


def test_11_it_recovers_a_snapshot_of_ours_that_was_not_told() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    assignment, runner = world.begin()
    while not isinstance(runner.next_action, act.Ack):
        runner.advance()
    ours = world.newest
    world.cluster.register(ours, world.lake.offsets_path[ours], keep=-1)
    assert world.end(assignment, runner).error is None
    world.quiet()


def test_12_a_stale_round_without_rows_moves_no_end_back() -> None:
    world = at_fifty()
    world.cluster.write(0, *[None] * 30, *appended(40))
    stale = world.flink().plan(80).check().prepare()
    world.flink().whole()
    stale.append().tell()
    assert world.fluss_record == RecordedLakeSnapshot(world.newest, {B0: 80})
    assert world.succeed().state is RoundState.SUCCEEDED
    assert world.record.lake.offsets == {"0": 120}
    world.quiet()


def test_13_fluss_names_a_snapshot_again_after_its_own_expired() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.succeed()
    world.lake.foreign_commit(world.info.path)
    world.lake.expire_all_but_head()
    assert world.fluss_record is not None
    assert world.fluss_record.lake_snapshot_id not in world.lake.table.snapshots
    assert world.succeed().state is RoundState.SUCCEEDED
    world.quiet()


def test_14_an_adopted_round_may_expire() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    assert world.succeed().state is RoundState.EMPTY
    world.lake.foreign_commit(world.info.path)
    world.lake.expire_all_but_head()
    world.cluster.write(0, *appended(10))
    world.succeed()
    world.quiet()


def test_a_passed_head_that_is_gone_from_the_branch_is_a_roll_back() -> None:
    world = at_fifty()
    ours = world.newest
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.succeed()
    world.lake.roll_back(ours)
    assert world.refuse() == "LakeRolledBack"


def test_a_record_that_is_ahead_is_an_error_only_where_the_log_shows_rows() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    path = world.cluster.prepare({B0: 100})
    world.cluster.register(world.newest, path, keep=-1)
    assert world.refuse() == "RecordAheadOfLake"


def test_a_table_that_only_the_other_tiered_is_taken_over_at_once() -> None:
    world = BesideFlink()
    world.lake.ensure_table(world.info)
    world.flink().whole()
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.succeed()
    world.quiet()


def doubled() -> BesideFlink:
    """Flink planned [50, 100) and slept, we tiered and told that, Flink appended."""
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    late = world.flink().plan().check().prepare()
    world.succeed()
    late.append().tell()
    return world


def test_1_rows_of_a_round_that_slept_are_named_and_deduplicated() -> None:
    world = doubled()
    assert max(world.lake.row_counts().values()) == 2
    assert world.refuse() == "ForeignTieringOverlap"
    assert world.record.error is not None
    assert "[50, 100)" in world.record.error.message
    done = world.reconcile("deduplicate")
    assert (done.outcome, done.records_removed) == ("reconciled", 50)
    world.quiet()


def test_2_both_copies_of_two_incarnations_are_deduplicated() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    first, second = world.flink().plan().check(), world.flink().plan().check()
    first.prepare().append().tell()
    second.prepare().append().tell()
    assert world.refuse() == "ForeignTieringOverlap"
    world.reconcile("deduplicate")
    world.quiet()


def test_3_retier_removes_what_is_behind_the_gap() -> None:
    world = at_fifty()
    ours = world.newest
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.cluster.write(0, *appended(20))
    late = world.flink().plan().check().prepare()
    world.lake.roll_back(ours)
    late.append()
    assert world.refuse() == "ForeignTieringGap"
    with pytest.raises(CannotReconcile, match="lacks the offsets 50 to 99"):
        world.reconcile("deduplicate")
    done = world.reconcile("retier")
    assert (done.records_removed, dict(done.offsets)) == (20, {"0": 50})
    world.quiet()


def test_3_a_gap_that_the_log_lost_is_refused() -> None:
    world = at_fifty()
    ours = world.newest
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.cluster.write(0, *appended(20))
    late = world.flink().plan().check().prepare()
    world.lake.roll_back(ours)
    late.append()
    world.cluster.cut(0, 80)
    assert world.refuse() == "ForeignTieringGap"
    with pytest.raises(CannotReconcile, match="the records 50 to 79 are in neither"):
        world.reconcile("retier")


def test_5_the_marker_goes_behind_the_last_row_whatever_fluss_says() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(70))
    stale = world.flink().plan(80).check().prepare()
    world.flink().whole()
    stale.append().tell()
    assert world.fluss_record == RecordedLakeSnapshot(world.newest, {B0: 80})
    assert world.refuse() == "ForeignTieringOverlap"
    done = world.reconcile("deduplicate")
    assert dict(done.offsets) == {"0": 120}
    assert world.fluss_record == RecordedLakeSnapshot(world.newest, {B0: 120})
    world.quiet()


@pytest.mark.parametrize("by", ["a user", "flink"])
def test_6_copies_that_a_compaction_put_into_one_file_are_deduplicated(by: str) -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    late = world.flink().plan().check().prepare()
    world.succeed()
    late.append()
    if by == "flink":
        late.compact()
    else:
        world.lake.foreign_commit(world.info.path)
    late.tell()
    assert world.refuse() == "ForeignTieringOverlap"
    world.reconcile("deduplicate")
    world.quiet()


def test_7_a_healthy_round_after_it_is_no_second_overlap() -> None:
    world = doubled()
    assert world.refuse() == "ForeignTieringOverlap"
    world.reconcile("deduplicate")
    world.cluster.write(0, *appended(30))
    world.flink().whole()
    world.quiet()


def test_one_past_its_check_doubles_once_more_and_is_named_again() -> None:
    world = doubled()
    world.cluster.write(0, *appended(30))
    assert world.refuse() == "ForeignTieringOverlap"
    later = world.flink().plan().check().prepare()
    world.reconcile("deduplicate")
    world.succeed()
    later.append().tell()
    assert world.refuse() == "ForeignTieringOverlap"
    world.reconcile("deduplicate")
    world.quiet()


@pytest.mark.parametrize("stop", [100, 130], ids=["doubles rows", "adds and doubles rows"])
def test_one_that_lands_behind_a_statement_before_that_looks_again_is_named(stop: int) -> None:
    """A snapshot behind the statement's own snapshot has passed no check."""
    world = doubled()
    world.cluster.write(0, *appended(30))
    assert world.refuse() == "ForeignTieringOverlap"
    later = world.flink().plan(stop).check().prepare()
    later.starts = {B0: 50}
    survey, looks = world.lake.survey, iter((None, later.append))

    def surveyed(path: TablePath) -> LakeSurvey | None:
        if (lands := next(looks)) is not None:
            lands()
        return survey(path)

    world.lake.survey = surveyed  # type: ignore[method-assign]
    world.reconcile("deduplicate")
    world.lake.survey = survey  # type: ignore[method-assign]
    later.tell()
    assert world.refuse() == "ForeignTieringOverlap"
    world.reconcile("deduplicate")
    world.quiet()


def test_15_offsets_without_rows_that_no_reader_can_check_are_accepted() -> None:
    world = at_fifty()
    world.cluster.write(0, *[None] * 10)
    flink = world.flink().whole()
    world.cluster.cut(0, 60)
    world.cluster.register(world.newest, flink.path)  # told again: the live file goes
    assert world.refuse() == "LogTruncated"
    done = world.reconcile("accept")
    assert (done.records_left_out, dict(done.offsets)) == (10, {"0": 60})
    world.cluster.write(0, *appended(10))
    world.quiet()


def test_16_accept_refuses_rows_that_were_doubled_meanwhile() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    late = world.flink().plan().check().prepare()
    world.succeed()
    world.cluster.write(0, *[None] * 10)
    flink = world.flink().whole()
    world.cluster.cut(0, 110)
    world.cluster.register(world.newest, flink.path)
    assert world.refuse() == "LogTruncated"
    late.append()
    with pytest.raises(CannotReconcile, match="twice") as refusal:
        world.reconcile("accept")
    assert "'deduplicate'" in refusal.value.hint
    world.reconcile("deduplicate")
    assert world.refuse() == "LogTruncated"
    world.reconcile("accept")
    world.quiet()


def test_history_that_expired_is_told_by_the_rows() -> None:
    world = at_fifty()
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    world.lake.foreign_commit(world.info.path)
    world.lake.expire_all_but_head()
    assert world.refuse() == "HistoryExpired"
    done = world.reconcile("deduplicate")
    assert (done.records_removed, dict(done.offsets)) == (0, {"0": 100})
    world.quiet()


def test_a_table_whose_snapshots_expired_before_the_first_look_is_judged_by_its_rows() -> None:
    world = BesideFlink()
    world.lake.ensure_table(world.info)
    first, second = world.flink().plan().check(), world.flink().plan().check()
    first.prepare().append().tell()
    second.prepare().append().tell()
    world.lake.foreign_commit(world.info.path)
    world.flink().whole()
    world.lake.expire_all_but_head()
    assert world.refuse() == "ForeignTiering"
    with pytest.raises(CannotReconcile, match="twice"):
        world.reconcile("adopt")
    assert world.reconcile("deduplicate").records_removed == 50
    world.quiet()


def test_a_cluster_that_is_not_shared_refuses_what_another_service_wrote() -> None:
    world = at_fifty()
    world.cluster.service_mode = ServiceMode.EXCLUSIVE
    world.cluster.write(0, *appended(50))
    world.flink().whole()
    assert world.refuse() == "ForeignTiering"
    with pytest.raises(CannotReconcile, match="no other tiering service"):
        world.reconcile("deduplicate")
