"""CALL sys.fence_tierer: takes a tierer's tables away from it, and gives it no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from tiering.coordinator.calls.fence_tierer import FenceTierer

NAME = "fence_tierer"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    tierer_id: str = parameter("The tierer, as sys.tierers names it.")
    reason: str | None = parameter("Why, for the events.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    tierer_id: str = column("The tierer.")
    tables_fenced: int = column("Tables that it was moving, which another tierer gets now.", arrow_type=INT)


@procedure(NAME, Parameters, Output, comment="Takes a tierer's tables away from it, and gives it no more.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    result = await call.perform(FenceTierer(arguments.tierer_id, arguments.reason))
    yield Output(result.tierer_id, result.tables_fenced)
