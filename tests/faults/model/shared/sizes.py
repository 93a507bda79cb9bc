"""The sizes in which the model is searched: for each rule the smallest in which its lack shows, and those in which the whole passes."""

from __future__ import annotations

from dataclasses import replace

from faults.model.shared.rules import ALL_SHARED_RULES, CoveredPart, Part, SharedRule
from faults.model.shared.world import KEYED_RECORDS, LOG_RECORDS, Size

LOG = Size(flinks=2, rounds=1)
KEYED = Size(records=KEYED_RECORDS, keyed=True, flinks=2, rounds=1)
RECONCILE = frozenset(("reconcile",))
UNTIERED = replace(LOG, begins="untiered")
IN_TURN = Size(flinks=2, rounds=2, strict=True)
DOUBLED = Size(flinks=1, rounds=1, users=1, user_actions=RECONCILE, begins="doubled")
DEDUPLICATED = Size(flinks=2, rounds=1, strict=True, begins="deduplicated")

SMALLEST_SIZES: dict[SharedRule, Size] = {
    SharedRule.CLUSTER_FIRST: UNTIERED,
    SharedRule.AHEAD_OF_NEWEST: KEYED,
    SharedRule.ROWS_DECIDE: LOG,
    SharedRule.RUNNING_END: LOG,
    SharedRule.GAP: replace(LOG, writes=1, users=1, user_actions=frozenset(("roll back",))),
    SharedRule.STAYS_BACK: KEYED,
    SharedRule.REMEMBERED: replace(LOG, records=LOG_RECORDS[:2]),
    SharedRule.KEEPS_TABLE: replace(IN_TURN, rounds=1, faults=1),
    SharedRule.NEVER_EMPTY: replace(IN_TURN, users=1, faults=2),
    SharedRule.WHOLE_REPLAY: replace(KEYED, faults=1, fault_actions=frozenset(("stop early",))),
    SharedRule.LEAVES_RIGHT: LOG,
    SharedRule.TWO_FILES: LOG,
    SharedRule.LAST_ROW: replace(LOG, writes=1),
    SharedRule.LOOKS_AGAIN: replace(LOG, users=1, user_actions=RECONCILE),
    SharedRule.COMMIT_USER: DEDUPLICATED,
    SharedRule.FRESH_FILE: DEDUPLICATED,
    SharedRule.OWN_COMMIT_PASSED: DOUBLED,
    SharedRule.TOLD_IN_TURN: replace(IN_TURN, rounds=1, faults=1),
    SharedRule.LIVE_ROWS: replace(LOG, flinks=0, users=1, user_actions=frozenset(("delete",))),
}


COVERED_SIZES: dict[CoveredPart, Size] = {
    CoveredPart.PASSED_HEAD: replace(LOG, flinks=1, rounds=2, users=1, user_actions=frozenset(("roll back",))),
    CoveredPart.EXPLICIT_KEEP: replace(LOG, users=1, user_actions=RECONCILE),
}
"""Searched completely, each without its part."""


def without(part: Part) -> Size:
    """The smallest size in which the lack of a part of a rule shows, without it; or the one in which it does not."""
    size = COVERED_SIZES[part] if isinstance(part, CoveredPart) else SMALLEST_SIZES[part]
    return replace(size, rules=ALL_SHARED_RULES - {part})


WHOLE_SIZES: dict[str, Size] = {
    "log table": replace(LOG, rounds=2),
    "log table, statements": replace(LOG, users=1, user_actions=RECONCILE),
    "log table, all in turn, a fault": replace(IN_TURN, faults=1),
    "primary-key table, the log grows": replace(KEYED, writes=1),
    "primary-key table, retention and statements": replace(KEYED, users=2, user_actions=frozenset(("cut", "reconcile")), kv_snapshots=True),
    "tables that no service tiered": UNTIERED,
    "doubled rows, statements": DOUBLED,
    "behind deduplicate, all in turn": DEDUPLICATED,
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
