"""The rules of tiering beside another service (docs/fluss.md), as switches of the model: each has to be needed."""

from __future__ import annotations

from enum import Enum


class SharedRule(Enum):
    """What Lakeward does beside Flink's tiering, whose commits nothing fences."""

    CLUSTER_FIRST = "the cluster's record is read before the lake, and one that is ahead is an error only of the lake's newest snapshot"
    ROWS_DECIDE = "where a foreign snapshot begins and ends is told by the rows that it added, and not by what it says of itself"
    RUNNING_END = "a foreign snapshot of a log table begins at the running end: below it rows are doubled"
    GAP = "above the running end rows are missing"
    STAYS_BACK = "an end that was moved back is raised by a commit of ours alone"
    REMEMBERED = "ends, and whether they were moved back, are remembered with the head that passed"
    KEEPS_TABLE = "a table with an unresolved request is not given back"
    NEVER_EMPTY = "the round behind an unresolved request commits, with or without rows"
    WHOLE_REPLAY = "a round that replays a bucket reads on to the log's end"
    LEAVES_RIGHT = "a record of the cluster's that only a new snapshot mends is mended by a commit"
    TWO_FILES = "the offsets file that a snapshot names is never the registered one, and none is deleted by a registration"
    LAST_ROW = "deduplicate goes on behind the last live row, wherever the cluster says that the other service is"
    LOOKS_AGAIN = "every action looks at the rows again when it is called"
    OWN_COMMIT_PASSED = "behind a statement its own commit has passed the check, and not what came after it"
    TOLD_IN_TURN = "the cluster is told in our turn alone, and the table stays until it has been"
    LIVE_ROWS = "live rows that are missing below the end decide nothing"


ALL_SHARED_RULES = frozenset(SharedRule)
