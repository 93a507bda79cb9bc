"""Elects the leader among several coordinators on one PostgreSQL.

The leader's session holds an advisory lock, which the server releases when the session ends. This decides only who leads. The coordinator
epoch decides who may write, so two coordinators that both believe to lead do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import sqlalchemy as sa

from tiering.coordinator.memory import sql_schema as schema
from tiering.errors import StoreError
from tiering.library_guards.sql_timeouts import CONNECT_SECONDS

_LOCK = 5_707_311
"""First half of the advisory lock's key. The second half is the schema of the store."""
_DEAD_PEER_SETTINGS = ("SET tcp_keepalives_idle = 2", "SET tcp_keepalives_interval = 1", "SET tcp_keepalives_count = 3")
"""Settings with which the server notices within five seconds that the leader's machine vanished without closing the connection."""
_STATEMENT_MS = 5_000


@dataclass(frozen=True)
class Leader:
    """The coordinator that leads, or was the last to lead. `beats` grows while it is awake. `cluster` is the cluster of the store."""

    epoch: int
    address: str
    cluster: str
    beats: int = 0


class LeaderLock:
    """The lock and the session that holds it. One thread at a time may use it; each method may raise StoreError."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool, connect_args={"connect_timeout": CONNECT_SECONDS}
        )
        self._session: sa.Connection | None = None

    def acquire(self) -> bool:
        """Takes the lock if it is free, and returns whether this session has it. A session that has the lock keeps it."""
        if self.is_held():
            return True
        with self._border():
            session = self._opened()
            is_taken = bool(session.scalar(sa.text(f"SELECT pg_try_advisory_lock({_LOCK}, hashtext(current_schema()))")))
            session.info["leads"] = is_taken
            return is_taken

    def is_held(self) -> bool:
        """Returns whether the session lives and has the lock."""
        session = self._session
        if session is None or not session.info.get("leads"):
            return False
        with suppress(StoreError), self._border():
            session.execute(sa.text("SELECT 1"))
            return True
        return False

    def evict(self) -> None:
        """Ends the session that has the lock, because its process is suspended or cut off.

        Once awake, it finds another epoch in the store.
        """
        with self._border():
            self._opened().execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
                    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                    f"AND classid = {_LOCK} AND objid = hashtext(current_schema())::bit(32)::bigint AND pid <> pg_backend_pid()"
                )
            )

    def close(self) -> None:
        """Releases the lock. A repeat has no effect."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(sa.exc.SQLAlchemyError):
                session.close()
        self._engine.dispose()

    def _opened(self) -> sa.Connection:
        if self._session is None:
            self._session = self._engine.connect()
            for statement in (*_DEAD_PEER_SETTINGS, f"SET statement_timeout = {_STATEMENT_MS}"):
                self._session.execute(sa.text(statement))
        return self._session

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            session, self._session = self._session, None
            if session is not None:
                with suppress(sa.exc.SQLAlchemyError):
                    session.invalidate()
                    session.close()
            text = str(getattr(error, "orig", None) or error)
            raise StoreError(
                f"cannot find out which coordinator leads: {text}", hint="Check the database of --state. The coordinator retries."
            ) from error


def read(connection: sa.Connection) -> Leader | None:
    """Returns the coordinator that leads, or was the last to lead; None if none has led yet."""
    row = connection.execute(sa.select(schema.leader)).first()
    return None if row is None else Leader(row.epoch, row.address, row.cluster, row.beats)


def write(connection: sa.Connection, leader: Leader) -> None:
    """Records that this coordinator leads and is awake. Call it in a transaction that checked the epoch."""
    values = {"epoch": leader.epoch, "address": leader.address, "cluster": leader.cluster}
    beaten = sa.update(schema.leader).values(beats=schema.leader.c.beats + 1, **values)
    if not connection.execute(beaten).rowcount:
        connection.execute(sa.insert(schema.leader).values(id=1, beats=1, **values))
