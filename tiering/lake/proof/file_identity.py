"""Checks by its footer whether a file of a clean lake table was written for its present place. Pure.

A file that a user copied from another table, partition or bucket keeps its name and its footer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.lake.proof.file_footer import FileFooter
from tiering.model.tables import TableInfo


@dataclass(frozen=True)
class FileIdentity:
    """The identity that the files of one lake table must have. `partitions`: the ids of the living partitions, by name."""

    table: TableInfo
    lake_table_uuid: str
    partitions: Mapping[str, int]

    def complaint(self, footer: FileFooter, partition: str | None, bucket_id: int | None) -> str | None:
        """Returns what is wrong with a file in this place; None = nothing.

        `partition` None: the table has no partitions, or the partition is unknown. `bucket_id` None: the lake does not tell it. Partition
        ids are never reused, so the id of a partition that is not living is that of a former one of this name."""
        if not self.is_of_table(footer):
            return f"was written for the table {footer.table_id}/{footer.lake_table_uuid}"
        if (footer.bucket.partition_id is None) != (not self.table.partition_keys):
            return f"was written for the bucket {footer.bucket}"
        names = {partition_id: name for name, partition_id in self.partitions.items()}
        footer_partition = None if footer.bucket.partition_id is None else names.get(footer.bucket.partition_id)
        if partition is not None and footer_partition is not None and footer_partition != partition:
            return f"is in partition {partition}, but was written for partition {footer_partition}"
        if bucket_id is not None and bucket_id != footer.bucket.bucket_id:
            return f"is in bucket {bucket_id}, but was written for bucket {footer.bucket.bucket_id}"
        return None

    def is_of_table(self, footer: FileFooter) -> bool:
        """Whether the file was written for this source table and this lake table."""
        return (footer.table_id, footer.lake_table_uuid) == (self.table.table_id, self.lake_table_uuid)

    def is_former(self, footer: FileFooter, partition: str | None) -> bool:
        """Whether the file belongs to a former partition of this name."""
        return partition is not None and footer.bucket.partition_id != self.partitions.get(partition)
