"""The sizes in which the model is searched: for each rule the smallest in which its lack shows, and those in which the whole passes."""

from __future__ import annotations

from typing import Any

from faults.model.exclusive.model import ExclusiveModel
from faults.model.exclusive.rules import ALL_RULES, Rule
from faults.model.exclusive.world import FAULTS, LATE_MESSAGES, UPKEEP, Size
from faults.model.search import Result

ROLLED_BACK = frozenset(("roll back", "reconcile"))
"""Actions of users with which the lake goes back behind a late message."""

REPLACED = frozenset(("rename", "recreate", "reconcile"))
"""Actions of users after which another lake table has the place of the one that a late message names."""

SET_BACK = frozenset(("set back", "sweep", "reconcile"))
"""Actions of users after which a late commit finds its base again."""

MAINTENANCE = frozenset(("compact", "expire", "roll back"))
"""Actions of users between two rounds, including those that hide a roll-back."""

CHANGED = frozenset(("compact", "delete"))
"""Actions of users on the files that upkeep rewrites."""

TAGGED = frozenset(("tag", "expire"))
"""Actions of users on the snapshots that expire."""

SMALLEST_SIZES: dict[Rule, dict[str, Any]] = {
    Rule.FENCE: {"users": 1, "faults": 1},
    Rule.HEAD: {"users": 1, "faults": 0},
    Rule.TAG: {"rounds": 2, "users": 1, "faults": 1},
    Rule.UUID: {"rounds": 2, "users": 2, "faults": 0, "begins_tiered": False},
    Rule.IDENTITY: {},
    Rule.PARENTS: {"rounds": 1, "users": 3, "faults": 0, "user_actions": MAINTENANCE},
    Rule.UNKNOWN: {},
    Rule.KEEP_FILES: {},
    Rule.FILES_THERE: {"users": 2, "faults": 0, "user_actions": SET_BACK | {"expire"}},
    Rule.PREFIX: {"begins_tiered": False, "rows": 2, "last_gate": False},
    Rule.ADOPT: {},
    Rule.ACKS: {"users": 2, "user_actions": ROLLED_BACK, "fault_actions": LATE_MESSAGES},
    Rule.SWEEP_TAG: {},
    Rule.SWEEP_BASE: {"users": 2, "faults": 1, "user_actions": SET_BACK},
    Rule.SWEEP_UUID: {"rounds": 2, "users": 3, "faults": 1},
    Rule.SWEEP_NAMED: {"rounds": 1, "faults": 0},
    Rule.SWEEP_LINEAGE: {"rounds": 1, "users": 3, "faults": 0, "user_actions": frozenset(("restore", "sweep")), "upkeep": UPKEEP},
    Rule.UPKEEP_FILES: {"rounds": 1, "users": 1, "faults": 0, "upkeep": UPKEEP},
    Rule.UPKEEP_DELETES: {"rounds": 1, "users": 1, "faults": 0, "user_actions": CHANGED, "upkeep": UPKEEP},
    Rule.UPKEEP_FENCE: {"rounds": 1, "users": 1, "faults": 1, "upkeep": UPKEEP},
    Rule.UPKEEP_CANCEL: {"rounds": 2, "users": 0, "faults": 0, "upkeep": UPKEEP},
    Rule.UPKEEP_OFFSETS: {"rounds": 1, "users": 0, "faults": 0, "upkeep": UPKEEP, "last_gate": False},
    Rule.EXPIRY_TAGS: {"rounds": 1, "users": 1, "faults": 0, "user_actions": TAGGED, "upkeep": UPKEEP},
    Rule.EXPIRY_REFERENCES: {"rounds": 1, "users": 1, "faults": 0, "user_actions": TAGGED, "upkeep": UPKEEP},
    Rule.EXPIRY_ONCE: {"rounds": 1, "users": 1, "faults": 0, "user_actions": TAGGED, "upkeep": UPKEEP},
}

CAUGHT_AT_THE_LAST_GATE = (Rule.PREFIX, Rule.UPKEEP_OFFSETS)

WHOLE_SIZES: dict[str, Size] = {
    "tiered before": Size(rounds=2, users=1, faults=2),
    "nothing tiered yet": Size(rounds=2, users=1, faults=1, begins_tiered=False, rows=2),
    "late messages": Size(rounds=2, users=2, faults=2, user_actions=ROLLED_BACK, fault_actions=LATE_MESSAGES | {"crash", "time-out"}),
    "rolled back to a former tiering commit": Size(rounds=2, users=2, faults=1, user_actions=SET_BACK),
    "maintenance and roll-backs": Size(rounds=2, users=3, faults=0, user_actions=MAINTENANCE | {"reconcile"}),
    "late messages, no lake table yet": Size(
        rounds=2, users=2, faults=1, user_actions=REPLACED, fault_actions=LATE_MESSAGES | {"crash", "time-out"}, begins_tiered=False
    ),
    "upkeep": Size(rounds=2, users=0, faults=1, upkeep=UPKEEP),
    "upkeep beside users": Size(rounds=1, users=1, faults=1, upkeep=UPKEEP),
    "upkeep of a table that users change": Size(rounds=2, users=1, faults=0, user_actions=CHANGED | {"roll back"}, upkeep=UPKEEP),
    "upkeep rounds of a table that users change": Size(rounds=2, users=2, faults=0, user_actions=CHANGED, upkeep=frozenset(("rounds",))),
    "expiry beside tags, and sweeps": Size(rounds=1, users=3, faults=0, user_actions=TAGGED | {"sweep"}, upkeep=UPKEEP),
}
"""Searched completely, in seconds."""

LARGE_SIZES: dict[str, Size] = {
    "rolled back to a former tiering commit, expired": Size(
        rounds=3, users=4, faults=2, user_actions=SET_BACK | {"expire", "roll back"}, numbered=True
    ),
    "late messages, all actions": Size(rounds=2, users=1, faults=2, fault_actions=FAULTS | LATE_MESSAGES),
    "late messages, nothing tiered yet": Size(
        rounds=2, users=1, faults=2, fault_actions=FAULTS | LATE_MESSAGES, begins_tiered=False, rows=2
    ),
    "upkeep, two rounds": Size(rounds=2, users=1, faults=1, upkeep=UPKEEP),
    "upkeep, three rounds": Size(rounds=3, users=3, faults=2, user_actions=CHANGED | TAGGED | SET_BACK | {"roll back"}, upkeep=UPKEEP),
    "upkeep, late messages": Size(rounds=3, users=2, faults=2, fault_actions=FAULTS | LATE_MESSAGES, upkeep=UPKEEP),
    "upkeep of a table that is restored": Size(
        rounds=3, users=4, faults=1, user_actions=frozenset(("restore", "sweep", "reconcile", "expire")), upkeep=UPKEEP
    ),
    "tiered before, three rounds": Size(rounds=3, users=3, faults=3),
    "nothing tiered yet, three rounds": Size(rounds=3, users=3, faults=3, begins_tiered=False, rows=2),
}
"""Searched for as long as there is time."""


def without(rule: Rule, states: int = 400_000, **changes: Any) -> Result:
    """The search that lacks a rule. What is missing without `adopt` is the way out of a state, which all others have."""
    size = Size(rules=ALL_RULES - {rule}, **{**SMALLEST_SIZES[rule], **changes})
    return ExclusiveModel(size).search(40, states, repairs=rule is Rule.ADOPT)
