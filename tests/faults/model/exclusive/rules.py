"""The rules of the commit protocol, as switches of the model: a search without one of them has to come to a violation."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    """Rules of DESIGN 6 and 7."""

    FENCE = "a commit is granted to the round that owns the table, and to no other"
    HEAD = "compare-and-set on the head"
    TAG = "compare-and-set on the newest tiering commit"
    UUID = "compare-and-set on the lake table's uuid"
    IDENTITY = "the marker names cluster, table and lake table"
    PARENTS = "a head passes only if known parents lead from it to the newest tiering commit, or to a head that passed"
    UNKNOWN = "after any error of a commit request its outcome is unknown"
    KEEP_FILES = "nothing is deleted after a commit request was sent"
    FILES_THERE = "a commit request is sent, or sent again, only while the files that it names are there"
    PREFIX = "only the contiguous prefix of a round is committed"
    ADOPT = "what the lake has and the records lack is adopted"
    ACKS = "an ack records the marker that the coordinator reads in the lake, whatever the round and its epoch say"
    SWEEP_TAG = "files of a round that was granted on the present tag stay"
    SWEEP_BASE = "files of a round that was granted on a commit to which a user may roll back stay"
    SWEEP_UUID = "files of a round that was granted for another lake table stay"
    SWEEP_NAMED = "files that a snapshot names stay, whatever their age"
    SWEEP_LINEAGE = "expired files are those of rounds that lead to the newest tiering commit"
    UPKEEP_FILES = "a rewrite is committed only if all files that it replaces are live"
    UPKEEP_DELETES = "a rewrite is committed only if no further rows of its files were deleted"
    UPKEEP_FENCE = "an upkeep round is granted its commit as any other round"
    UPKEEP_CANCEL = "an upkeep round is cancelled only while its commit is not granted"
    UPKEEP_OFFSETS = "upkeep moves no offset"
    EXPIRY_TAGS = "a snapshot that a tag names does not expire"
    EXPIRY_REFERENCES = "snapshots expire only with the tags and branches that were seen"
    EXPIRY_ONCE = "a request that is repeated expires no snapshot"


ALL_RULES = frozenset(Rule)
