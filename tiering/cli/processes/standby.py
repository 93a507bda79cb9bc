"""Several coordinators on one PostgreSQL: one leads, the others stand by and pass calls on to it.

A standby takes over as soon as the leader's session is gone, or when the leader has not beaten for `ASLEEP_SECONDS`. What a leader that
was only asleep writes afterwards is refused by the store, and it ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog

from tiering.access.client_access import TLS_CA, access_from_environment
from tiering.cli.processes.forwarding import ForwardingServer
from tiering.coordinator.memory.database.leader import Leader, LeaderLock
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.errors import Fenced, SetupError, StoreError
from tiering.wire.channel import host_and_port
from tiering.wire.security.server_tls import ServerTls

LOOK_SECONDS = 0.25
"""Between two looks of a standby whether it may lead."""
BEAT_SECONDS = 1.0
ASLEEP_SECONDS = 10.0
"""A leader without a beat for so long hangs, sleeps or is cut off from the database."""
FORMER_SECONDS = 5.0
"""How long a coordinator that must not stand by waits for the end of its predecessor: the server may notice that late."""
_ANY_HOST = ("0.0.0.0", "::", "[::]", "")

_log = structlog.get_logger(__name__)


def advertised(host: str, port: int, advertise: str | None) -> str:
    """Where other coordinators find this one."""
    if advertise is not None:
        return advertise
    return host_and_port(socket.gethostname() if host in _ANY_HOST else host, port)


def check_cluster(store: SqlStore, cluster: str) -> None:
    """Raises SetupError for a store that is about another cluster."""
    leader = store.leader()
    if leader is not None and leader.cluster != cluster:
        raise SetupError(
            f"the state store keeps the state of the cluster {leader.cluster!r}, and this coordinator's is {cluster!r}",
            hint="Start it with the data folder or the --fluss-cluster-id as before, or name another store: a database of its own with "
            "--state, or a backup of this cluster's store with `lakeward state restore`.",
        )


class Standby:
    """One coordinator's wait for the lead. Make it in its event loop."""

    def __init__(self, store: SqlStore, lock: LeaderLock, refusal: str | None, tls: ServerTls | None = None) -> None:
        self._tls = tls
        self._store = store
        self._lock = lock
        self._refusal = refusal
        self._beats: tuple[int, int] | None = None
        self._beaten_at = 0.0

    async def wait(self, host: str, port: int, stopping: asyncio.Event) -> int | None:
        """Returns, when this coordinator leads, the port to serve at; None if `stopping` was set before.

        Raises SetupError where another one leads, and this one must not stand by.
        """
        patience = FORMER_SECONDS if self._refusal else 0.0
        if await self._acquired(stopping, patience):
            return port
        if stopping.is_set():
            return None
        if self._refusal is not None:
            raise SetupError(self._refusal, hint=_SHARED_HINT)
        check_leader_is_trusted(self._tls)
        server = ForwardingServer(host, port, self._tls)
        await server.start()
        try:
            return server.port if await self._stood_by(server, host_and_port(host, server.port), stopping) else None
        finally:
            await server.stop()

    async def _acquired(self, stopping: asyncio.Event, patience: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while not await asyncio.to_thread(self._try_to_lead):
            if stopping.is_set() or loop.time() >= end:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def _try_to_lead(self) -> bool:
        """Whether it got the lock. Whoever takes the store over after this look is not pushed out by a coordinator that slept over it."""
        self._store.look_at_owner()
        return self._lock.acquire()

    async def _stood_by(self, server: ForwardingServer, address: str, stopping: asyncio.Event) -> bool:
        """Whether it leads now; False if `stopping` was set before."""
        self._beaten_at = asyncio.get_running_loop().time()
        print(f"lakeward stands by: {address}", flush=True)
        warned = False
        while not stopping.is_set():
            try:
                if await asyncio.to_thread(self._try_to_lead):
                    _log.warning("the coordinator that led is gone: this one takes over")
                    return True
                await self._look(server)
                warned = False
            except StoreError as error:
                if not warned:
                    _log.warning("the database does not answer; standing by until it does", error=error.message)
                warned = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
        return False

    async def _look(self, server: ForwardingServer) -> None:
        """Follows whoever leads; ends the session of one that has not beaten for too long."""
        leader = await asyncio.to_thread(self._store.leader)
        await server.follow(None if leader is None else leader.address)
        now = asyncio.get_running_loop().time()
        beats = None if leader is None else (leader.epoch, leader.beats)
        if beats != self._beats:
            self._beats, self._beaten_at = beats, now
        elif now - self._beaten_at > ASLEEP_SECONDS:
            _log.warning(
                "the coordinator that leads does not beat any more: ending its session", silent_seconds=round(now - self._beaten_at)
            )
            await asyncio.to_thread(self._lock.evict)
            self._beaten_at = now


_SHARED_HINT = (
    "A standby needs a cluster and a lake that both coordinators reach (--fluss, and a lake with a catalog of its own), and callers that "
    "prove in each call who they are, and not by the certificate of their connection. "
    "Or stop the other coordinator, or name another database with --state."
)


def refusal(is_embedded: bool, has_own_lake: bool, knows_by_certificate: bool) -> str | None:
    """Why a coordinator must not stand by; None if it may."""
    if is_embedded:
        return "another coordinator leads on the database of --state, and the embedded cluster is in this one's data folder alone"
    if has_own_lake:
        return "another coordinator leads on the database of --state, and the lake is in this one's data folder alone"
    if knows_by_certificate:
        return "another coordinator leads on the database of --state, and with --auth mtls a standby cannot pass on who calls"
    return None


def check_leader_is_trusted(tls: ServerTls | None) -> None:
    """Raises SetupError where a standby speaks TLS, and could pass no call on: nothing tells it who vouches for its leader."""
    if tls is not None and not access_from_environment().is_encrypted:
        raise SetupError(
            "another coordinator leads on the database of --state, and this one, with TLS, does not know who vouches for its certificate",
            hint=f"Put the file of who issued it into {TLS_CA} of each coordinator.",
        )


async def beat(store: SqlStore, lock: LeaderLock, leader: Callable[[], Leader], fenced: Callable[[Fenced], None]) -> None:
    """Shows that this coordinator leads, as `leader` says now, until it is cancelled or another one took over, which `fenced` hears."""
    warned = False
    while True:
        try:
            await asyncio.to_thread(_beat_once, store, lock, leader())
            warned = False
        except Fenced as error:
            fenced(error)
            return
        except StoreError as error:
            if not warned:
                _log.warning("the database does not answer; going on once it does", error=error.message)
            warned = True
        await asyncio.sleep(BEAT_SECONDS)


def _beat_once(store: SqlStore, lock: LeaderLock, leader: Leader) -> None:
    """The epoch first: who finds the lock lost and the epoch its own may take the lock again."""
    store.lead(leader)
    lock.acquire()
