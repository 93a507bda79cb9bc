"""The faults that a simulated deployment of several tables meets, a line each."""

from __future__ import annotations

from collections.abc import Collection
from unittest.mock import patch

from support.simulated.story import SimulatedStory
from support.worlds.faults import Fault

STEPS = 200
WEAKENED = "tests/faults/simulated/test_weakened_deployments.py"


def fault(name: str, description: str, handled_by: str) -> Fault:
    """One that `test_weakened_deployments` holds."""
    return Fault(name, description, "simulator", handled_by, f"{WEAKENED}[{name}]")


DEPLOYMENT_FAULTS = (
    fault("request-repeated", "A request arrives twice.", "grants, plans and reports that are repeated change nothing"),
    fault("answer-lost", "A request has its effect, and its answer gets lost.", "Heartbeats._hand_over: the table is handed over again"),
    fault("tierer-asleep", "Tierers are suspended beyond the service timeout, and go on with their rounds.", "the fence: is_current"),
    fault("tierer-doubled", "A second process is started under a name that is in use.", "incarnations: one process a round"),
    fault("tierer-older", "A tierer of a version without incarnations works beside others.", "incarnations that are None fit any"),
    fault("coordinator-killed", "The coordinator dies before or after a write, without a word.", "every change is in the store first"),
    fault("coordinator-doubled", "A second coordinator takes the store over, and the former goes on answering.", "the coordinator epoch"),
    fault("store-write-failed", "A write to the store fails before its effect: its disk is full.", "nothing is shown that is not stored"),
    fault("store-answer-lost", "The store fails after it wrote (fsync), or its answer gets lost.", "records are loaded again"),
    fault("cluster-unreachable", "The cluster does not answer.", "ClusterUnavailable is retried with a back-off"),
    fault("record-answer-lost", "The cluster records a lake snapshot, and its answer gets lost.", "a repeated ack is harmless"),
    fault("cluster-record-lost", "The cluster forgets what it recorded of the lake.", "base_read acks what the lake has more"),
    fault("ends-stale", "The cluster tells of a log's end as it was some time ago.", "log_looks: bad news are believed at the last look"),
    fault("bucket-without-ends", "The cluster says nothing of one of a table's buckets.", "plan_splits._check_all_told"),
    fault("log-cut", "Retention removes records that were not tiered yet.", "check_log.check_reachable, reconcile_lake('accept')"),
    fault("log-rewritten", "The cluster loses its newest records, and writes others at their offsets.", "check_log.check_same_log"),
    fault("kv-snapshot-superseded", "A KV snapshot is deleted before it is read.", "snapshots_leased plans again"),
    fault("lease-expired", "A lease on KV snapshots lapses while its tierer is silent.", "LeaseKeeper.renew acquires again"),
    fault("lease-dropped", "An operator drops a lease under its tierer.", "KvSnapshotGone is retried"),
    fault("table-dropped", "A source table is dropped under its round.", "table_lifecycle.drop: its commit is refused"),
    fault("table-recreated", "Another source table comes under the name of a dropped one.", "base_check._check_identity"),
    fault("table-untierable", "A source table gets a column that no lake holds.", "steps_to_write.table_read refuses it"),
    fault("column-added", "A source table changes while its round fails for good.", "table_lifecycle.redefine, _is_outdated"),
    fault("lake-switched", "A table's lake is disabled and enabled again under its round.", "epochs go on from the removed record"),
    fault("partition-dropped", "A partition is dropped under a round.", "KnownLake.living: vanished buckets are left out"),
    fault("partition-remade", "A partition is made anew under its former name.", "buckets are known by partition id"),
    fault(
        "lake-unreachable",
        "The lake's catalog does not answer, at times after it did its work.",
        "LakeUnavailable is retried with a back-off",
    ),
    fault("lake-disk-full", "The lake's storage takes no more bytes.", "_SplitWork.abort: a failed split leaves no file"),
    fault("library-panic", "A library raises what is no Exception while it reads, writes or commits.", "RoundRunner._carry_out"),
    fault("lake-compacted", "A user rewrites the lake table's files between a round's base and its commit.", "check_same_base, once more"),
    fault("lake-expired", "A user expires the parents of head and marker.", "history.expired, passed heads"),
    fault("lake-rolled-back", "A user rolls the lake table back.", "history.check_history"),
    fault("lake-untagged", "A user removes the tag that names the newest tiering commit.", "base_check._check_untiered"),
    fault("lake-table-dropped", "A user drops the lake table.", "base_check._check_absent"),
    fault("call-repeated", "A CALL is repeated with its key, for its answer got lost.", "IdempotentOperations.once"),
)


def run_story(
    seed: int, steps: int = STEPS, only: Collection[str] | None = None, unexpected: Collection[str] = (), *, knows_processes: bool = False
) -> SimulatedStory:
    """A whole story, healed at its end; `only` these faults. Raises AssertionError if it breaks a promise, or `unexpected` comes up."""
    with patch("tiering.planning.plan_splits.SPLIT_BYTES", 24), patch("tiering.round.runner.REREAD_SECONDS", 0):
        story = SimulatedStory(seed, only)
        story.world.invariants.knows_processes = knows_processes
        with patch("tiering.round.tasks.split_work.RandomIds", lambda: story.world.ids):
            story.run(steps, unexpected)
    return story
