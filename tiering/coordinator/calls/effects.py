"""What a procedure does, declared beside its request, and what it works with.

    @effect(PauseTiering, pool=Pool.STORE)
    def pause_tiering(parts: CallParts, request: PauseTiering) -> PauseResult: ...

An effect belongs to a request class, so `control` finds it by the class of a request; nothing else lists the effects. It blocks, in the
threads of its pool. One that tells how it gets on is an async generator under `effect_with_progress`, and hands its blocking steps to
`parts.threads` itself.
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
    """Threads, apart by what their work may wait for: a lake or a cluster that hangs must keep nobody from pausing a table."""

    STORE = "store-call"
    LAKE_LOOK = "lake-look"
    EXPLANATION = "explanation"
    REPAIR = "repair"
    LEASE = "lease-call"
    VALIDATION = "validation"


_THREADS = {Pool.STORE: 8, Pool.LAKE_LOOK: 32, Pool.EXPLANATION: 8, Pool.REPAIR: 16, Pool.LEASE: 2, Pool.VALIDATION: 1}
"""Of those that may wait for a lake more than ever work: a table that hangs keeps one until a deadline."""


class CallThreads:
    """The threads of every pool."""

    def __init__(self) -> None:
        self._pools = {pool: ThreadPoolExecutor(number, thread_name_prefix=pool) for pool, number in _THREADS.items()}

    def run(self, pool: Pool, step: Callable[[], ResultT]) -> asyncio.Future[ResultT]:
        """What `step` returns, or an Exception, whatever it ends with. Call it in an event loop."""
        return asyncio.get_running_loop().run_in_executor(self._pools[pool], carried(contained(step)))

    def close(self) -> None:
        """Takes no more work; what runs ends by itself."""
        for pool, threads in self._pools.items():
            threads.shutdown(wait=False, cancel_futures=pool is Pool.VALIDATION)


class TiererControl(Protocol):
    """What calls need of the tierers. `is_known` and `fence` are for callers that hold the records' lock."""

    def tierers(self) -> Sequence[TiererRecord]:
        """All that were heard of within the service timeout."""
        ...

    def is_known(self, tierer_id: str) -> bool:
        """Whether a process with this id was heard of within the service timeout."""
        ...

    def fence(self, tierer_id: str, incarnations: Collection[str]) -> list[str]:
        """Gives no more tables to the processes that are known under the id, nor to those of `incarnations`; names them for the event."""
        ...


@dataclass(frozen=True)
class CallParts:
    """The parts of a coordinator that effects work with."""

    table_records: TableRecords
    cluster: ClusterOwner
    lakes: Lakes
    discovery: Discovery
    observer: LagObserver
    operations: IdempotentOperations
    table_lock: Callable[[int], AbstractContextManager[object]]
    """By table id the lock that acks take too."""
    tierer_connected: Callable[[], bool]
    tierers: TiererControl
    notifications: ClusterNotifications
    """Whether the cluster may be told of a lake snapshot."""
    known_tables: KnownTables
    """The tables as whoever calls may see them."""
    upkeep: UpkeepNeeds
    """What upkeep the tables need."""
    validator: Validator | None
    """How a validation's child process is started; None = this service cannot validate."""
    grants: Grants = field(default_factory=Grants)
    """Who may do what."""
    threads: CallThreads = field(default_factory=CallThreads)
    looks: LakeLooks = field(default_factory=LakeLooks)
    sightings: FileSightings = field(default_factory=FileSightings)
    """What sweeps saw of the lake tables' files."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the service stops: calls that wait answer with how things stand."""
    validation_turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class BlockingEffect:
    """`run(parts, request)` returns the result."""

    pool: Pool
    run: Callable[[CallParts, Any], Any]


@dataclass(frozen=True)
class StreamedEffect:
    """`run(parts, request)` yields any number of Progress, then the result."""

    run: Callable[[CallParts, Any], AsyncGenerator[Any, None]]


Effect = BlockingEffect | StreamedEffect
Work = Callable[[CallParts, RequestT], ResultT]
Stream = Callable[[CallParts, RequestT], AsyncGenerator[Progress | ResultT, None]]

_EFFECTS: dict[type[CallRequest[Any]], Effect] = {}


def effect(request_class: type[RequestT], *, pool: Pool) -> Callable[[Work[RequestT, ResultT]], Work[RequestT, ResultT]]:
    """Makes a function the effect of the requests of a class."""

    def declare(run: Work[RequestT, ResultT]) -> Work[RequestT, ResultT]:
        _EFFECTS[request_class] = BlockingEffect(pool, run)
        return run

    return declare


def effect_with_progress(request_class: type[RequestT]) -> Callable[[Stream[RequestT, ResultT]], Stream[RequestT, ResultT]]:
    """Makes an async generator the effect of the requests of a class."""

    def declare(run: Stream[RequestT, ResultT]) -> Stream[RequestT, ResultT]:
        _EFFECTS[request_class] = StreamedEffect(run)
        return run

    return declare


def request_class(procedure: str) -> type[CallRequest[Any]] | None:
    """The class of the requests of a procedure; None if there is none."""
    return next((declared for declared in _EFFECTS if declared.procedure == procedure), None)


def effect_of(request: CallRequest[Any]) -> Effect:
    """The effect that the module of the request's class declares."""
    return _EFFECTS[type(request)]
