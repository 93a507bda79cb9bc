"""Whether a file of a clean lake table was written for the place in which it stands, by its footer. Pure.

A file that somebody copied from another table, partition or bucket keeps the name and the footer that it was written with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiering.lake.proof.file_footer import FileFooter
from tiering.model.tables import TableInfo


@dataclass(frozen=True)
class FileIdentity:
    """Of the files of one lake table. `partitions`: the ids of those that live, by name."""

    table: TableInfo
    lake_table_uuid: str
    partitions: Mapping[str, int]

    def complaint(self, footer: FileFooter, partition: str | None, bucket_id: int | None) -> str | None:
        """What is wrong with a file in this partition (None = of a table without any, or unknown) and bucket (None = the lake does not
        tell it); None = nothing. Ids of partitions are never given again: one that does not live is a former one of that name."""
        if not self.is_of_table(footer):
            return f"was written for the table {footer.table_id}/{footer.lake_table_uuid}"
        if (footer.bucket.partition_id is None) != (not self.table.partition_keys):
            return f"was written for the bucket {footer.bucket}"
        names = {partition_id: name for name, partition_id in self.partitions.items()}
        theirs = None if footer.bucket.partition_id is None else names.get(footer.bucket.partition_id)
        if partition is not None and theirs is not None and theirs != partition:
            return f"stands in partition {partition}, and was written for partition {theirs}"
        if bucket_id is not None and bucket_id != footer.bucket.bucket_id:
            return f"stands in bucket {bucket_id}, and was written for bucket {footer.bucket.bucket_id}"
        return None

    def is_of_table(self, footer: FileFooter) -> bool:
        """Whether the file was written for this source table, and for this lake table."""
        return (footer.table_id, footer.lake_table_uuid) == (self.table.table_id, self.lake_table_uuid)

    def is_former(self, footer: FileFooter, partition: str | None) -> bool:
        """Whether the file is of a partition that had the name of this one before."""
        return partition is not None and footer.bucket.partition_id != self.partitions.get(partition)
