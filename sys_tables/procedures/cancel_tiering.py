"""CALL sys.cancel_tiering: a running round ends without a commit, unless its commit was granted already (DESIGN 6 step 6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from tiering.coordinator.calls.cancel_tiering import CancelTiering

NAME = "cancel_tiering"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    round_id: str = parameter("The round: see round_id in sys.lake_tiering_status.")
    message: str | None = parameter("Why, for people who wonder.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    round_id: str = column("The round.")
    state: str | None = column("Its state; RUNNING until its tierer has heard of the cancellation. NULL for an unknown round.")
    outcome: str = column("cancelled; too_late if its commit was granted or it has ended; unknown if there is no such round.")


@procedure(NAME, Parameters, Output, comment="Ends a running round without a commit.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    request = CancelTiering(arguments.round_id, arguments.message)
    result = await call.perform(request)
    yield Output(result.round_id, result.state, result.outcome.value)
