"""Effects of procedures, declared beside their requests, and the parts that effects use.

    @effect(PauseTiering, pool=Pool.STORE)
    def pause_tiering(parts: CallParts, request: PauseTiering) -> PauseResult: ...

An effect belongs to a request class, so `control` finds it by the class of a request; there is no other list of effects. It blocks, in the
threads of its pool. An effect that reports progress is an async generator under `effect_with_progress`, and runs its blocking steps in
`parts.threads`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tiering.access.grants import Grants
from tiering.cluster.base import ClusterOwner
from tiering.coordinator.decisions.records import TiererRecord
from tiering.coordinator.memory.cluster_notifications import ClusterNotifications
from tiering.coordinator.memory.idempotency import IdempotentOperations
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.known_tables import KnownTables
from tiering.coordinator.observing.lag import LagObserver
from tiering.coordinator.observing.lake_looks import LakeLooks
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.observing.upkeep_needs import UpkeepNeeds
from tiering.coordinator.requests import CallRequest
from tiering.lake.rules.upkeep.expired_files import FileSightings
from tiering.library_guards.panics import contained
from tiering.log_context import carried
from tiering.model.call_results import Progress

if TYPE_CHECKING:
    from tiering.coordinator.calls.validate_table import Validator

ResultT = TypeVar("ResultT")
RequestT = TypeVar("RequestT", bound=CallRequest[Any])


class Pool(StrEnum):
    """Threads, separated by what their work may wait for: a lake or a cluster that hangs must not keep users from pausing a table."""

    STORE = "store-call"
    LAKE_LOOK = "lake-look"
    EXPLANATION = "explanation"
    REPAIR = "repair"
    LEASE = "lease-call"
    VALIDATION = "validation"


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


class TiererControl(Protocol):
    """The interface to tierers that calls need. Callers of `is_known` and `fence` hold the records' lock."""

    def tierers(self) -> Sequence[TiererRecord]:
        """Returns the tierers with a heartbeat within the service timeout."""
        ...

    def is_known(self, tierer_id: str) -> bool:
        """Returns whether a process with this id sent a heartbeat within the service timeout."""
        ...

    def fence(self, tierer_id: str, incarnations: Collection[str]) -> list[str]:
        """Gives no more tables to the known processes with this id, nor to those in `incarnations`. Returns digests for the event."""
        ...


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
    tierers: TiererControl
    notifications: ClusterNotifications
    """When the cluster may be notified of a lake snapshot."""
    known_tables: KnownTables
    """The tables as the caller may see them."""
    upkeep: UpkeepNeeds
    """The upkeep that tables need."""
    validator: Validator | None
    """Starts the child process of a validation; None if this service cannot validate."""
    grants: Grants = field(default_factory=Grants)
    """The privileges of callers."""
    threads: CallThreads = field(default_factory=CallThreads)
    looks: LakeLooks = field(default_factory=LakeLooks)
    sightings: FileSightings = field(default_factory=FileSightings)
    """The lake tables' files that sweeps saw."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the service stops. Waiting calls then answer with the present state."""
    validation_turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class BlockingEffect:
    """An effect that blocks: `run(parts, request)` returns the result."""

    pool: Pool
    run: Callable[[CallParts, Any], Any]


@dataclass(frozen=True)
class StreamedEffect:
    """An effect with progress: `run(parts, request)` yields any number of Progress, then the result."""

    run: Callable[[CallParts, Any], AsyncGenerator[Any, None]]


Effect = BlockingEffect | StreamedEffect
Work = Callable[[CallParts, RequestT], ResultT]
Stream = Callable[[CallParts, RequestT], AsyncGenerator[Progress | ResultT, None]]

_EFFECTS: dict[type[CallRequest[Any]], Effect] = {}


def effect(request_class: type[RequestT], *, pool: Pool) -> Callable[[Work[RequestT, ResultT]], Work[RequestT, ResultT]]:
    """Declares a function as the effect of a request class."""

    def declare(run: Work[RequestT, ResultT]) -> Work[RequestT, ResultT]:
        _EFFECTS[request_class] = BlockingEffect(pool, run)
        return run

    return declare


def effect_with_progress(request_class: type[RequestT]) -> Callable[[Stream[RequestT, ResultT]], Stream[RequestT, ResultT]]:
    """Declares an async generator as the effect of a request class."""

    def declare(run: Stream[RequestT, ResultT]) -> Stream[RequestT, ResultT]:
        _EFFECTS[request_class] = StreamedEffect(run)
        return run

    return declare


def request_class(procedure: str) -> type[CallRequest[Any]] | None:
    """Returns the request class of a procedure; None if there is none."""
    return next((declared for declared in _EFFECTS if declared.procedure == procedure), None)


def effect_of(request: CallRequest[Any]) -> Effect:
    """Returns the effect that is declared for the request's class."""
    return _EFFECTS[type(request)]
