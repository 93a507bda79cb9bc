"""Named places at which a test may kill or stop the process (DESIGN 12).

Armed by one environment variable: `LAKEWARD_CRASH_POINT=name` kills the process with SIGKILL when it reaches
the point, `name@3` when it reaches it for the third time; `name:stop` stops it with SIGSTOP until somebody sends SIGCONT.
Unarmed they cost one dictionary look-up.
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
"""In the order of a round. IN_SPLIT is where the split runs: in the tierer, or in an executor's Python worker."""

UPKEEP_PLANNED = "upkeep_planned"
IN_REWRITE = "in_rewrite"
AFTER_REWRITES = "after_rewrites"
IN_UPKEEP = (UPKEEP_PLANNED, IN_REWRITE, AFTER_REWRITES, BEFORE_FENCE, AFTER_FENCE, AFTER_LAKE_COMMIT, AFTER_ACK)
"""In the order of an upkeep round. IN_REWRITE is between two batches of rows, where the rewrite runs; AFTER_REWRITES is before any
request for the fence, when all new files are written."""

BEFORE_COMPACTION = "before_compaction"
"""A round that committed to a Paimon table, before the second snapshot with the files that it merged."""

MERGING = "merging"
MERGED = "merged"
SNAPSHOT_EXPIRING = "snapshot_expiring"
OLD_METADATA_DELETING = "old_metadata_deleting"
BESIDE_TIERING = (MERGING, MERGED, SNAPSHOT_EXPIRING, OLD_METADATA_DELETING)
"""The upkeep that a tiering round does: one that has copied a part of the files that it merges; one whose merged files are written, and no
snapshot names them; and one that committed, after each former metadata file that it deletes. Snapshots of a Paimon table expire after the
commit, by one change after the other; those of an Iceberg table expire with it."""

STORE_BEFORE_COMMIT = "store_before_commit"
STORE_AFTER_COMMIT = "store_after_commit"
ACK_STORED = "ack_stored"
LAKE_RECORD_PREPARED = "lake_record_prepared"
"""Of a Fluss cluster: an offsets file is written, and not yet registered."""
IN_COORDINATOR = (STORE_BEFORE_COMMIT, STORE_AFTER_COMMIT, ACK_STORED)
"""A state transaction before and after its COMMIT; an ack that is in the store and not in the cluster."""

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
"""A coordinator that has the lock and no epoch; one before and after the COMMIT of its epoch; whose records are loaded, and stored as it
meets them; which knows the cluster's tables and does not serve yet; which serves, and no other coordinator knows where."""

RECONCILE_TABLE_MADE = "reconcile_table_made"
RECONCILE_CLAIMED = "reconcile_claimed"
RECONCILE_SENT = "reconcile_sent"
RECONCILE_TOLD = "reconcile_told"
IN_RECONCILE = (RECONCILE_TABLE_MADE, RECONCILE_CLAIMED, RECONCILE_SENT, RECONCILE_TOLD)
"""A reconciliation that made a lake table and committed nothing; whose epoch is in the store; whose commit was sent; which the
cluster knows and the store does not."""

SWEEP_DELETING = "sweep_deleting"
SWEEP_DELETED = "sweep_deleted"
IN_SWEEP = (SWEEP_DELETING, SWEEP_DELETED)
"""A sweep after each file that it deletes, and one that has deleted them all and noted that nowhere."""

KV_LOGGED = "kv_logged"
KV_APPLYING = "kv_applying"
KV_APPLIED = "kv_applied"
KV_SKIPPING = "kv_skipping"
KV_SKIPPED = "kv_skipped"
IN_SKIP = (KV_SKIPPING, KV_SKIPPED)
"""A record that is to be skipped before that is durable, and after it, when nobody was told yet."""

KV_SNAPSHOT_WRITTEN = "kv_snapshot_written"
KV_SNAPSHOT_PUBLISHED = "kv_snapshot_published"
IN_KV = (KV_LOGGED, KV_APPLYING, KV_APPLIED, KV_SNAPSHOT_WRITTEN, KV_SNAPSHOT_PUBLISHED)
"""A write to a primary-key table whose changelog is published and the KV state not yet, half and wholly changed; a KV snapshot
whose files are written and not yet published, and one that is published before the older ones are removed."""

_times_reached = itertools.count(1)


def reach(point: str) -> None:
    """Says that `point` was reached; does not return if it is armed to kill."""
    armed = os.environ.get(VARIABLE)
    if armed is None:
        return
    place, _, action = armed.partition(":")
    name, _, nth = place.partition("@")
    if name != point or next(_times_reached) < int(nth or 1):
        return
    os.environ.pop(VARIABLE, None)
    # To this thread, so that it does not go on for a moment while another one takes the signal; it ends or stops the whole process.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP if action == "stop" else signal.SIGKILL)
