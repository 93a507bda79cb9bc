"""The faults that the random stories beside Flink inject, a line each, and a whole story of one seed."""

from __future__ import annotations

from dataclasses import dataclass

from faults.many_seeds import SeedResult

from support.flink.random_story import RandomStory
from support.flink.reused_ids_lake import ReusedIdsLake
from support.lakes.clean_memory_lake import CleanMemoryLake
from support.lakes.shared_memory_lake import SharedMemoryLake
from support.worlds.faults import Fault

STEPS = 150


@dataclass(frozen=True)
class StoryKind:
    """What a story is told of."""

    lake: type[SharedMemoryLake]
    keyed: bool
    partitioned: bool = False
    before_images: bool = True

    def __str__(self) -> str:
        shape = "partitioned" if self.partitioned else "whole" if self.before_images else "WAL"
        return f"{self.lake.__name__}-{'primary-key' if self.keyed else 'log'}-{shape}"

    def story(self, seed: int) -> RandomStory:
        """At its begin."""
        return RandomStory(seed, **vars(self))


LAKES = (SharedMemoryLake, ReusedIdsLake, CleanMemoryLake)
KINDS = (
    *(StoryKind(lake, keyed) for lake in LAKES for keyed in (False, True)),
    *(StoryKind(lake, keyed, partitioned=True) for lake in LAKES for keyed in (False, True)),
    *(StoryKind(lake, keyed=True, before_images=False) for lake in LAKES),
)
"""Lakes with Iceberg's ids and with Paimon's, and clean tables; log and primary-key tables of each, the same with partitions, and
primary-key tables whose changelog has no before-images."""


def fault(name: str, description: str, handled_by: str, held_by: str) -> Fault:
    """A fault of the stories beside Flink. Where another harness has it, too, the name is the same."""
    return Fault(name, description, "beside Flink", handled_by, held_by)


TRACES = "tests/faults/beside_flink/test_traces.py::"
KEYED_TRACES = "tests/faults/beside_flink/test_primary_key_traces.py::"
MODEL = "tests/faults/model/test_beside_flink.py::test_each_rule_is_needed"
FAULTS = (
    fault(
        "flink-doubled",
        "Fluss takes an incarnation of Flink's committer for dead, which goes on beside the next one.",
        "RunningEnds: rows begin at the running end",
        TRACES + "test_2_two_incarnations_that_planned_the_same_are_named",
    ),
    fault(
        "flink-appends-late",
        "Flink appends what it planned before others committed.",
        "RunningEnds: an overlap of rows is named, keys are replayed",
        KEYED_TRACES + "test_8_keys_that_a_stale_round_set_back_or_doubled_are_replayed",
    ),
    fault(
        "flink-dies-untold",
        "Flink dies between its append and its word to Fluss.",
        "shared_base._with_telling: the next round commits, and tells it",
        TRACES + "test_11_one_that_died_before_it_told_fluss_is_told_for",
    ),
    fault(
        "flink-tells-twice",
        "Fluss's answer to Flink gets lost; Flink repeats its word, and with that deletes the live file of offsets.",
        "shared_base._with_telling: a record that cannot be read is made anew",
        TRACES + "test_9_a_deleted_file_of_offsets_is_made_anew",
    ),
    fault(
        "flink-tells-late",
        "Flink's word reaches Fluss after that of a newer snapshot, and sets its record back.",
        "shared_base.is_exact",
        TRACES + "test_12_a_stale_round_without_rows_moves_no_end_back",
    ),
    fault(
        "flink-tells-of-ours",
        "Flink's check tells Fluss of a snapshot of ours, with the file of offsets that stands in it.",
        "LakeRecord: the file in a snapshot is never the registered one",
        MODEL + "[two_files]",
    ),
    fault(
        "flink-compacts",
        "Flink replaces files behind its append, with the same commit user and offsets.",
        "added_rows: a replacement moves no end",
        "tests/lake/iceberg/test_foreign_snapshots.py::test_a_rewrite_adds_nothing",
    ),
    fault(
        "flink-begins-with-kv-snapshot",
        "Flink's first round of a bucket reads a KV snapshot, whose rows tell no offsets.",
        "RunningEnds._begin_anew: the bucket is replayed, or begins with a KV snapshot of ours, unless its end is stated",
        "tests/lake/rules/test_foreign_walk.py::test_the_whole_log_of_a_partition_is_replayed",
    ),
    fault(
        "flink-snapshot-expired",
        "A user expires the snapshot that Fluss knows, so that Flink's check fails each time.",
        "shared_base.is_exact",
        TRACES + "test_13_fluss_names_a_snapshot_again_after_its_own_expired",
    ),
    fault(
        "flink-lands-between-looks",
        "Flink appends between our look at Fluss's record and that at the lake.",
        "recorded_by_cluster: Fluss is read first",
        MODEL + "[cluster_first]",
    ),
    fault(
        "flink-lands-in-statement",
        "Flink appends while a user's reconcile_lake runs, before or behind its commit.",
        "Reconciler._read_again: its own commit alone has passed",
        MODEL + "[own_commit_passed]",
    ),
    fault(
        "turn-lost",
        "Fluss hears nothing from us for too long, and assigns the table to Flink while our round goes on.",
        "check_same_base behind the compare-and-set",
        KEYED_TRACES + "test_8b_the_replay_goes_on_if_another_stale_round_comes_first",
    ),
    fault(
        "record-request-lost",
        "Our word to Fluss gets lost.",
        "shared_base._with_telling: the next round tells it",
        TRACES + "test_a_word_to_fluss_that_gets_lost_is_repeated_by_the_next_round",
    ),
    fault(
        "record-answer-lost",
        "Fluss takes our word, and its answer gets lost.",
        "shared_base.is_exact: a record that is right is left as it is",
        TRACES + "test_an_answer_of_fluss_that_gets_lost_changes_nothing",
    ),
    fault(
        "commit-request-lost",
        "A commit request of ours never reaches the lake.",
        "resolve_commit: it is sent again",
        "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen[commit-request-lost]",
    ),
    fault(
        "commit-answer-lost",
        "A commit of ours lands in the lake and its answer gets lost.",
        "any error means unknown; the table is kept until it is known",
        MODEL + "[keeps_table]",
    ),
    fault(
        "commit-request-late",
        "A commit request of ours arrives when Flink, or the next round, had its turn.",
        "the round behind it commits in any case",
        MODEL + "[never_empty]",
    ),
    fault(
        "tierer-killed",
        "Our tierer dies; Fluss may assign the table to Flink unless a request is unresolved.",
        "the table is kept while a request is unresolved",
        MODEL + "[keeps_table]",
    ),
    fault(
        "tierer-asleep",
        "Our tierer sleeps beyond the service time-out, and goes on with its round beside the next one and Flink's.",
        "the fence and the compare-and-set",
        "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen[tierer-asleep]",
    ),
    fault(
        "coordinator-restarted",
        "Our coordinator ends between any two steps, and the next one has what is stored.",
        "ends and passed head are remembered together",
        MODEL + "[remembered]",
    ),
    fault(
        "lake-compacted",
        "Somebody rewrites the lake table's files among Flink's commits and ours.",
        "live rows decide nothing, added ones do",
        TRACES + "test_6_copies_that_a_compaction_put_into_one_file_are_deduplicated",
    ),
    fault(
        "lake-expired",
        "Somebody expires Flink's snapshots before or after we looked at them.",
        "a passed head is remembered with its ends",
        TRACES + "test_14_an_adopted_round_may_expire",
    ),
    fault(
        "lake-rolled-back",
        "Somebody rolls the lake table back behind commits of Flink's.",
        "RunningEnds: a gap is named",
        MODEL + "[gap]",
    ),
    fault(
        "partition-recreated",
        "Somebody drops a partition, and the next record creates another one of its name; the rows of the former one stay in the lake.",
        "former_rows.Partitions: partition ids, else commit times, tell whose rows they are",
        "tests/faults/beside_flink/test_recreated_partitions.py::test_commit_times_tell_them_apart_where_the_files_of_offsets_are_gone",
    ),
    fault(
        "flink-leaves-keys-twice",
        "The changelog has no before-images, so that Flink deletes no row that an update replaces.",
        "RunningEnds: a bucket that such a log updated is replayed",
        "tests/faults/beside_flink/test_wal_changelogs.py::test_keys_that_an_update_left_twice_are_replayed[system-columns]",
    ),
    fault(
        "log-cut",
        "Retention follows the highest offset that Fluss was ever told, by whomever.",
        "LogTruncated; retier begins a bucket anew with its KV snapshot",
        KEYED_TRACES + "test_8c_a_bucket_whose_replay_the_log_lost_begins_anew_with_its_kv_snapshot",
    ),
)
"""All that `run_seed` injects."""


def run_seed(seed: int) -> SeedResult:
    """A whole story, healed at its end; seeds take the kinds of tables in turn. Raises AssertionError if it breaks a promise."""
    story = KINDS[seed % len(KINDS)].story(seed)
    for _ in range(STEPS):
        story.step()
    story.heal()
    return SeedResult(story.chance.injected, story.trace())
