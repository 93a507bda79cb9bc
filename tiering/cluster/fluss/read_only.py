"""A Fluss cluster as somebody sees it who only reads, such as a validation while the coordinator is stopped."""

from __future__ import annotations

from collections.abc import Sequence

from tiering.clock import SystemClock
from tiering.cluster.fluss.connection_options import FlussConnection
from tiering.cluster.fluss.lease_ledger import LeaseLedger
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.settings import FlussSettings
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.tables import FlussTables
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.leases import KvSnapshotLease


class ReadOnlyFlussCluster(FlussSource):
    """A `ReadOnlyCluster`: asks the cluster's servers, and `memory`, which is closed with it, for what only that knows."""

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings, memory: FlussMemory) -> None:
        super().__init__(connection, client, settings, FlussTables(client, own_options=memory.table_options))
        self._memory = memory

    def leases(self) -> Sequence[KvSnapshotLease]:
        """As `LeaseListing.leases`: those in the ledger of the coordinator."""
        return LeaseLedger(self._memory.engine).leases(SystemClock().now())

    def close(self) -> None:
        """As `SplitSource.close`."""
        super().close()
        self._memory.close()
