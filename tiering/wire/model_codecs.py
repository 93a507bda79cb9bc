"""The values of the model and their messages. Most pairs are one line, because their fields have the same names."""

from __future__ import annotations

from functools import lru_cache

from tiering.access.request_bounds import informative
from tiering.errors import InvalidArgument
from tiering.model.leases import KvSnapshotLease
from tiering.model.rounds import Assignment, RanOn, RecordedLakeSnapshot, RoundStats
from tiering.model.splits import SplitPosition, SplitProgress, SplitState, TieringLogSplit, TieringSnapshotSplit
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, TableBucket, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbBucket, PbBucketOffset, PbRecordedSnapshot, PbTableBucket, PbTablePath
from tiering.rpc.v1.status_pb2 import ListTieringStatusesResponse, PbKvSnapshotLease, PbTableTieringStatus
from tiering.wire.codec import Codec, MappingCodec, time_from_pb


def not_negative(number: int) -> int:
    """Returns the number, or 0 for one below 0: the numbers that a tierer reports are shown and decide nothing."""
    return max(number, 0)


_informative = lru_cache(4_096)(informative)
"""`informative`, once for each name: thousands of splits share a few executors and partitions."""

PATH = Codec(TablePath, PbTablePath)
"""A path that was read has unchecked names: the receiver of a request checks them with `tiering.model.names.table_path`."""
BUCKET = Codec(BucketKey, PbBucket)
TABLE_BUCKET = Codec(TableBucket, PbTableBucket)
OFFSETS = MappingCodec(BucketKey, int, PbBucketOffset)
RECORDED_SNAPSHOT = Codec(RecordedLakeSnapshot, PbRecordedSnapshot)
SNAPSHOTS_TO_LEASE = MappingCodec(TableBucket, int, pb.PbSnapshotToLease)
LEASE = Codec(KvSnapshotLease, PbKvSnapshotLease)
ASSIGNMENT = Codec(Assignment, pb.PbLakeTieringTableInfo, elsewhere=("coordinator_epoch",))
ROUND_STATS = Codec(RoundStats, pb.PbRoundStats, reading={int: not_negative, str: informative})

STATUS_ELSEWHERE = ("database_name", "table_name", "observed_time")
"""Fields of a status that the message has in its path, and the response once for all statuses."""
_STATUS = Codec(TableStatus, PbTableTieringStatus, elsewhere=STATUS_ELSEWHERE, beside=("table_path",))
_LOG_SPLIT = Codec(TieringLogSplit, pb.PbTieringLogSplit, elsewhere=("table_path",), reading={str: _informative})
_SNAPSHOT_SPLIT = Codec(TieringSnapshotSplit, pb.PbTieringSnapshotSplit, elsewhere=("table_path",), reading={str: _informative})
_POSITION = Codec(SplitPosition, pb.PbSplitPosition, reading={str: _informative})


def status_to_pb(status: TableStatus) -> PbTableTieringStatus:
    """Returns the status as a message. Its first six fields are those of Fluss's proposal."""
    return _STATUS.to_pb(status, table_path=PbTablePath(database_name=status.database_name, table_name=status.table_name))


def statuses_from_pb(page: ListTieringStatusesResponse) -> list[TableStatus]:
    """Returns the statuses of one page. Raises ValueError or OverflowError for a time that Python's datetime cannot represent."""
    observed_time = time_from_pb(page.observed_time)
    return [
        _STATUS.from_pb(
            status,
            database_name=status.table_path.database_name,
            table_name=status.table_path.table_name,
            observed_time=observed_time,
        )
        for status in page.tiering_statuses
    ]


def stats_from_pb(message: pb.PbRoundStats) -> RoundStats:
    """Returns the statistics that a tierer reported. An unknown place is removed from the message, and is None."""
    if message.place.ran_on not in RanOn.__members__:
        message.ClearField("place")
    return ROUND_STATS.from_pb(message)


def split_to_pb(number: int, progress: SplitProgress) -> pb.PbSplitProgress:
    """Returns a split with its progress and its number within the round's run."""
    split, position = progress.split, _POSITION.to_pb(progress.position)
    if isinstance(split, TieringSnapshotSplit):
        return pb.PbSplitProgress(number=number, snapshot_split=_SNAPSHOT_SPLIT.to_pb(split), position=position)
    return pb.PbSplitProgress(number=number, log_split=_LOG_SPLIT.to_pb(split), position=position)


def split_from_pb(message: pb.PbSplitProgress, path: TablePath) -> SplitProgress:
    """Returns a split of a table's round, with its texts cut. Raises InvalidArgument for an unknown state."""
    state = message.position.state
    if state not in SplitState.__members__:
        raise InvalidArgument(f"a split has no state {_informative(state)!r}", hint=f"These are {', '.join(SplitState)}.")
    position = _POSITION.from_pb(message.position)
    if message.HasField("snapshot_split"):
        return SplitProgress(_SNAPSHOT_SPLIT.from_pb(message.snapshot_split, table_path=path), position)
    return SplitProgress(_LOG_SPLIT.from_pb(message.log_split, table_path=path), position)
