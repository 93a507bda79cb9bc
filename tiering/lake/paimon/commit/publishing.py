"""The one request by which a snapshot of a Paimon table comes to be: the creation of the file `snapshot-<base + 1>`, by a link or a PUT.

A link never replaces a file, and a folder that was dropped takes none: that is the compare-and-set on the head and on the table. It is
sent once. So is a PUT in S3 with `If-None-Match: *`; but there a name is all that a folder is, and a table that was dropped and made anew
while the request was on its way takes it. Its marker names the former table, so that no round goes on from it.

Paimon's own committers look whether the name is free and then rename, which on a local path replaces a name that came in between: a JVM
that commits to the same table in the same instant is not fenced by them. On HDFS their rename is right.
"""

from __future__ import annotations

import json
from contextlib import suppress

from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.reading.snapshots import EARLIEST, LATEST
from tiering.lake.paimon.storage.base import CONSUMER, SNAPSHOT, TableFolder

CONSUMER_FILE = "consumer-lakeward"
"""A consumer of Paimon's, which keeps snapshots from `nextSnapshot` on from expiry (`ExpireSnapshotsImpl`)."""


class RefusedCommit(Exception):
    """The table is not as it was read, or may not have been; whether the snapshot landed only the lake can tell."""


def publish(base: LoadedTable, snapshot_id: int, content: bytes) -> None:
    """Creates the snapshot on the head of `base`. Raises RefusedCommit, OSError: after any error its outcome is unknown."""
    with opened_table(base) as folder:
        _check_in_place(folder, base)
        if base.head is None and folder.numbers(SNAPSHOT):
            raise RefusedCommit("the table got its first snapshot meanwhile")
        _check_head(folder, base)
        folder.create(SNAPSHOT, f"snapshot-{snapshot_id}", content)
        if folder.read(f"{SNAPSHOT}/snapshot-{snapshot_id}") != content:
            raise RefusedCommit(f"snapshot {snapshot_id} was replaced in the instant in which it was made")
        _check_head(folder, base)
        _check_in_place(folder, base)
        with suppress(OSError):  # a hint
            folder.replace(SNAPSHOT, LATEST, str(snapshot_id).encode())


def _check_in_place(folder: TableFolder, base: LoadedTable) -> None:
    if not folder.is_in_place():
        raise RefusedCommit(f"the folder {base.location} was renamed or replaced")


def _check_head(folder: TableFolder, base: LoadedTable) -> None:
    """The head of `base` is there as it was read, and did not expire; nor did the snapshot that comes first in a table without one.

    Names of snapshots that expired are free again: a commit that comes so late would become the head by the hint LATEST.
    """
    head = base.head
    if head is not None and folder.read(f"{SNAPSHOT}/snapshot-{head.snapshot_id}") != head.content:
        raise RefusedCommit(f"snapshot {head.snapshot_id} expired or was rolled back")
    oldest = 1 if head is None else head.snapshot_id
    earliest = folder.read(f"{SNAPSHOT}/{EARLIEST}")
    if earliest is not None and earliest.strip().isdigit() and int(earliest) > oldest:
        raise RefusedCommit(f"snapshot {oldest} expired")


def keep_from_expiry(base: LoadedTable, snapshot_id: int) -> None:
    """Keeps `snapshot_id` and what follows it, until this is called with a higher one. Raises OSError."""
    with opened_table(base) as folder:
        folder.make(CONSUMER)
        folder.replace(CONSUMER, CONSUMER_FILE, json.dumps({"nextSnapshot": snapshot_id}).encode())


def is_kept(base: LoadedTable, snapshot_id: int) -> bool:
    """Whether there is a consumer of ours that keeps `snapshot_id`. After a roll-back it may keep newer ones alone."""
    with opened_table(base) as folder:
        content = folder.read(f"{CONSUMER}/{CONSUMER_FILE}")
    with suppress(ValueError, KeyError, TypeError):
        return content is not None and int(json.loads(content)["nextSnapshot"]) <= snapshot_id
    return False
