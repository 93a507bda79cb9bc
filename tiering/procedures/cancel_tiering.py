"""`CALL sys.cancel_tiering`: ends a running round without a commit, unless its commit was already granted (DESIGN 6 step 6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tiering.access.privileges import Privilege
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.model.declare import column, parameter
from tiering.procedures.base import Mutation, Pool


class CancelOutcome(StrEnum):
    """The outcome of a cancellation (docs/reference.md)."""

    CANCELLED = "cancelled"
    TOO_LATE = "too_late"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CancelTieringResult:
    """The answer to a cancellation."""

    round_id: str = column("Id of the round.")
    state: str | None = column("State of the round; RUNNING until the tierer has received the cancellation. NULL for an unknown round.")
    outcome: CancelOutcome = column(
        "cancelled; too_late if the commit was granted or the round has ended; unknown if no round has this id."
    )


@dataclass(frozen=True)
class CancelTiering(Mutation[CancelTieringResult]):
    """The round to cancel."""

    procedure = "cancel_tiering"
    comment = "Ends a running round without a commit."
    requirement = Requirement(Privilege.OPERATE, PrivilegeTarget.ROUND, audited=True)
    pool = Pool.STORE
    round_id: str = parameter("Id of the round: see round_id in sys.lake_tiering_status.")
    message: str | None = parameter("The reason, for the events.", default=None, is_free_text=True)
