"""Which servers a cluster has, which of them is its coordinator, and who leads which bucket: asked once and again when it moved.

Any server of a cluster answers Metadata, so any of them will do to begin with.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tiering.cluster.fluss.connection_options import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import METADATA
from tiering.cluster.fluss.wire.connection import ConnectionBroken
from tiering.cluster.fluss.wire.errors import error_code
from tiering.cluster.fluss.wire.pool import ConnectionPool
from tiering.errors import ClusterAccessDenied, ClusterUnavailable, LakewardError, UnknownTable
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb


@dataclass(frozen=True)
class ClusterServers:
    """The servers of a cluster as it knows them. `coordinator` is None while there is none."""

    coordinator: ServerAddress | None
    tablet_servers: Mapping[int, ServerAddress] = field(default_factory=dict)
    """By server id."""


class ClusterMetadata:
    """What Metadata answered, for any number of threads."""

    def __init__(self, options: FlussConnection, pool: ConnectionPool) -> None:
        self._bootstrap = options.bootstrap
        self._pool = pool
        self._lock = threading.Lock()
        self._servers: ClusterServers | None = None
        self._leaders: dict[tuple[int, BucketKey], ServerAddress] = {}
        self._known: tuple[ServerAddress, ...] = ()

    @property
    def answered_before(self) -> bool:
        """Whether this cluster was reached at all."""
        return bool(self._known)

    def servers(self) -> ClusterServers:
        """The cluster's servers, as remembered or asked now. Raises ConnectionBroken, and what a handshake meets."""
        servers = self._servers
        return servers if servers is not None else self._keep_servers(self._ask(pb.MetadataRequest()))

    def coordinator(self) -> ServerAddress:
        """Where the coordinator is. Raises as `servers`; ConnectionBroken too while the cluster has none."""
        servers = self.servers()
        if servers.coordinator is None:
            self.forget_servers()
            raise ConnectionBroken(
                ClusterUnavailable("the Fluss cluster has no coordinator server now", hint="Start its coordinator server."), sent=False
            )
        return servers.coordinator

    def forget_servers(self) -> None:
        """They are asked for again at the next use."""
        self._servers = None

    def forget_leader(self, table_id: int, bucket: BucketKey) -> None:
        """It is asked for again at the next use."""
        with self._lock:
            self._leaders.pop((table_id, bucket), None)

    def leaders(self, path: TablePath, table_id: int, buckets: Collection[BucketKey]) -> dict[BucketKey, ServerAddress]:
        """Who leads which of the buckets; those that nobody leads now are left out.

        Raises UnknownTable if another table has the name now, what the servers answered, and as `servers`.
        """
        with self._lock:
            leaders = {bucket: self._leaders[table_id, bucket] for bucket in buckets if (table_id, bucket) in self._leaders}
        missing = [bucket for bucket in buckets if bucket not in leaders]
        if missing:
            request = pb.MetadataRequest(
                table_path=[pb.PbTablePath(database_name=path.database_name, table_name=path.table_name)],
                partitions_id=sorted({bucket.partition_id for bucket in missing if bucket.partition_id is not None}),
            )
            fresh = self._keep_leaders(path, table_id, self._ask(request))
            leaders |= {bucket: fresh[bucket] for bucket in missing if bucket in fresh}
        return leaders

    def _keep_servers(self, answer: pb.MetadataResponse) -> ClusterServers:
        coordinator = answer.coordinator_server
        servers = ClusterServers(
            ServerAddress(coordinator.host, coordinator.port) if answer.HasField("coordinator_server") else None,
            {node.node_id: ServerAddress(node.host, node.port) for node in answer.tablet_servers},
        )
        self._servers = servers
        known = ([] if servers.coordinator is None else [servers.coordinator]) + list(servers.tablet_servers.values())
        self._known = tuple(known) or self._known
        return servers

    def _keep_leaders(self, path: TablePath, table_id: int, answer: pb.MetadataResponse) -> dict[BucketKey, ServerAddress]:
        servers = self._keep_servers(answer)
        fresh: dict[BucketKey, ServerAddress] = {}
        for table in answer.table_metadata:
            if table.table_id != table_id:
                raise UnknownTable(f"table {path} with id {table_id} is gone: another one has its name now", table_id=table_id)
            fresh |= _leaders(None, table.bucket_metadata, servers)
        for partition in answer.partition_metadata:
            if partition.table_id == table_id:
                fresh |= _leaders(partition.partition_id, partition.bucket_metadata, servers)
        with self._lock:
            self._leaders |= {(table_id, bucket): leader for bucket, leader in fresh.items()}
        return fresh

    def _ask(self, request: pb.MetadataRequest) -> pb.MetadataResponse:
        """Of the first server that answers. Raises ConnectionBroken if none does, and what a handshake meets."""
        failures: list[ConnectionBroken] = []
        refusal: LakewardError | None = None
        for address in self._candidates():
            try:
                answer: pb.MetadataResponse = self._pool.connection(address).call(METADATA, request)
                return answer
            except ConnectionBroken as broken:
                failures.append(broken)
            except LakewardError as error:
                if error_code(error) is None or isinstance(error, ClusterAccessDenied):
                    raise
                # A tablet server that has just started knows no table yet; what the coordinator says, who is asked first, counts.
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        self.forget_servers()
        first, *others = failures
        if not others:
            raise first
        reasons = "; ".join(broken.error.message for broken in failures)
        raise ConnectionBroken(ClusterUnavailable(f"no server of the Fluss cluster answers: {reasons}", hint=first.error.hint), sent=False)

    def _candidates(self) -> Iterator[ServerAddress]:
        """The coordinator first, then the tablet servers, then what the user named."""
        yield from dict.fromkeys((*self._known, *self._bootstrap))


def _leaders(
    partition_id: int | None, buckets: Collection[pb.PbBucketMetadata], servers: ClusterServers
) -> Mapping[BucketKey, ServerAddress]:
    return {
        BucketKey(partition_id, bucket.bucket_id): servers.tablet_servers[bucket.leader_id]
        for bucket in buckets
        if bucket.HasField("leader_id") and bucket.leader_id in servers.tablet_servers
    }
