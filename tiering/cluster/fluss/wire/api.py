"""The calls of Fluss that this project uses: key, request and answer, and which of them may be repeated.

Keys, names and fields are those of Fluss 0.9 and 1.0. This client uses version 0 of each call.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

VERSION = 0
"""The version of every call that this client uses."""


@dataclass(frozen=True)
class Api:
    """One call. `repeatable`: if its answer was lost, sending it again has no further effect."""

    key: int
    request: type[Message]
    response: type[Message]
    repeatable: bool

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    def __str__(self) -> str:
        return f"{self.name} ({self.key})"


API_VERSIONS = Api(1000, pb.ApiVersionsRequest, pb.ApiVersionsResponse, repeatable=True)
LIST_DATABASES = Api(1003, pb.ListDatabasesRequest, pb.ListDatabasesResponse, repeatable=True)
DROP_TABLE = Api(1006, pb.DropTableRequest, pb.DropTableResponse, repeatable=False)
GET_TABLE_INFO = Api(1007, pb.GetTableInfoRequest, pb.GetTableInfoResponse, repeatable=True)
LIST_TABLES = Api(1008, pb.ListTablesRequest, pb.ListTablesResponse, repeatable=True)
LIST_PARTITION_INFOS = Api(1009, pb.ListPartitionInfosRequest, pb.ListPartitionInfosResponse, repeatable=True)
GET_TABLE_SCHEMA = Api(1011, pb.GetTableSchemaRequest, pb.GetTableSchemaResponse, repeatable=True)
METADATA = Api(1012, pb.MetadataRequest, pb.MetadataResponse, repeatable=True)
FETCH_LOG = Api(1015, pb.FetchLogRequest, pb.FetchLogResponse, repeatable=True)
LIST_OFFSETS = Api(1021, pb.ListOffsetsRequest, pb.ListOffsetsResponse, repeatable=True)
GET_LATEST_KV_SNAPSHOTS = Api(1023, pb.GetLatestKvSnapshotsRequest, pb.GetLatestKvSnapshotsResponse, repeatable=True)
GET_KV_SNAPSHOT_METADATA = Api(1024, pb.GetKvSnapshotMetadataRequest, pb.GetKvSnapshotMetadataResponse, repeatable=True)
COMMIT_LAKE_TABLE_SNAPSHOT = Api(1030, pb.CommitLakeTableSnapshotRequest, pb.CommitLakeTableSnapshotResponse, repeatable=False)
"""A repeat may delete the offsets file that the first request registered."""
GET_LAKE_SNAPSHOT = Api(1032, pb.GetLakeSnapshotRequest, pb.GetLakeSnapshotResponse, repeatable=True)
AUTHENTICATE = Api(1038, pb.AuthenticateRequest, pb.AuthenticateResponse, repeatable=False)
LAKE_TIERING_HEARTBEAT = Api(1042, pb.LakeTieringHeartbeatRequest, pb.LakeTieringHeartbeatResponse, repeatable=False)
"""If the request is repeated, a table that the first one assigned counts as assigned already."""
ALTER_TABLE = Api(1044, pb.AlterTableRequest, pb.AlterTableResponse, repeatable=False)
DESCRIBE_CLUSTER_CONFIGS = Api(1045, pb.DescribeClusterConfigsRequest, pb.DescribeClusterConfigsResponse, repeatable=True)
"""The answer contains secrets."""
PREPARE_LAKE_TABLE_SNAPSHOT = Api(1052, pb.PrepareLakeTableSnapshotRequest, pb.PrepareLakeTableSnapshotResponse, repeatable=True)
"""A repeat leaves one more unused file."""
ACQUIRE_KV_SNAPSHOT_LEASE = Api(1056, pb.AcquireKvSnapshotLeaseRequest, pb.AcquireKvSnapshotLeaseResponse, repeatable=True)
RELEASE_KV_SNAPSHOT_LEASE = Api(1057, pb.ReleaseKvSnapshotLeaseRequest, pb.ReleaseKvSnapshotLeaseResponse, repeatable=True)
DROP_KV_SNAPSHOT_LEASE = Api(1058, pb.DropKvSnapshotLeaseRequest, pb.DropKvSnapshotLeaseResponse, repeatable=True)

APIS = tuple(api for api in list(globals().values()) if isinstance(api, Api))
"""All calls above."""
NEEDED_OF_A_COORDINATOR = (COMMIT_LAKE_TABLE_SNAPSHOT, GET_LAKE_SNAPSHOT, LAKE_TIERING_HEARTBEAT, PREPARE_LAKE_TABLE_SNAPSHOT)
"""Calls without which tiering is impossible."""
NEEDED_OF_A_TABLET_SERVER = (FETCH_LOG, LIST_OFFSETS)
"""Calls without which no log can be read."""
LEASES = (ACQUIRE_KV_SNAPSHOT_LEASE, RELEASE_KV_SNAPSHOT_LEASE, DROP_KV_SNAPSHOT_LEASE)
"""Calls without which rounds can continue."""

ALTER_DATABASE_KEY = 1060
"""The lowest key that Fluss has from 1.0 on. This client does not make the call: the key tells the release."""

_BY_REQUEST = {api.request: api for api in APIS}


def api_of(request: Message) -> Api:
    """Returns the call to which a request belongs."""
    return _BY_REQUEST[type(request)]


def path_to_pb(path: TablePath) -> pb.PbTablePath:
    """Returns a table's path as a message of Fluss."""
    return pb.PbTablePath(database_name=path.database_name, table_name=path.table_name)


def bucket_of(message: Any) -> BucketKey:
    """Returns the bucket of a message with `partition_id` and `bucket_id`."""
    return BucketKey(message.partition_id if message.HasField("partition_id") else None, message.bucket_id)


@dataclass(frozen=True)
class SupportedApis:
    """A server's answer to ApiVersions: the lowest and the highest version by key."""

    versions: dict[int, tuple[int, int]]

    @staticmethod
    def of(answer: pb.ApiVersionsResponse) -> SupportedApis:
        return SupportedApis({version.api_key: (version.min_version, version.max_version) for version in answer.api_versions})

    def offers(self, api: Api) -> bool:
        """Returns whether the server supports the call in this client's version."""
        lowest, highest = self.versions.get(api.key, (VERSION + 1, VERSION))
        return lowest <= VERSION <= highest

    def missing(self, apis: Collection[Api]) -> list[str]:
        """Returns the calls that the server does not support, each with the reason."""
        return [self._reason(api) for api in apis if not self.offers(api)]

    def _reason(self, api: Api) -> str:
        if api.key not in self.versions:
            return str(api)
        return f"version {VERSION} of {api} (it supports {self.versions[api.key][0]} to {self.versions[api.key][1]})"
