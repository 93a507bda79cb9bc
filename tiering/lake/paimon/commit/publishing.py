"""The single request that publishes a snapshot of a Paimon table: it creates the file `snapshot-<base + 1>`, by a link or a PUT.

A link never replaces a file, and cannot be made in a dropped folder. That makes it the compare-and-set on the head and on the table. It is
sent once. So is a PUT in S3 with `If-None-Match: *`. But a folder in S3 is only a prefix of names: a table that is dropped and recreated
while the request is under way accepts the snapshot. Its marker names the former table, so no round continues from it.

Paimon's own committers check whether the name is free and then rename, which on a local path replaces a file created in between. So they do
not fence a JVM that commits to the same table at the same instant. On HDFS their rename is safe.
"""

from __future__ import annotations

import json
from contextlib import suppress

from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.reading.snapshots import EARLIEST, LATEST
from tiering.lake.paimon.storage.base import CONSUMER, SNAPSHOT, TableFolder

CONSUMER_FILE = "consumer-lakeward"
"""File of a Paimon consumer, which keeps snapshots from `nextSnapshot` on from expiry (`ExpireSnapshotsImpl`)."""


class RefusedCommit(Exception):
    """The table has changed since it was read, or may have. Only the lake can tell whether the snapshot landed."""


def publish(base: LoadedTable, snapshot_id: int, content: bytes) -> None:
    """Creates the snapshot on the head of `base`. Raises RefusedCommit, OSError; after any error the outcome is unknown."""
    with opened_table(base) as folder:
        _check_in_place(folder, base)
        if base.head is None and folder.numbers(SNAPSHOT):
            raise RefusedCommit("the table got its first snapshot in the meantime")
        _check_head(folder, base)
        folder.create(SNAPSHOT, f"snapshot-{snapshot_id}", content)
        if folder.read(f"{SNAPSHOT}/snapshot-{snapshot_id}") != content:
            raise RefusedCommit(f"snapshot {snapshot_id} was replaced at the moment of its creation")
        _check_head(folder, base)
        _check_in_place(folder, base)
        with suppress(OSError):  # LATEST is only a hint
            folder.replace(SNAPSHOT, LATEST, str(snapshot_id).encode())


def _check_in_place(folder: TableFolder, base: LoadedTable) -> None:
    if not folder.is_in_place():
        raise RefusedCommit(f"the folder {base.location} was renamed or replaced")


def _check_head(folder: TableFolder, base: LoadedTable) -> None:
    """Raises RefusedCommit unless the head of `base` is as it was read and has not expired. For a table without a head, snapshot 1 must not
    have expired.

    Names of expired snapshots are free again: a late commit under such a name would become the head through the hint LATEST.
    """
    head = base.head
    if head is not None and folder.read(f"{SNAPSHOT}/snapshot-{head.snapshot_id}") != head.content:
        raise RefusedCommit(f"snapshot {head.snapshot_id} expired or was rolled back")
    oldest = 1 if head is None else head.snapshot_id
    earliest = folder.read(f"{SNAPSHOT}/{EARLIEST}")
    if earliest is not None and earliest.strip().isdigit() and int(earliest) > oldest:
        raise RefusedCommit(f"snapshot {oldest} expired")


def keep_from_expiry(base: LoadedTable, snapshot_id: int) -> None:
    """Keeps `snapshot_id` and later snapshots from expiry, until this is called with a higher id. Raises OSError."""
    with opened_table(base) as folder:
        folder.make(CONSUMER)
        folder.replace(CONSUMER, CONSUMER_FILE, json.dumps({"nextSnapshot": snapshot_id}).encode())


def is_kept(base: LoadedTable, snapshot_id: int) -> bool:
    """Returns whether Lakeward's consumer keeps `snapshot_id`. After a roll-back it may keep only newer ones."""
    with opened_table(base) as folder:
        content = folder.read(f"{CONSUMER}/{CONSUMER_FILE}")
    with suppress(ValueError, KeyError, TypeError):
        return content is not None and int(json.loads(content)["nextSnapshot"]) <= snapshot_id
    return False
