"""A CALL that waits: over a restart of the service, beside other statements, until it is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from support.values.own_procedure import procedure
from support.worlds.memory_coordinator import MemoryCoordinator
from sys_tables.declare.procedure import Call, Procedure
from tiering.model.declare import column

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]
PATIENCE_S = 60


@dataclass(frozen=True)
class NoParameters:
    pass


@dataclass(frozen=True)
class KeyRow:
    key: str | None = column("Names the operation.")


@dataclass
class Wait:
    """A procedure that waits for `released`; tells when it is waiting."""

    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Event = field(default_factory=threading.Event)
    keys: list[str | None] = field(default_factory=list)

    def procedure(self) -> Procedure:
        @procedure("linger", NoParameters, KeyRow, comment="Waits.", mutates=True)
        async def linger(call: Call, parameters: Any) -> AsyncIterator[str | KeyRow]:
            self.keys.append(parameters.idempotency_key)
            yield "waiting"
            self.begun.release()
            while not self.released.is_set():
                await asyncio.sleep(0.01)
            yield KeyRow(parameters.idempotency_key)

        return linger


def test_a_restart_of_the_service_does_not_fail_a_waiting_call(serve: Serve, session: Session) -> None:
    wait = Wait()
    server = serve(MemoryCoordinator(), procedures=[wait.procedure()])
    spark, rows = session(server.uri), []
    caller = threading.Thread(target=lambda: rows.extend(spark.sql("CALL fluss.sys.linger()").collect()))
    caller.start()
    assert wait.begun.acquire(timeout=PATIENCE_S)

    server.stop()
    server.start()

    assert wait.begun.acquire(timeout=PATIENCE_S)
    wait.released.set()
    caller.join(PATIENCE_S)
    assert len(rows) == 1
    assert len(wait.keys) == 2
    assert wait.keys[0] == wait.keys[1] == rows[0].key


def test_a_call_whose_service_stays_away_tells_how_to_repeat_it(serve: Serve, session: Session) -> None:
    wait = Wait()
    server = serve(MemoryCoordinator(), procedures=[wait.procedure()])
    spark, errors = session(server.uri, retry_timeout="300 ms"), []

    def call() -> None:
        with pytest.raises(AnalysisException) as raised:
            spark.sql("CALL fluss.sys.linger(idempotency_key => 'mine')")
        errors.append(str(raised.value))

    caller = threading.Thread(target=call)
    caller.start()
    assert wait.begun.acquire(timeout=PATIENCE_S)
    server.stop()
    caller.join(PATIENCE_S)

    assert len(errors) == 1
    assert "took effect is unknown" in errors[0]
    assert "idempotency_key => 'mine'" in errors[0]


def test_a_waiting_call_does_not_hold_up_other_statements(serve: Serve, session: Session) -> None:
    wait = Wait()
    server = serve(MemoryCoordinator(), procedures=[wait.procedure()])
    spark = session(server.uri)
    callers = [threading.Thread(target=lambda: spark.sql("CALL fluss.sys.linger()").collect()) for _ in range(3)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert wait.begun.acquire(timeout=PATIENCE_S)

    assert spark.sql("SELECT procedure_name FROM fluss.sys.procedures WHERE procedure_name = 'linger'").count() == 1

    wait.released.set()
    for caller in callers:
        caller.join(PATIENCE_S)
    assert len(set(wait.keys)) == 3
