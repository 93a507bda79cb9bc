"""The sizes in which the model is searched: for each rule the smallest in which its lack shows, and those in which the whole passes."""

from __future__ import annotations

from dataclasses import replace

from faults.model.shared.rules import ALL_SHARED_RULES, SharedRule
from faults.model.shared.world import KEYED_RECORDS, Size

LOG = Size(flinks=2, rounds=1)
KEYED = Size(records=KEYED_RECORDS, keyed=True, flinks=2, rounds=1)
RECONCILE = frozenset(("reconcile",))
IN_TURN = Size(flinks=2, rounds=2, strict=True)

SMALLEST_SIZES: dict[SharedRule, Size] = {
    SharedRule.CLUSTER_FIRST: LOG,
    SharedRule.ROWS_DECIDE: LOG,
    SharedRule.RUNNING_END: LOG,
    SharedRule.GAP: replace(LOG, writes=1, users=1, user_actions=frozenset(("roll back",))),
    SharedRule.STAYS_BACK: KEYED,
    SharedRule.REMEMBERED: LOG,
    SharedRule.KEEPS_TABLE: replace(IN_TURN, rounds=1, faults=1),
    SharedRule.NEVER_EMPTY: replace(IN_TURN, users=1, faults=2),
    SharedRule.WHOLE_REPLAY: replace(KEYED, faults=1, fault_actions=frozenset(("stop early",))),
    SharedRule.LEAVES_RIGHT: LOG,
    SharedRule.TWO_FILES: LOG,
    SharedRule.LAST_ROW: replace(LOG, writes=1),
    SharedRule.LOOKS_AGAIN: replace(LOG, users=1, user_actions=RECONCILE),
    SharedRule.OWN_COMMIT_PASSED: replace(LOG, rounds=2, users=1, user_actions=RECONCILE),
    SharedRule.TOLD_IN_TURN: replace(IN_TURN, rounds=1, faults=1),
    SharedRule.LIVE_ROWS: replace(LOG, flinks=0, users=1, user_actions=frozenset(("delete",))),
}


def without(rule: SharedRule) -> Size:
    """The smallest size in which the lack of a rule shows, without it."""
    return replace(SMALLEST_SIZES[rule], rules=ALL_SHARED_RULES - {rule})


WHOLE_SIZES: dict[str, Size] = {
    "log table": replace(LOG, rounds=2),
    "log table, statements": replace(LOG, users=1, user_actions=RECONCILE),
    "log table, all in turn, a fault": replace(IN_TURN, faults=1),
    "primary-key table, the log grows": replace(KEYED, writes=1),
    "primary-key table, retention and statements": replace(KEYED, users=2, user_actions=frozenset(("cut", "reconcile")), kv_snapshots=True),
    "tables that nobody tiered": replace(LOG, begins_tiered=False),
}
"""Searched completely, in seconds."""

LARGE_SIZES: dict[str, Size] = {
    "log table, a fault and statements": replace(LOG, faults=1, users=1, user_actions=RECONCILE),
    "log table, three of Flink's rounds": replace(LOG, flinks=3, rounds=3, users=2, faults=2, writes=1, compacts=True),
    "log table, retention": replace(
        LOG, rounds=2, users=3, faults=1, writes=1, user_actions=frozenset(("cut", "compact", "expire", "reconcile"))
    ),
    "log table, all in turn": replace(IN_TURN, flinks=3, rounds=3, faults=3),
    "primary-key table, three of Flink's rounds": replace(KEYED, flinks=3, rounds=3, users=2, faults=2, writes=1, kv_snapshots=True),
    "primary-key table, retention": replace(
        KEYED, rounds=2, users=3, faults=1, writes=1, user_actions=frozenset(("cut", "compact", "expire", "reconcile")), kv_snapshots=True
    ),
}
"""Searched for as long as there is time."""
