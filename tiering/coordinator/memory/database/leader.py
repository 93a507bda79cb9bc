"""Which of several coordinators on one PostgreSQL leads.

The leader's session holds an advisory lock, which the server lets go as soon as the session's process is gone. Only that it leads is
decided here: what it may write is decided by the coordinator epoch, so two that both believe to lead do no harm.
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
"""First half of the advisory lock's key; the second is the schema that the store is in."""
_GONE = ("SET tcp_keepalives_idle = 2", "SET tcp_keepalives_interval = 1", "SET tcp_keepalives_count = 3")
"""So the server notices within five seconds that the leader's machine is gone without a word."""
_STATEMENT_MS = 5_000


@dataclass(frozen=True)
class Leader:
    """The coordinator that leads, or led last. `beats` grows while it is awake. `cluster`: what the store is about."""

    epoch: int
    address: str
    cluster: str
    beats: int = 0


class LeaderLock:
    """The lock, and the session that holds it. For one thread at a time; each method may raise StoreError."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool, connect_args={"connect_timeout": CONNECT_SECONDS}
        )
        self._session: sa.Connection | None = None

    def acquire(self) -> bool:
        """Takes the lock if nobody has it. The session that has it already keeps it."""
        if self.held():
            return True
        with self._border():
            session = self._opened()
            held = bool(session.scalar(sa.text(f"SELECT pg_try_advisory_lock({_LOCK}, hashtext(current_schema()))")))
            session.info["leads"] = held
            return held

    def held(self) -> bool:
        """Whether the session lives and has the lock."""
        session = self._session
        if session is None or not session.info.get("leads"):
            return False
        with suppress(StoreError), self._border():
            session.execute(sa.text("SELECT 1"))
            return True
        return False

    def evict(self) -> None:
        """Ends the session that has the lock: its process sleeps, or is cut off. Wakened it finds another epoch in the store."""
        with self._border():
            self._opened().execute(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
                    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                    f"AND classid = {_LOCK} AND objid = hashtext(current_schema())::bit(32)::bigint AND pid <> pg_backend_pid()"
                )
            )

    def close(self) -> None:
        """Lets the lock go; harmless to repeat."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(sa.exc.SQLAlchemyError):
                session.close()
        self._engine.dispose()

    def _opened(self) -> sa.Connection:
        if self._session is None:
            self._session = self._engine.connect()
            for statement in (*_GONE, f"SET statement_timeout = {_STATEMENT_MS}"):
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
            raise StoreError(f"cannot tell who leads: {text}", hint="Check the database of --state; it is tried again.") from error


def read(connection: sa.Connection) -> Leader | None:
    """Who leads, or led last; None = nobody ever did."""
    row = connection.execute(sa.select(schema.leader)).first()
    return None if row is None else Leader(row.epoch, row.address, row.cluster, row.beats)


def write(connection: sa.Connection, leader: Leader) -> None:
    """Says that this one leads, and is awake. Call it in a transaction that checked the epoch."""
    values = {"epoch": leader.epoch, "address": leader.address, "cluster": leader.cluster}
    beaten = sa.update(schema.leader).values(beats=schema.leader.c.beats + 1, **values)
    if not connection.execute(beaten).rowcount:
        connection.execute(sa.insert(schema.leader).values(id=1, beats=1, **values))
