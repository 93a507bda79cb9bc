"""A client of a Fluss cluster: it calls the coordinator, or the tablet server that leads a bucket.

There is one connection for each server, shared by all threads. A call is repeated only if that is harmless (`Api.repeatable`), or if it was
never sent; while the coordinator moves or restarts, for as long as `FlussConnection.patience_s`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from google.protobuf.message import Message

from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import ALTER_DATABASE_KEY, NEEDED_OF_A_COORDINATOR, Api, api_of, path_to_pb
from tiering.cluster.fluss.wire.connection import ConnectionBroken, ConnectionPool, ServerConnection
from tiering.cluster.fluss.wire.errors import error_code
from tiering.cluster.fluss.wire.metadata import ClusterMetadata, ClusterServers
from tiering.errors import ClusterUnavailable, LakewardError, PeerTooOld, UnknownPartition, UnknownTable
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0


class FlussClient:
    """Connects on the first call. Safe to use from several threads; a forked process needs its own client."""

    def __init__(self, connection: FlussConnection) -> None:
        """Creates a client without connecting. Raises InvalidArgument for invalid addresses."""
        self._options = connection
        self._pool = ConnectionPool(connection)
        self._metadata = ClusterMetadata(connection, self._pool)

    def coordinator(self, request: Message) -> Any:
        """Returns the coordinator's answer to a request, whichever of the cluster's servers was configured.

        Raises ClusterUnavailable, ClusterAccessDenied, SetupError (no password), PeerTooOld for a server without the calls that tiering
        needs, and the error of an error code in the answer.
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
        """Returns the answer of one server. A connection that broke since its last use is opened again, once.

        Raises ClusterUnavailable, ClusterAccessDenied, PeerTooOld, and the error of an error code in the answer.
        """
        api = api_of(request)
        with self._unavailable_if_broken():
            try:
                return self._pool.connection(server).call(api, request)
            except ConnectionBroken as broken:
                if broken.sent and not api.repeatable:
                    raise
            return self._pool.connection(server).call(api, request)

    def coordinator_connection(self) -> ServerConnection:
        """Returns the open connection to the coordinator, or a new one. Raises the errors of `coordinator`."""
        with self._unavailable_if_broken():
            return self._coordinator_connection()

    def call_over(self, connection: ServerConnection, api: Api, request: Message) -> Any:
        """Returns an answer over exactly this connection, for state that depends on it. Never repeats the call. Raises the errors of
        `call`.
        """
        with self._unavailable_if_broken():
            return connection.call(api, request)

    def leader_of(self, path: TablePath, table_id: int, bucket: BucketKey) -> ServerAddress:
        """Returns the tablet server that leads a bucket, from memory or from a request.

        Raises ClusterUnavailable while the bucket has no leader, UnknownTable if the table id does not exist any more, UnknownPartition.
        """
        leaders = self.leaders_of(path, table_id, [bucket])
        if bucket not in leaders:
            self._check_there(path, table_id, [bucket])
            raise ClusterUnavailable(
                f"bucket {bucket} of {path} has no leader now",
                hint="The bucket gets a leader when a tablet server with one of its replicas runs.",
                table_id=table_id,
                bucket=bucket,
            )
        return leaders[bucket]

    def leaders_of(self, path: TablePath, table_id: int, buckets: Collection[BucketKey]) -> Mapping[BucketKey, ServerAddress]:
        """Returns the leaders of several buckets with one request; buckets without a leader are left out."""
        try:
            with self._unavailable_if_broken():
                return self._metadata.leaders(path, table_id, buckets)
        except LakewardError as refusal:
            if error_code(refusal) is not None:
                self._check_there(path, table_id, buckets)
            raise

    def routing(self, table_id: int, partition_id: int | None) -> int | None:
        """Returns the number of buckets that a request about a log of this partition has to name; None = the server reported none.

        It is learned together with the leaders, so after error 74 (INVALID_BUCKET_ROUTING) the next lookup of a leader corrects it.
        """
        return self._metadata.routing(table_id, partition_id)

    def bucket_counts(self, table_id: int, path: TablePath, partition_ids: Collection[int]) -> Mapping[int, int]:
        """Returns the number of buckets of these partitions, as Metadata reports it. Raises the errors of `leaders_of`."""
        with self._unavailable_if_broken():
            return self._metadata.bucket_counts(table_id, path, partition_ids)

    def is_release_1(self) -> bool:
        """Returns whether the coordinator is of Fluss 1.0 or newer. Fluss's coordinator is upgraded after the tablet servers."""
        return ALTER_DATABASE_KEY in self.coordinator_connection().offered.versions

    def forget_leader(self, path: TablePath, table_id: int, bucket: BucketKey) -> None:
        """Forgets the bucket's leader, because the server denied leading it or did not answer; the next use requests it again."""
        self._metadata.forget_leader(table_id, bucket)

    def servers(self) -> ClusterServers:
        """Returns the cluster's present servers. Raises the errors of `coordinator`."""
        self._metadata.forget_servers()
        with self._unavailable_if_broken():
            return self._metadata.servers()

    def offers(self, *apis: Api) -> bool:
        """Returns whether the coordinator supports all of these calls. Raises the errors of `coordinator`."""
        return not self.coordinator_connection().offered.missing(apis)

    def missing(self, server: ServerAddress, *apis: Api) -> list[str]:
        """Returns the calls that one server does not support, each with the reason. Raises the errors of `call`."""
        with self._unavailable_if_broken():
            return self._pool.connection(server).offered.missing(apis)

    def close(self) -> None:
        """Closes all connections; a caller that waits for an answer gets ClusterUnavailable."""
        self._pool.close()

    @contextmanager
    def _unavailable_if_broken(self) -> Iterator[None]:
        """Raises the user's error for a broken connection. The next call looks up the servers again, because they may have moved."""
        try:
            yield
        except ConnectionBroken as broken:
            self._metadata.forget_servers()
            raise broken.error from broken

    def _may_repeat(self, api: Api, broken: ConnectionBroken) -> bool:
        """Returns whether a call may be repeated. A cluster that was never reached is reported at once, because its address may be
        wrong.
        """
        return self._metadata.answered_before and (api.repeatable or not broken.sent)

    def _coordinator_connection(self) -> ServerConnection:
        connection = self._pool.connection(self._metadata.coordinator())
        missing = connection.offered.missing(NEEDED_OF_A_COORDINATOR)
        if missing:
            raise PeerTooOld(
                f"the coordinator of the Fluss cluster at {connection.address} does not support {', '.join(missing)}, which tiering needs",
                hint="Use Fluss 0.9.1, or a later version that has these calls.",
            )
        return connection

    def _check_there(self, path: TablePath, table_id: int, buckets: Collection[BucketKey]) -> None:
        """Raises UnknownTable or UnknownPartition if that is why Metadata returns no leader.

        For a table that does not exist any more, servers answer Metadata with any failure, or without leaders; just after a start they do
        so for existing tables too.
        """
        table_path = path_to_pb(path)
        if self.coordinator(pb.GetTableInfoRequest(table_path=table_path)).table_id != table_id:
            raise UnknownTable(f"table {path} with id {table_id} does not exist any more: another one has its name", table_id=table_id)
        partitions = {bucket.partition_id for bucket in buckets} - {None}
        if partitions:
            answer = self.coordinator(pb.ListPartitionInfosRequest(table_path=table_path))
            missing = partitions - {partition.partition_id for partition in answer.partitions_info}
            if missing:
                raise UnknownPartition(f"partitions {sorted(map(str, missing))} of {path} do not exist any more", table_id=table_id)
