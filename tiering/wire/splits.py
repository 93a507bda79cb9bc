"""Splits of running rounds as messages: a tierer reports them, the coordinator keeps them."""

from __future__ import annotations

from functools import lru_cache

from tiering.errors import InvalidArgument
from tiering.model.splits import SplitPosition, SplitProgress, SplitState, TieringLogSplit, TieringSnapshotSplit, TieringSplit
from tiering.model.tables import TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.common import bucket_from_pb, bucket_to_pb
from tiering.wire.request_bounds import informative


def split_to_pb(number: int, progress: SplitProgress) -> pb.PbSplitProgress:
    """The split that its round counts as `number`, with how far it is."""
    split, position = progress.split, progress.position
    message = pb.PbSplitProgress(
        number=number,
        bucket=bucket_to_pb(split.bucket),
        partition_name=split.partition_name,
        backlog_offset=split.backlog_offset,
        state=position.state.value,
        attempt=position.attempt,
        executor=position.executor,
        current_offset=position.current_offset,
        records=position.records,
    )
    if isinstance(split, TieringSnapshotSplit):
        message.snapshot_id, message.stopping_offset = split.snapshot_id, split.log_offset_of_snapshot
    else:
        message.starting_offset, message.stopping_offset = split.starting_offset, split.stopping_offset
    return message


def split_from_pb(message: pb.PbSplitProgress, path: TablePath) -> SplitProgress:
    """The split of a table's round that `split_to_pb` made the message of, its texts cut. Raises InvalidArgument for an unknown state."""
    if message.state not in SplitState.__members__:
        raise InvalidArgument(f"a split has no state {_text(message.state)!r}", hint=f"These are {', '.join(SplitState)}.")
    position = SplitPosition(
        state=SplitState(message.state),
        attempt=message.attempt,
        executor=_text(message.executor) if message.HasField("executor") else None,
        current_offset=message.current_offset if message.HasField("current_offset") else None,
        records=message.records,
    )
    return SplitProgress(_split(message, path), position)


def _split(message: pb.PbSplitProgress, path: TablePath) -> TieringSplit:
    bucket = bucket_from_pb(message.bucket)
    name = _text(message.partition_name) if message.HasField("partition_name") else None
    backlog_offset = message.backlog_offset if message.HasField("backlog_offset") else None
    if message.HasField("snapshot_id"):
        return TieringSnapshotSplit(path, bucket, name, message.snapshot_id, message.stopping_offset, backlog_offset)
    return TieringLogSplit(path, bucket, name, message.starting_offset, message.stopping_offset, backlog_offset)


@lru_cache(4_096)
def _text(text: str) -> str:
    """`informative`, once for a name: thousands of splits share a few executors and partitions, and then their text, too."""
    return informative(text)
