"""The faults that a simulated deployment of several tables meets, a line each."""

from __future__ import annotations

from collections.abc import Collection
from unittest.mock import patch

from support.simulated.story import SimulatedStory
from support.worlds.faults import Fault

STEPS = 200
SIMULATED = "simulator"
WEAKENED = "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen"


def fault(name: str, description: str, handled_by: str, held_by: str | None = None, *, variant_of: str | None = None) -> Fault:
    """One that the weakened deployments hold, unless another test does."""
    return Fault(name, description, SIMULATED, handled_by, held_by or f"{WEAKENED}[{name}]", variant_of=variant_of)


HEARTBEATS = "tests/coordinator/tierers/test_heartbeats.py::"
LEASED_ROUNDS = "tests/round/test_rounds_with_leases.py::"
DEPLOYMENT_FAULTS = (
    fault("request-lost", "A request to the coordinator is lost.", "ServiceUnreachable is retried; reports are repeated"),
    fault(
        "request-late",
        "A request arrives after later ones, sometimes from a process that has ended.",
        "TiererRegistry.meet: an overtaken heartbeat gets no table",
        HEARTBEATS + "test_an_overtaken_heartbeat_still_reports_but_gets_no_table",
    ),
    fault("request-repeated", "A request arrives twice.", "grants, plans and reports that are repeated change nothing"),
    fault("answer-lost", "A request has its effect, and its answer is lost.", "round_lifecycle.grant: a repeat is granted again"),
    fault("commit-request-lost", "A commit request never reaches the lake.", "resolve_commit: it is sent again"),
    fault(
        "commit-answer-lost",
        "A commit lands in the lake, and its answer is lost.",
        "after any error the outcome is unknown, and nothing is deleted",
    ),
    fault(
        "commit-request-late",
        "A commit request arrives late, after other events.",
        "the compare-and-set",
        "tests/lake/paimon/test_commits.py::test_a_commit_that_wakes_up_after_its_successors_expired_is_no_part_of_the_table",
    ),
    fault("tierer-killed", "A tierer dies, and another one takes its place, sometimes under its name.", "round_lifecycle.expire"),
    fault("tierer-fenced", "An operator fences a tierer that continues to run.", "Heartbeats._is_fenced"),
    fault(
        "tierer-asleep",
        "Tierers are suspended beyond the service timeout, and then continue their rounds.",
        "round_lifecycle.is_current: the fence, and the compare-and-set",
    ),
    fault("round-cancelled", "An operator cancels the round that runs.", "round_lifecycle.grant refuses it"),
    fault(
        "coordinator-restarted",
        "The coordinator ends, and another one takes the store over.",
        "TableRecords: a record is stored before it is visible",
        variant_of="coordinator-killed",
    ),
    fault("clock-ahead", "The wall clock is set years ahead.", "Timebase: deadlines are steady times"),
    fault("clock-back", "The wall clock is set back.", "Timebase: deadlines are steady times"),
    fault("lake-table-renamed", "A user renames the lake table.", "base_check._check_absent"),
    fault("tierer-doubled", "A second process is started under a name that is in use.", "incarnations: a round has one process"),
    fault(
        "tierer-older",
        "A tierer of a version without incarnations works beside other tierers.",
        "an incarnation of None matches every incarnation",
    ),
    fault("coordinator-killed", "The coordinator dies before or after a write.", "every change is in the store first"),
    fault(
        "coordinator-doubled",
        "A second coordinator takes the store over, and the former one continues to answer.",
        "the coordinator epoch",
        "tests/coordinator/memory/test_stores.py::test_every_take_over_makes_a_greater_epoch_and_fences_the_former",
    ),
    fault(
        "store-write-failed",
        "A write to the store fails before its effect: its disk is full.",
        "a change is visible only after it is stored",
    ),
    fault("store-answer-lost", "The store fails after it wrote (fsync), or its answer is lost.", "records are loaded again"),
    fault("cluster-unreachable", "The cluster does not answer.", "ClusterUnavailable is retried with a back-off"),
    fault("record-answer-lost", "The cluster records a lake snapshot, and its answer is lost.", "a repeated ack is harmless"),
    fault("cluster-record-lost", "The cluster loses its record of the lake.", "base_read acknowledges what the lake has more"),
    fault(
        "ends-stale", "The cluster answers with a stale end of a log.", "log_rereads: an error of the log counts only at the last reading"
    ),
    fault("bucket-without-ends", "The cluster's answer lacks one of a table's buckets.", "plan_splits._check_all_told"),
    fault("log-cut", "Retention removes records that were not tiered yet.", "check_log.check_gaps, reconcile_lake('accept')"),
    fault("log-rewritten", "The cluster loses its newest records, and writes others at their offsets.", "check_log.check_same_log"),
    fault(
        "kv-snapshot-superseded",
        "A KV snapshot is deleted before it is leased.",
        "snapshots_leased plans again",
        "tests/round/steps/test_steps_primary_key.py::test_a_snapshot_that_was_superseded_before_its_lease_is_planned_anew_a_few_times",
    ),
    fault(
        "lease-expired",
        "A lease on KV snapshots expires while its tierer is silent.",
        "RoundRunner.lose_snapshots",
        LEASED_ROUNDS + "test_a_snapshot_that_is_lost_before_it_was_read_fails_the_round",
    ),
    fault(
        "lease-dropped",
        "An operator drops a lease under its tierer.",
        "LeaseKeeper.acquire names all leased snapshots again",
        "tests/round/test_lease_keeper.py::test_a_lease_of_more_snapshots_names_those_already_leased",
    ),
    fault("table-dropped", "A source table is dropped under its round.", "table_lifecycle.drop: its commit is refused"),
    fault("table-recreated", "Another source table is created under the name of a dropped one.", "base_check._check_identity"),
    fault("table-untierable", "A source table gets a column of a type that no lake holds.", "steps_to_write.table_read refuses it"),
    fault("column-added", "A source table changes while its round fails for good.", "table_lifecycle.redefine, _is_outdated"),
    fault("lake-switched", "A table's lake is disabled and enabled again under its round.", "epochs continue from the removed record"),
    fault("partition-dropped", "A partition is dropped under a round.", "ExpectedLake.living: vanished buckets are left out"),
    fault(
        "partition-remade",
        "A partition is recreated under its former name, whose rows stay in the lake.",
        "plan_splits.replaced_buckets, reconcile._check_own_partitions",
    ),
    fault(
        "partitions-alike",
        "Two partitions have names that are equal but for case.",
        "RowOffsets: names of places are case-sensitive",
        "tests/coordinator/calls/test_reconcile_partitions.py::test_partitions_whose_names_are_equal_but_for_case_are_told_apart",
    ),
    fault(
        "lake-unreachable",
        "The lake's catalog does not answer, at times after it did its work.",
        "LakeUnavailable is retried with a back-off",
    ),
    fault("lake-disk-full", "The lake's storage is full.", "_SplitWork.abort: a failed split leaves no file"),
    fault(
        "library-panic",
        "A library raises a BaseException that is no Exception while it reads, writes or commits.",
        "RoundRunner._carry_out",
    ),
    fault("lake-compacted", "A user rewrites the lake table's files between a round's base and its commit.", "check_same_base, repeated"),
    fault(
        "rewrite-overtaken",
        "The files that a round rewrote are replaced before its commit.",
        "fitting_rewrites: the rewrite is left out",
        "tests/lake/iceberg/test_upkeep_rounds.py::test_files_that_another_tool_rewrote_meanwhile_are_left_alone",
    ),
    fault(
        "upkeep-gives-way",
        "A table that is due finds no slot, because an upkeep round has it.",
        "rounds.give_way, until the commit is granted",
        "tests/coordinator/tierers/test_upkeep_rounds.py::test_a_due_table_that_finds_no_free_slot_gets_that_of_an_upkeep_round",
    ),
    fault("lake-expired", "A user expires the parents of head and marker.", "history.expired, passed heads"),
    fault("lake-rolled-back", "A user rolls the lake table back.", "check_history"),
    fault("lake-untagged", "A user removes the tag that names the newest tiering commit.", "base_check._check_untiered"),
    fault("lake-table-dropped", "A user drops the lake table.", "base_check._check_absent"),
    fault("record-refused", "The rows of a bucket cannot take a record of its log, so the bucket stops there.", "CALL sys.skip_record"),
    fault("call-repeated", "A CALL is repeated with its key, because its answer was lost.", "IdempotentOperations.once"),
)


def run_story(
    seed: int,
    steps: int = STEPS,
    only: Collection[str] | None = None,
    unexpected: Collection[str] = (),
    *,
    knows_processes: bool = False,
    has_every_call: bool = True,
    short_leases: bool = True,
) -> SimulatedStory:
    """A whole story, healed at its end; `only` these faults. Raises AssertionError if it breaks a promise, or `unexpected` comes up."""
    with patch("tiering.planning.plan_splits.SPLIT_BYTES", 24), patch("tiering.round.runner.REREAD_SECONDS", 0):
        story = SimulatedStory(seed, only, has_every_call=has_every_call, short_leases=short_leases)
        story.world.invariants.knows_processes = knows_processes
        with patch("tiering.round.tasks.split_work.RandomIds", lambda: story.world.ids):
            story.run(steps, unexpected)
    return story
