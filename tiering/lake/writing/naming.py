"""Names of the files that one attempt writes. The sweep tells from a name which round wrote the file (`lake.rules.sweep`)."""

from __future__ import annotations

from tiering.lake.base import WriterInitContext
from tiering.model.tables import BucketKey


def file_prefix(context: WriterInitContext) -> str:
    """Returns the prefix of the names of one attempt's files, which has the round id."""
    partition = "" if context.bucket.partition_id is None else f"{context.bucket.partition_id}-"
    return f"lakeward-{context.round_id}-{context.attempt_nonce}-{partition}{context.bucket.bucket_id}"


def bucket_of_name(name: str, *, is_partitioned: bool) -> BucketKey | None:
    """Returns the bucket for which a round wrote the data file of this name; None for a file with another form of name."""
    parts = name.removesuffix(".parquet").split("-")
    numbers = parts[-3:] if is_partitioned else ["0", *parts[-2:]]
    is_ours = name.startswith("lakeward-") and name.endswith(".parquet") and len(parts) >= len(numbers) + 2
    if not is_ours or not all(part.isascii() and part.isdigit() for part in numbers):
        return None
    partition_id, bucket_id, _ = map(int, numbers)
    return BucketKey(partition_id if is_partitioned else None, bucket_id)
