"""The servers of a cluster, its coordinator, and the leaders of buckets: requested once, and again after a move.

Any server of a cluster answers Metadata, so any of them can be the first.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import METADATA, path_to_pb
from tiering.cluster.fluss.wire.connection import ConnectionBroken, ConnectionPool
from tiering.cluster.fluss.wire.errors import error_code
from tiering.errors import ClusterAccessDenied, ClusterUnavailable, LakewardError, UnknownTable
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb


@dataclass(frozen=True)
class ClusterServers:
    """The servers of a cluster, as it reports them. `coordinator` is None while there is none."""

    coordinator: ServerAddress | None
    tablet_servers: Mapping[int, ServerAddress] = field(default_factory=dict)
    """Tablet servers by server id."""


class ClusterMetadata:
    """Remembers the answers of Metadata. Safe to use from any number of threads."""

    def __init__(self, options: FlussConnection, pool: ConnectionPool) -> None:
        self._bootstrap = options.bootstrap
        self._pool = pool
        self._lock = threading.Lock()
        self._servers: ClusterServers | None = None
        self._leaders: dict[tuple[int, BucketKey], ServerAddress] = {}
        self._routing: dict[tuple[int, int | None], int] = {}
        self._known_servers: tuple[ServerAddress, ...] = ()

    @property
    def answered_before(self) -> bool:
        """Returns whether this cluster was ever reached."""
        return bool(self._known_servers)

    def servers(self) -> ClusterServers:
        """Returns the cluster's servers, from memory or from a request. Raises ConnectionBroken, and the errors of a handshake."""
        servers = self._servers
        return servers if servers is not None else self._keep_servers(self._ask(pb.MetadataRequest()))

    def coordinator(self) -> ServerAddress:
        """Returns the coordinator's address. Raises the errors of `servers`; ConnectionBroken also while the cluster has no coordinator."""
        servers = self.servers()
        if servers.coordinator is None:
            self.forget_servers()
            raise ConnectionBroken(
                ClusterUnavailable("the Fluss cluster has no coordinator server now", hint="Start its coordinator server."), sent=False
            )
        return servers.coordinator

    def forget_servers(self) -> None:
        """Forgets the servers; the next use requests them again."""
        self._servers = None

    def forget_leader(self, table_id: int, bucket: BucketKey) -> None:
        """Forgets a bucket's leader; the next use requests it again."""
        with self._lock:
            self._leaders.pop((table_id, bucket), None)

    def routing(self, table_id: int, partition_id: int | None) -> int | None:
        """Returns the number of buckets that Metadata reported last for a partition; None = none, as before 1.0."""
        with self._lock:
            return self._routing.get((table_id, partition_id))

    def bucket_counts(self, table_id: int, path: TablePath, partition_ids: Collection[int]) -> dict[int, int]:
        """Returns the numbers of buckets of partitions: those that are reported, or else the number of the buckets that are described.

        Leaves out partitions that do not exist any more. Raises the errors of `leaders`.
        """
        answer = self._ask(pb.MetadataRequest(table_path=[path_to_pb(path)], partitions_id=sorted(partition_ids)))
        self._keep_leaders(path, table_id, answer)
        return {
            partition.partition_id: partition.bucket_count or len(partition.bucket_metadata)
            for partition in answer.partition_metadata
            if partition.table_id == table_id and (partition.bucket_count or partition.bucket_metadata)
        }

    def leaders(self, path: TablePath, table_id: int, buckets: Collection[BucketKey]) -> dict[BucketKey, ServerAddress]:
        """Returns the leaders of the buckets; buckets without a leader are left out.

        Raises UnknownTable if another table has the name now, the errors of the servers' answers, and the errors of `servers`.
        """
        with self._lock:
            leaders = {bucket: self._leaders[table_id, bucket] for bucket in buckets if (table_id, bucket) in self._leaders}
        missing = [bucket for bucket in buckets if bucket not in leaders]
        if missing:
            request = pb.MetadataRequest(
                table_path=[path_to_pb(path)],
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
        addresses = ([] if servers.coordinator is None else [servers.coordinator]) + list(servers.tablet_servers.values())
        self._known_servers = tuple(addresses) or self._known_servers
        return servers

    def _keep_leaders(self, path: TablePath, table_id: int, answer: pb.MetadataResponse) -> dict[BucketKey, ServerAddress]:
        servers = self._keep_servers(answer)
        fresh: dict[BucketKey, ServerAddress] = {}
        routing: dict[tuple[int, int | None], int] = {}
        for table in answer.table_metadata:
            if table.table_id != table_id:
                raise UnknownTable(f"table {path} with id {table_id} does not exist any more: another one has its name", table_id=table_id)
            fresh |= _leaders(None, table.bucket_metadata, servers)
        for partition in answer.partition_metadata:
            if partition.table_id == table_id:
                fresh |= _leaders(partition.partition_id, partition.bucket_metadata, servers)
                if partition.HasField("bucket_count"):
                    routing[table_id, partition.partition_id] = partition.bucket_count
        with self._lock:
            self._routing |= routing
            self._leaders |= {(table_id, bucket): leader for bucket, leader in fresh.items()}
        return fresh

    def _ask(self, request: pb.MetadataRequest) -> pb.MetadataResponse:
        """Returns the answer of the first server that answers. Raises ConnectionBroken if none does, and the errors of a handshake."""
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
                # A tablet server that has just started knows no table yet; the answer of the coordinator, which is asked first, takes
                # precedence.
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        self.forget_servers()
        first, *other_failures = failures
        if not other_failures:
            raise first
        reasons = "; ".join(broken.error.message for broken in failures)
        raise ConnectionBroken(ClusterUnavailable(f"no server of the Fluss cluster answers: {reasons}", hint=first.error.hint), sent=False)

    def _candidates(self) -> Iterator[ServerAddress]:
        """Yields the coordinator first, then the tablet servers, then the configured servers."""
        yield from dict.fromkeys((*self._known_servers, *self._bootstrap))


def _leaders(
    partition_id: int | None, buckets: Collection[pb.PbBucketMetadata], servers: ClusterServers
) -> Mapping[BucketKey, ServerAddress]:
    return {
        BucketKey(partition_id, bucket.bucket_id): servers.tablet_servers[bucket.leader_id]
        for bucket in buckets
        if bucket.HasField("leader_id") and bucket.leader_id in servers.tablet_servers
    }
