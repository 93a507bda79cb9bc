"""Names of the files that one attempt writes: by them the sweep tells whose they are (`lake.rules.sweep`)."""

from __future__ import annotations

from tiering.lake.base import WriterInitContext


def file_prefix(context: WriterInitContext) -> str:
    """The beginning of the names of one attempt's files; tells the sweep whose they are."""
    partition = "" if context.bucket.partition_id is None else f"{context.bucket.partition_id}-"
    return f"lakeward-{context.round_id}-{context.attempt_nonce}-{partition}{context.bucket.bucket_id}"
