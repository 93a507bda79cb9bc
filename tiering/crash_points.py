"""Named places at which a test can kill or stop the process (DESIGN 12).

One environment variable activates a point. `LAKEWARD_CRASH_POINT=name` kills the process with SIGKILL when it reaches the point, `name@3`
when it reaches the point for the third time. `name:stop` stops the process with SIGSTOP until a SIGCONT. Without the variable, a point
costs one dictionary look-up.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading

VARIABLE = "LAKEWARD_CRASH_POINT"

IN_SPLIT = "in_split"
AFTER_FILES = "after_files"
BEFORE_FENCE = "before_fence"
AFTER_FENCE = "after_fence"
AFTER_LAKE_COMMIT = "after_lake_commit"
AFTER_ACK = "after_ack"
IN_ROUND = (IN_SPLIT, AFTER_FILES, BEFORE_FENCE, AFTER_FENCE, AFTER_LAKE_COMMIT, AFTER_ACK)
"""The points of a round, in its order. IN_SPLIT is where the split runs: in the tierer, or in an executor's Python worker."""

AFTER_DEAD_LETTERS = "after_dead_letters"
"""A round has appended its dead letters to their table, and has not sent its commit."""

UPKEEP_PLANNED = "upkeep_planned"
IN_REWRITE = "in_rewrite"
AFTER_REWRITES = "after_rewrites"
IN_UPKEEP = (UPKEEP_PLANNED, IN_REWRITE, AFTER_REWRITES, BEFORE_FENCE, AFTER_FENCE, AFTER_LAKE_COMMIT, AFTER_ACK)
"""The points of an upkeep round, in its order.

IN_REWRITE is between two batches of rows, where the rewrite runs. AFTER_REWRITES is when all new files are written, before the request for
the fence.
"""

BEFORE_COMPACTION = "before_compaction"
"""After the commit of a round to a Paimon table, before its second snapshot, which has the files that the round merged."""

MERGING = "merging"
MERGED = "merged"
SNAPSHOT_EXPIRING = "snapshot_expiring"
OLD_METADATA_DELETING = "old_metadata_deleting"
BESIDE_TIERING = (MERGING, MERGED, SNAPSHOT_EXPIRING, OLD_METADATA_DELETING)
"""The points of the upkeep in a tiering round.

MERGING: the round has copied a part of the files that it merges. MERGED: the merged files are written, and no snapshot names them.
OLD_METADATA_DELETING: the round has committed; this point follows each former metadata file that it deletes. SNAPSHOT_EXPIRING: snapshots
of a Paimon table expire after the commit, one change after the other. Snapshots of an Iceberg table expire in the commit.
"""

STORE_BEFORE_COMMIT = "store_before_commit"
STORE_AFTER_COMMIT = "store_after_commit"
ACK_STORED = "ack_stored"
LAKE_RECORD_PREPARED = "lake_record_prepared"
"""In the code for a Fluss cluster: an offsets file is written and not yet registered."""
IN_COORDINATOR = (STORE_BEFORE_COMMIT, STORE_AFTER_COMMIT, ACK_STORED)
"""Before and after the COMMIT of a state transaction; and when an acknowledgement is in the store and not yet in the cluster."""

TAKE_OVER_LOCKED = "take_over_locked"
TAKE_OVER_EPOCH_MADE = "take_over_epoch_made"
TAKE_OVER_EPOCH_STORED = "take_over_epoch_stored"
TAKE_OVER_RESTORED = "take_over_restored"
TAKE_OVER_COMPARED = "take_over_compared"
TAKE_OVER_SERVING = "take_over_serving"
IN_TAKE_OVER = (
    TAKE_OVER_LOCKED,
    TAKE_OVER_EPOCH_MADE,
    TAKE_OVER_EPOCH_STORED,
    TAKE_OVER_RESTORED,
    TAKE_OVER_COMPARED,
    TAKE_OVER_SERVING,
)
"""The steps of a coordinator that takes over.

It has the lock and no epoch; it is before, and then after, the COMMIT of its epoch; its records are loaded and stored; it knows the
cluster's tables and does not serve yet; it serves, and no other coordinator knows its address.
"""

RECONCILE_TABLE_MADE = "reconcile_table_made"
RECONCILE_CLAIMED = "reconcile_claimed"
RECONCILE_SENT = "reconcile_sent"
RECONCILE_TOLD = "reconcile_told"
ADOPT_RENAMED = "adopt_renamed"
IN_ADOPTION = (RECONCILE_CLAIMED, ADOPT_RENAMED, RECONCILE_SENT, RECONCILE_TOLD)
"""The steps of `adopt_table`, in their order. ADOPT_RENAMED: the lake table has its new name and no marker."""
IN_RECONCILE = (RECONCILE_TABLE_MADE, RECONCILE_CLAIMED, RECONCILE_SENT, RECONCILE_TOLD)
"""The steps of a reconciliation: it created a lake table and committed nothing; its epoch is in the store; its commit was sent; the cluster
knows the commit and the store does not."""

SWEEP_DELETING = "sweep_deleting"
SWEEP_DELETED = "sweep_deleted"
IN_SWEEP = (SWEEP_DELETING, SWEEP_DELETED)
"""During a sweep, after each file that it deletes; and after the last one, before any note of the sweep is stored."""

KV_LOGGED = "kv_logged"
KV_APPLYING = "kv_applying"
KV_APPLIED = "kv_applied"
KV_SKIPPING = "kv_skipping"
KV_SKIPPED = "kv_skipped"
IN_SKIP = (KV_SKIPPING, KV_SKIPPED)
"""Before the skip of a record is durable; and after that, before any caller has the answer."""

KV_SNAPSHOT_WRITTEN = "kv_snapshot_written"
KV_SNAPSHOT_PUBLISHED = "kv_snapshot_published"
IN_KV = (KV_LOGGED, KV_APPLYING, KV_APPLIED, KV_SNAPSHOT_WRITTEN, KV_SNAPSHOT_PUBLISHED)
"""Points of the embedded cluster.

KV_LOGGED: the changelog of a write to a primary-key table is published and the KV state is unchanged. KV_APPLYING: the KV state is partly
changed. KV_APPLIED: it is changed. KV_SNAPSHOT_WRITTEN: the files of a KV snapshot are written and not yet published.
KV_SNAPSHOT_PUBLISHED: the snapshot is published and the older ones are not yet removed.
"""

_times_reached = itertools.count(1)


def reach(point: str) -> None:
    """Marks that the process reached `point`. It does not return if the point is active and kills the process."""
    armed = os.environ.get(VARIABLE)
    if armed is None:
        return
    place, _, action = armed.partition(":")
    name, _, nth = place.partition("@")
    if name != point or next(_times_reached) < int(nth or 1):
        return
    os.environ.pop(VARIABLE, None)
    # The signal goes to this thread, so that it does not continue while another thread receives it. It ends or stops the whole process.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP if action == "stop" else signal.SIGKILL)
