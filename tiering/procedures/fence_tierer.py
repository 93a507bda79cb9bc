"""`CALL sys.fence_tierer`: takes all tables away from a tierer, and gives it no more."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.model.declare import INT, column, parameter
from tiering.procedures.base import OPERATE_SERVICE, Mutation, Pool


@dataclass(frozen=True)
class FenceTiererResult:
    """The number of tables that the tierer lost."""

    tierer_id: str = column("The tierer.")
    tables_fenced: int = column("Number of tables that it was tiering. Other tierers get them now.", arrow_type=INT)


@dataclass(frozen=True)
class FenceTierer(Mutation[FenceTiererResult]):
    """The tierer to fence."""

    procedure = "fence_tierer"
    comment = "Takes a tierer's tables away from it, and gives it no more."
    requirement = OPERATE_SERVICE
    pool = Pool.STORE
    tierer_id: str = parameter("The tierer, as sys.tierers names it.")
    reason: str | None = parameter("The reason, for the events.", default=None, is_free_text=True)
