"""Several coordinators on one PostgreSQL: one leads, and the others are standbys that forward calls to it.

A standby takes over as soon as the leader's session ends, or when the leader has sent no beat for `ASLEEP_SECONDS`. If that leader was only
asleep, the store refuses its later writes, and it ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from tiering.access.client_access import TLS_CA, access_from_environment
from tiering.cli.processes.console import print_address
from tiering.cli.processes.forwarding import ForwardingServer
from tiering.coordinator.memory.leader import Leader, LeaderLock
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.errors import Fenced, SetupError, StoreError
from tiering.wire.channel import host_and_port
from tiering.wire.security.server_tls import ServerTls

if TYPE_CHECKING:
    from sys_tables.console.service.application import ServiceConsole

LOOK_SECONDS = 0.25
"""Time between two attempts of a standby to lead."""
BEAT_SECONDS = 1.0
ASLEEP_SECONDS = 10.0
"""A leader without a beat for this long hangs, is suspended, or has no connection to the database."""
FORMER_SECONDS = 5.0
"""How long a coordinator that cannot be a standby waits for the end of its predecessor, which the database may notice late."""
_ANY_HOST = ("0.0.0.0", "::", "[::]", "")

_log = structlog.get_logger(__name__)


def advertised(host: str, port: int, advertise: str | None) -> str:
    """Returns the address at which other coordinators reach this one."""
    if advertise is not None:
        return advertise
    return host_and_port(socket.gethostname() if host in _ANY_HOST else host, port)


def check_cluster(store: SqlStore, cluster: str) -> None:
    """Raises SetupError for a store with the state of another cluster."""
    leader = store.leader()
    if leader is not None and leader.cluster != cluster:
        raise SetupError(
            f"the state store has the state of the cluster {leader.cluster!r}, and this coordinator is for the cluster {cluster!r}",
            hint="Start with the same data folder or --fluss-cluster-id as before. Or use another store: another database with --state, or "
            "a backup of this cluster's store with `lakeward state restore`.",
        )


class Standby:
    """The wait of one coordinator for the lead. Create it in its event loop. `console` shows who leads meanwhile."""

    def __init__(
        self,
        store: SqlStore,
        lock: LeaderLock,
        refusal: str | None,
        tls: ServerTls | None = None,
        console: ServiceConsole | None = None,
    ) -> None:
        self._tls = tls
        self._console = console
        self._store = store
        self._lock = lock
        self._refusal = refusal
        self._beats: tuple[int, int] | None = None
        self._beaten_at = 0.0

    async def wait(self, host: str, port: int, stopping: asyncio.Event) -> int | None:
        """Waits until this coordinator leads, and returns the port to serve at. Returns None if `stopping` is set first.

        Raises SetupError if another coordinator leads and this one cannot be a standby.
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
        """Returns whether this coordinator got the lock.

        It reads the owner of the store first. So a coordinator that is suspended here cannot displace one that takes over meanwhile.
        """
        self._store.look_at_owner()
        return self._lock.acquire()

    async def _stood_by(self, server: ForwardingServer, address: str, stopping: asyncio.Event) -> bool:
        """Forwards calls until this coordinator leads. Returns False if `stopping` is set first."""
        self._beaten_at = asyncio.get_running_loop().time()
        print_address(self._console)
        print(f"lakeward stands by: {address}", flush=True)
        warned = False
        while not stopping.is_set():
            try:
                if await asyncio.to_thread(self._try_to_lead):
                    _log.warning("the leading coordinator has ended: this coordinator takes over")
                    return True
                await self._check_leader(server)
                warned = False
            except StoreError as error:
                if not warned:
                    _log.warning("the database does not answer; standing by until it does", error=error.message)
                warned = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
        return False

    async def _check_leader(self, server: ForwardingServer) -> None:
        """Follows the current leader. Ends the database session of a leader that has sent no beat for too long."""
        leader = await asyncio.to_thread(self._store.leader)
        await server.follow(None if leader is None else leader.address)
        if self._console is not None:
            self._console.stand_by(None if leader is None else leader.address)
        now = asyncio.get_running_loop().time()
        beats = None if leader is None else (leader.epoch, leader.beats)
        if beats != self._beats:
            self._beats, self._beaten_at = beats, now
        elif now - self._beaten_at > ASLEEP_SECONDS:
            _log.warning(
                "the leading coordinator sends no heartbeat: ending its database session", silent_seconds=round(now - self._beaten_at)
            )
            await asyncio.to_thread(self._lock.evict)
            self._beaten_at = now


_SHARED_HINT = (
    "A standby needs a cluster and a lake that both coordinators reach (--fluss, and a lake with its own catalog), and callers that "
    "authenticate with each call instead of by a client certificate. "
    "Otherwise stop the other coordinator, or name another database with --state."
)


def refusal(is_embedded: bool, has_own_lake: bool, knows_by_certificate: bool) -> str | None:
    """Returns why a coordinator cannot be a standby, or None if it can."""
    if is_embedded:
        return (
            "another coordinator leads on the database of --state, and the embedded cluster is only in the data folder of this coordinator"
        )
    if has_own_lake:
        return "another coordinator leads on the database of --state, and the lake is only in the data folder of this coordinator"
    if knows_by_certificate:
        return "another coordinator leads on the database of --state, and with --auth mtls a standby cannot forward the identity of callers"
    return None


def check_leader_is_trusted(tls: ServerTls | None) -> None:
    """Raises SetupError if a standby with TLS could not forward calls, because no certificate authority for its leader is named."""
    if tls is not None and not access_from_environment().is_encrypted:
        raise SetupError(
            "another coordinator leads on the database of --state, and this standby has no certificate authority to verify its certificate",
            hint=f"Set {TLS_CA} of each coordinator to the file of the certificate authority.",
        )


async def beat(store: SqlStore, lock: LeaderLock, leader: Callable[[], Leader], fenced: Callable[[Fenced], None]) -> None:
    """Writes a beat every second, until the task is cancelled. If another coordinator took over, calls `fenced` and ends."""
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
    """Writes the epoch, then takes the lock again: a leader that lost its lock may take it while the epoch is still its own."""
    store.lead(leader)
    lock.acquire()
