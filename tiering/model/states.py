"""The seven states of a lake table's tiering, and the one table of legal changes between them (DESIGN 5).

    (none)      -> New          a lake-enabled table appeared, or lake was enabled on it
    (none)      -> Initialized  a coordinator met a table at rest in its store after a start
    New         -> Scheduled    its first due time is known
    Initialized -> Scheduled    its next due time is known
    Scheduled   -> Pending      it is due, or a CALL asked for it
    Pending     -> Tiering      a tierer's request was answered with it
    Tiering     -> Tiered       its round ended, and nothing is left to resolve
    Tiering     -> Failed       its round failed, was fenced or lost its tierer
    Tiered      -> Scheduled    it waits for its next due time
    Tiered      -> Pending      its round stopped early, and the next one continues
    Failed      -> Pending      its back-off is over, or a CALL or a change of the table resumed it
    (any)       -> (none)       the table was dropped, or lake was disabled on it

A test compares this diagram with `TRANSITIONS`. (none) is also what a coordinator knows of a table when it starts; Pending,
Tiering and Failed are then restored as they were stored, which is no change of state.

Four states last: Scheduled, Pending, Tiering and Failed. New, Initialized and Tiered are passed on the way to the next state in
the same change: no reader and no query ever sees a table in them, but each leaves an event. A table at rest is Scheduled, before
its first round and after any other; `last_tiered_time` tells when its rows last came to the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from tiering.errors import LakewardError


class TableState(StrEnum):
    """How far the tiering of one lake table is (Fluss's names)."""

    NEW = "New"
    INITIALIZED = "Initialized"
    SCHEDULED = "Scheduled"
    PENDING = "Pending"
    TIERING = "Tiering"
    TIERED = "Tiered"
    FAILED = "Failed"


RESTORED_AS_STORED = frozenset({TableState.PENDING, TableState.TIERING, TableState.FAILED})
"""States that outlive a restart of the coordinator; the others come back as Initialized."""

LASTING = (TableState.SCHEDULED, TableState.PENDING, TableState.TIERING, TableState.FAILED)
"""States in which a table can be seen; the others are left in the change that enters them."""

TRANSITIONS: Mapping[tuple[TableState | None, TableState | None], str] = MappingProxyType(
    {
        (None, TableState.NEW): "a lake-enabled table appeared, or lake was enabled on it",
        (None, TableState.INITIALIZED): "a coordinator met a table at rest in its store after a start",
        (TableState.NEW, TableState.SCHEDULED): "its first due time is known",
        (TableState.INITIALIZED, TableState.SCHEDULED): "its next due time is known",
        (TableState.SCHEDULED, TableState.PENDING): "it is due, or a CALL asked for it",
        (TableState.PENDING, TableState.TIERING): "a tierer's request was answered with it",
        (TableState.TIERING, TableState.TIERED): "its round ended, and nothing is left to resolve",
        (TableState.TIERING, TableState.FAILED): "its round failed, was fenced or lost its tierer",
        (TableState.TIERED, TableState.SCHEDULED): "it waits for its next due time",
        (TableState.TIERED, TableState.PENDING): "its round stopped early, and the next one continues",
        (TableState.FAILED, TableState.PENDING): "its back-off is over, or a CALL or a change of the table resumed it",
        **{(state, None): "the table was dropped, or lake was disabled on it" for state in TableState},
    }
)


def check_transition(source: TableState | None, target: TableState | None) -> None:
    """Raises LakewardError for a change that is not in `TRANSITIONS`: a defect of the caller, never of the user."""
    if (source, target) not in TRANSITIONS:
        raise LakewardError(f"a table cannot go from {source or '(none)'} to {target or '(none)'}", source=source, target=target)
