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
    """Kinds of tables of a story."""

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
        "Fluss times out an incarnation of Flink's committer, which continues beside its successor.",
        "RunningEnds: rows begin at the running end",
        TRACES + "test_2_two_incarnations_that_planned_the_same_are_named",
    ),
    fault(
        "flink-appends-late",
        "Flink appends rows that it planned before another commit.",
        "RunningEnds: an overlap of rows is reported, and keys are replayed",
        KEYED_TRACES + "test_8_keys_that_a_stale_round_set_back_or_doubled_are_replayed",
    ),
    fault(
        "flink-dies-untold",
        "Flink dies after its append, before it registers the snapshot with Fluss.",
        "shared_base._with_notification: the next round commits and registers it",
        TRACES + "test_11_one_that_died_before_it_told_fluss_is_told_for",
    ),
    fault(
        "flink-tells-twice",
        "Fluss's answer to Flink is lost. Flink registers its snapshot again, and so deletes the live offsets file.",
        "shared_base._with_notification: a record that cannot be read is written again",
        TRACES + "test_9_a_deleted_file_of_offsets_is_made_anew",
    ),
    fault(
        "flink-tells-late",
        "Flink registers a snapshot with Fluss after a newer one, and sets Fluss's record back.",
        "shared_base.is_exact",
        TRACES + "test_12_a_stale_round_without_rows_moves_no_end_back",
    ),
    fault(
        "flink-tells-of-ours",
        "Flink's check registers a snapshot of Lakeward's with Fluss, with the offsets file that the snapshot names.",
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
        "Flink's first round of a bucket reads a KV snapshot, whose rows have no offsets.",
        "RunningEnds._begin_anew: the bucket is replayed, or begins with a KV snapshot of Lakeward's, unless its end is stated",
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
        "Flink appends after Lakeward read Fluss's record, and before it reads the lake.",
        "recorded_by_cluster: Fluss is read first",
        MODEL + "[cluster_first]",
    ),
    fault(
        "flink-lands-in-statement",
        "Flink appends while a user's reconcile_lake runs, before or after its commit.",
        "Reconciler._read_again: its own commit alone has passed",
        MODEL + "[own_commit_passed]",
    ),
    fault(
        "turn-lost",
        "Fluss gets no heartbeat of Lakeward in time, and assigns the table to Flink while Lakeward's round continues.",
        "check_same_base after the compare-and-set",
        KEYED_TRACES + "test_8b_the_replay_goes_on_if_another_stale_round_comes_first",
    ),
    fault(
        "record-request-lost",
        "Lakeward's registration of a snapshot with Fluss is lost.",
        "shared_base._with_notification: the next round registers it",
        TRACES + "test_a_word_to_fluss_that_gets_lost_is_repeated_by_the_next_round",
    ),
    fault(
        "record-answer-lost",
        "Fluss records Lakeward's snapshot, and its answer is lost.",
        "shared_base.is_exact: a correct record is not changed",
        TRACES + "test_an_answer_of_fluss_that_gets_lost_changes_nothing",
    ),
    fault(
        "commit-request-lost",
        "A commit request of Lakeward's never reaches the lake.",
        "resolve_commit: it is sent again",
        "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen[commit-request-lost]",
    ),
    fault(
        "commit-answer-lost",
        "A commit of Lakeward's lands in the lake, and its answer is lost.",
        "after any error the outcome is unknown, and the table is kept until it is known",
        MODEL + "[keeps_table]",
    ),
    fault(
        "commit-request-late",
        "A commit request of Lakeward's arrives after the turn of Flink or of the next round.",
        "the next round commits in any case",
        MODEL + "[never_empty]",
    ),
    fault(
        "tierer-killed",
        "Lakeward's tierer dies. Fluss may assign the table to Flink unless a request is unresolved.",
        "the table is kept while a request is unresolved",
        MODEL + "[keeps_table]",
    ),
    fault(
        "tierer-asleep",
        "Lakeward's tierer is suspended beyond the service timeout, and then continues its round beside the next one and Flink's.",
        "the fence and the compare-and-set",
        "tests/faults/simulated/test_weakened_deployments.py::test_a_fault_that_nothing_handles_is_seen[tierer-asleep]",
    ),
    fault(
        "coordinator-restarted",
        "Lakeward's coordinator ends between any two steps, and the next one continues from the store.",
        "ends and passed head are remembered together",
        MODEL + "[remembered]",
    ),
    fault(
        "lake-compacted",
        "Another tool rewrites the lake table's files between commits of Flink and of Lakeward.",
        "only added rows decide, and live rows do not",
        TRACES + "test_6_copies_that_a_compaction_put_into_one_file_are_deduplicated",
    ),
    fault(
        "lake-expired",
        "A user expires Flink's snapshots before or after Lakeward checked them.",
        "a passed head is remembered with its ends",
        TRACES + "test_14_an_adopted_round_may_expire",
    ),
    fault(
        "lake-rolled-back",
        "A user rolls the lake table back to a snapshot before Flink's commits.",
        "RunningEnds: a gap is reported",
        MODEL + "[gap]",
    ),
    fault(
        "partition-recreated",
        "A user drops a partition, and the next record creates another one of its name. The rows of the former one stay in the lake.",
        "former_rows.Partitions: partition ids, or else commit times, tell the rows of the two apart",
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
        "Retention follows the highest offset that was ever registered with Fluss.",
        "LogTruncated; retier fills a bucket from its KV snapshot",
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
