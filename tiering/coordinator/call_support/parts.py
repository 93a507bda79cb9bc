"""The parts of a coordinator that the effects of procedures use, and their threads."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from tiering.access.grants import Grants
from tiering.cluster.base import ClusterOwner
from tiering.coordinator.memory.cluster_notifications import ClusterNotifications
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.memory.tierer_registry import TiererRegistry
from tiering.coordinator.observing.discovery import Discovery, VisibleTables
from tiering.coordinator.observing.lag import LagObserver
from tiering.coordinator.observing.lake_probes import LakeProbes
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.observing.upkeep_needs import UpkeepNeeds
from tiering.lake.rules.upkeep.expired_files import OrphanCandidates
from tiering.library_guards.panics import contained
from tiering.log_context import carried
from tiering.procedures.base import Pool
from tiering.procedures.prove_table import ProveTable, ProveTableResult
from tiering.procedures.validate_table import CheckResult, ValidateTable

ResultT = TypeVar("ResultT")

Started = Callable[[subprocess.Popen[str]], None]
"""Gets a child process as soon as it runs."""
Validator = Callable[[ValidateTable, Started], Sequence[CheckResult]]
"""Validates a table in a child process, and blocks until the child has ended."""


class Prover(Protocol):
    """Validates a table in the same way, and signs a proof with the service's key."""

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the key; None if the service has none that it can use."""

    def __call__(self, request: ProveTable, started: Started) -> tuple[Sequence[CheckResult], ProveTableResult]:
        """Returns the results of the validation, and the signed proof."""


_THREADS = {Pool.STORE: 8, Pool.LAKE_LOOK: 32, Pool.EXPLANATION: 8, Pool.REPAIR: 16, Pool.LEASE: 2, Pool.VALIDATION: 1}
"""Number of threads per pool. Pools that may wait for a lake have more, because a table that hangs keeps one until a deadline."""


class CallThreads:
    """The threads of all pools."""

    def __init__(self) -> None:
        self._pools = {pool: ThreadPoolExecutor(number, thread_name_prefix=pool) for pool, number in _THREADS.items()}

    def run(self, pool: Pool, step: Callable[[], ResultT]) -> asyncio.Future[ResultT]:
        """Runs `step`; the future has its result or an Exception, whatever it raised. Call it in an event loop."""
        return asyncio.get_running_loop().run_in_executor(self._pools[pool], carried(contained(step)))

    def close(self) -> None:
        """Accepts no more work. Running work ends by itself."""
        for pool, threads in self._pools.items():
            threads.shutdown(wait=False, cancel_futures=pool is Pool.VALIDATION)


@dataclass(frozen=True)
class CallParts:
    """The parts of a coordinator that effects use."""

    table_records: TableRecords
    cluster: ClusterOwner
    lakes: Lakes
    discovery: Discovery
    observer: LagObserver
    operations: IdempotentOperations
    table_lock: Callable[[int], AbstractContextManager[object]]
    """Returns the lock of a table, which acks take, too."""
    tierer_connected: Callable[[], bool]
    tierers: TiererRegistry
    notifications: ClusterNotifications
    """When the cluster may be notified of a lake snapshot."""
    visible_tables: VisibleTables
    """The tables as the caller may see them."""
    upkeep: UpkeepNeeds
    """The upkeep that tables need."""
    validator: Validator | None
    """Starts the child process of a validation; None if this service cannot validate."""
    prover: Prover | None = None
    """Starts the child process of a proof; None if this service has no key to sign with."""
    read_snapshots: Callable[[int], frozenset[int] | None] = lambda table_id: frozenset()
    """Returns the lake snapshots that open reads of a table need; None = unknown, while a read is being opened."""
    grants: Grants = field(default_factory=Grants)
    """The privileges of callers."""
    threads: CallThreads = field(default_factory=CallThreads)
    probes: LakeProbes = field(default_factory=LakeProbes)
    candidates: OrphanCandidates = field(default_factory=OrphanCandidates)
    """The lake tables' files that sweeps saw."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the service stops. Waiting calls then answer with the present state."""
    validation_turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class WaitingRequest(Protocol):
    """The arguments with which a call waits for a round."""

    @property
    def timeout_ms(self) -> int: ...

    @property
    def wait_for_tierer(self) -> bool: ...


def end_of_wait(parts: CallParts, request: WaitingRequest, started_since: datetime) -> str | None:
    """Returns why a call no longer waits for its round, for its caller; None while it waits. `started_since` is a steady time."""
    waited = parts.table_records.now().milliseconds_since(started_since)
    if parts.stopping.is_set():
        return "the service stops"
    has_tierer = parts.tierer_connected()
    if waited >= request.timeout_ms:
        return f"not done within {request.timeout_ms} ms" + ("" if has_tierer else ", and no tierer is connected")
    if not request.wait_for_tierer and waited >= parts.table_records.options.tierer_grace_ms and not has_tierer:
        return "no tierer is connected"
    return None
