"""The rules of tiering beside another service (docs/fluss-shared.md), as switches of the model: each has to be needed.

A rule has a number, R1 to R9, and may have several parts: each part is a switch, and is taken out alone. That `retier` is one commit (R8)
has no switch: the model knows no statement of two commits.
"""

from __future__ import annotations

from enum import Enum


class SharedRule(Enum):
    """Rules of Lakeward beside Flink's tiering, whose commits have no fence: the number of the rule, and the text of this part."""

    CLUSTER_FIRST = "R1", "the cluster's record is read before the lake"
    AHEAD_OF_NEWEST = "R1", "a record that is ahead is an error only of the lake's newest snapshot, where the log shows rows"
    ROWS_DECIDE = "R2", "where a foreign snapshot begins and ends is told by the rows that it added, and not by what it says of itself"
    RUNNING_END = "R2", "a foreign snapshot of a log table begins at the running end: below it rows are doubled"
    GAP = "R2", "above the running end rows are missing"
    STAYS_BACK = "R2", "an end that was moved back is raised by a commit of ours alone"
    WHOLE_REPLAY = "R2", "a round that replays a bucket reads on to the log's end"
    REMEMBERED = "R3", "ends, and whether they were moved back, are remembered with the head that passed"
    KEEPS_TABLE = "R4", "a table with an unresolved request is not given back"
    NEVER_EMPTY = "R4", "the round behind an unresolved request commits, with or without rows"
    LEAVES_RIGHT = "R5", "a record of the cluster's that only a new snapshot mends is mended by a commit"
    TOLD_IN_TURN = "R5", "the cluster is told in our turn alone, and the table stays until it has been"
    TWO_FILES = "R6", "the offsets file that a snapshot names is never the registered one"
    LAST_ROW = "R7", "deduplicate goes on behind the last live row, wherever the cluster says that the other service is"
    COMMIT_USER = "R7", "the commit of a statement has the commit user of tiering"
    FRESH_FILE = "R7", "the commit of a statement names an offsets file of its own"
    LOOKS_AGAIN = "R8", "every action looks at the rows again when it is called"
    OWN_COMMIT_PASSED = "R8", "behind a statement its own commit has passed the check, and not what came after it"
    LIVE_ROWS = "R9", "live rows that are missing below the end decide nothing"

    def __init__(self, number: str, text: str) -> None:
        self.number, self.text = number, text


class CoveredPart(Enum):
    """Parts of rules whose lack alone violates nothing in `sizes.COVERED_SIZES`, which are searched completely: other parts cover them.

    Without PASSED_HEAD a roll-back below a head that passed is not named, and the next round tiers the rows again: the log has them. With
    two of Flink's rounds that was searched to its end, too (38 steps deep in a log table, 41 in a primary-key table).
    Without EXPLICIT_KEEP a registration of ours deletes the former files; if Flink registers one of them again, the record cannot be read,
    and LEAVES_RIGHT mends it.
    """

    PASSED_HEAD = "R3", "a passed head that the walk does not meet is a roll-back"
    EXPLICIT_KEEP = "R6", "no offsets file is deleted by a registration of ours"

    def __init__(self, number: str, text: str) -> None:
        self.number, self.text = number, text


Part = SharedRule | CoveredPart
ALL_SHARED_RULES: frozenset[Part] = frozenset((*SharedRule, *CoveredPart))
