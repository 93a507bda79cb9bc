"""The last gate for primary-key buckets: is the head still what their writers took it for?"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table

from tiering.errors import BaseMoved, RoundFailed
from tiering.lake.base import LakeView
from tiering.lake.iceberg.primary_key.bucket_files import NOTHING
from tiering.lake.iceberg.primary_key.live_files import PartitionValue, live_buckets
from tiering.lake.iceberg.writing.data_files import BucketChange


def replaced_partitions(changes: Sequence[BucketChange], base: LakeView, table: Table) -> frozenset[PartitionValue]:
    """The partitions of which all files are replaced, at `base`'s head.

    Raises BaseMoved if a foreign commit added or removed data files of a bucket since its rows were looked up, or delete files of one
    that is rewritten: a row would be doubled, stay although it was deleted, or come back. SchemaDrift, LakeUnavailable.
    """
    _check_once(changes, base)
    stale = {change.partition for change in changes if change.base_snapshot_id != base.head}
    now = live_buckets(table, base.path, base.head, stale) if stale and base.head is not None else {}
    for change in changes:
        if change.partition in stale:
            found = now.get(change.partition, NOTHING)
            if change.base_files != (found.digest() if change.rewritten else found.data_digest()):
                raise BaseMoved(
                    f"files of the partition {change.partition} of the lake table {base.path} were replaced between snapshot "
                    f"{change.base_snapshot_id} and snapshot {base.head}, while a round looked for rows in them",
                    table_path=base.path,
                    lake_snapshot_id=base.head,
                )
    return frozenset(change.partition for change in changes if change.rewritten)


def _check_once(changes: Sequence[BucketChange], base: LakeView) -> None:
    """Two writers of a bucket do not see each other's rows."""
    if len({change.partition for change in changes}) < len(changes):
        raise RoundFailed(
            f"two writers changed the same bucket of {base.path} in one round",
            cause_class="InconsistentRound",
            hint="Nothing was committed; the next round begins again. This is a defect of Lakeward: please report it.",
            table_path=base.path,
        )
