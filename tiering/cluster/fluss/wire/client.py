"""A client of a Fluss cluster: asks its coordinator, or the tablet server that leads a bucket.

One connection a server, shared by all threads. A call is repeated only if that is harmless (`Api.repeatable`), or if it was never sent;
while the coordinator moves or starts again, for as long as `FlussConnection.patience_s`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from google.protobuf.message import Message

from tiering.cluster.fluss.connection_options import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import NEEDED_OF_A_COORDINATOR, Api, api_of
from tiering.cluster.fluss.wire.connection import ConnectionBroken, ServerConnection
from tiering.cluster.fluss.wire.errors import error_code
from tiering.cluster.fluss.wire.metadata import ClusterMetadata, ClusterServers
from tiering.cluster.fluss.wire.pool import ConnectionPool
from tiering.errors import ClusterUnavailable, LakewardError, PeerTooOld, UnknownPartition, UnknownTable
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0


class FlussClient:
    """Connects at the first call. Safe for several threads; a forked process needs its own."""

    def __init__(self, connection: FlussConnection) -> None:
        """Raises InvalidArgument for addresses that are none."""
        self._options = connection
        self._pool = ConnectionPool(connection)
        self._metadata = ClusterMetadata(connection, self._pool)

    def coordinator(self, request: Message) -> Any:
        """The coordinator's answer to a request, whichever of the cluster's servers was named.

        Raises ClusterUnavailable, ClusterAccessDenied, SetupError (no password), PeerTooOld for a server without the calls that tiering
        needs, and the error of a code that it answered with.
        """
        api = api_of(request)
        deadline = time.monotonic() + self._options.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self._coordinator_connection().call(api, request)
            except ConnectionBroken as broken:
                self._metadata.forget_servers()
                if not self._may_repeat(api, broken) or time.monotonic() + pause > deadline:
                    raise broken.error from broken
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def call(self, server: ServerAddress, request: Message) -> Any:
        """The answer of one server. A connection that broke since it was last used is opened again, once.

        Raises ClusterUnavailable, ClusterAccessDenied, PeerTooOld, and the error of a code that it answered with.
        """
        api = api_of(request)
        try:
            try:
                return self._pool.connection(server).call(api, request)
            except ConnectionBroken as broken:
                if broken.sent and not api.repeatable:
                    raise
            return self._pool.connection(server).call(api, request)
        except ConnectionBroken as broken:
            self._metadata.forget_servers()
            raise broken.error from broken

    def coordinator_connection(self) -> ServerConnection:
        """The connection to the coordinator that is open now, or a new one. Raises as `coordinator`."""
        try:
            return self._coordinator_connection()
        except ConnectionBroken as broken:
            self._metadata.forget_servers()
            raise broken.error from broken

    def call_over(self, connection: ServerConnection, api: Api, request: Message) -> Any:
        """An answer over this connection and no other: for what holds as long as it does. Never repeated. Raises as `call`."""
        try:
            return connection.call(api, request)
        except ConnectionBroken as broken:
            self._metadata.forget_servers()
            raise broken.error from broken

    def leader_of(self, path: TablePath, table_id: int, bucket: BucketKey) -> ServerAddress:
        """The tablet server that leads a bucket, as remembered or asked now.

        Raises ClusterUnavailable while nobody does, UnknownTable if the table id is gone, UnknownPartition.
        """
        leaders = self.leaders_of(path, table_id, [bucket])
        if bucket not in leaders:
            self._check_there(path, table_id, [bucket])
            raise ClusterUnavailable(
                f"bucket {bucket} of {path} has no leader now",
                hint="It gets one when a tablet server with a replica of it is up.",
                table_id=table_id,
                bucket=bucket,
            )
        return leaders[bucket]

    def leaders_of(self, path: TablePath, table_id: int, buckets: Collection[BucketKey]) -> Mapping[BucketKey, ServerAddress]:
        """The same of several buckets in one question; those that nobody leads are left out."""
        try:
            return self._metadata.leaders(path, table_id, buckets)
        except ConnectionBroken as broken:
            raise broken.error from broken
        except LakewardError as refusal:
            if error_code(refusal) is not None:
                self._check_there(path, table_id, buckets)
            raise

    def forget_leader(self, path: TablePath, table_id: int, bucket: BucketKey) -> None:
        """Asks who leads the bucket when it is next needed: a server said that it is not it, or did not answer."""
        self._metadata.forget_leader(table_id, bucket)

    def servers(self) -> ClusterServers:
        """The cluster's servers as it knows them now. Raises as `coordinator`."""
        self._metadata.forget_servers()
        try:
            return self._metadata.servers()
        except ConnectionBroken as broken:
            raise broken.error from broken

    def offers(self, *apis: Api) -> bool:
        """Whether the coordinator takes all of these calls. Raises as `coordinator`."""
        return not self.coordinator_connection().offered.missing(apis)

    def missing(self, server: ServerAddress, *apis: Api) -> list[str]:
        """Those of the calls that one server does not take, each with the reason. Raises as `call`."""
        try:
            return self._pool.connection(server).offered.missing(apis)
        except ConnectionBroken as broken:
            raise broken.error from broken

    def close(self) -> None:
        """Ends its connections; whoever waits for an answer gets ClusterUnavailable."""
        self._pool.close()

    def _may_repeat(self, api: Api, broken: ConnectionBroken) -> bool:
        """A cluster that was never reached is reported at once: its address may be wrong."""
        return self._metadata.answered_before and (api.repeatable or not broken.sent)

    def _coordinator_connection(self) -> ServerConnection:
        connection = self._pool.connection(self._metadata.coordinator())
        missing = connection.offered.missing(NEEDED_OF_A_COORDINATOR)
        if missing:
            raise PeerTooOld(
                f"the coordinator of the Fluss cluster at {connection.address} does not take {', '.join(missing)}: tiering needs it",
                hint="Use Fluss 0.9.1, or a later version that has these calls.",
            )
        return connection

    def _check_there(self, path: TablePath, table_id: int, buckets: Collection[BucketKey]) -> None:
        """Raises UnknownTable or UnknownPartition if that is why Metadata knows no leader.

        For a table that is gone servers answer it with any failure, or without leaders; just after a start also for tables that are there.
        """
        table_path = pb.PbTablePath(database_name=path.database_name, table_name=path.table_name)
        if self.coordinator(pb.GetTableInfoRequest(table_path=table_path)).table_id != table_id:
            raise UnknownTable(f"table {path} with id {table_id} is gone: another one has its name now", table_id=table_id)
        partitions = {bucket.partition_id for bucket in buckets} - {None}
        if partitions:
            answer = self.coordinator(pb.ListPartitionInfosRequest(table_path=table_path))
            gone = partitions - {partition.partition_id for partition in answer.partitions_info}
            if gone:
                raise UnknownPartition(f"partitions {sorted(map(str, gone))} of {path} are gone", table_id=table_id)
