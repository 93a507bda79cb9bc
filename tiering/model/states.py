"""The seven states of a lake table's tiering, and the table of the allowed changes between them (DESIGN 5).

    (none)      -> New          a lake-enabled table appeared, or lake was enabled on it
    (none)      -> Initialized  a coordinator that started found a stored table without a queued, running or failed round
    New         -> Scheduled    its first due time is known
    Initialized -> Scheduled    its next due time is known
    Scheduled   -> Pending      it is due, or a CALL asked for it
    Pending     -> Tiering      a tierer asked for a table and got it
    Tiering     -> Tiered       its round ended, and the table has not failed
    Tiering     -> Failed       its round failed or was fenced, or its tierer was lost
    Tiered      -> Scheduled    it waits for its next due time
    Tiered      -> Pending      its round stopped early, and the next one continues
    Failed      -> Pending      its back-off is over, or a CALL, a change or a repair of the table ended the wait
    (any)       -> (none)       the table was dropped, or lake was disabled on it

A test compares this diagram with `TRANSITIONS`. When a coordinator starts, each table is at (none) for it. It restores Pending, Tiering and
Failed as they are stored, which is no change of state.

Queries show four states: Scheduled, Pending, Tiering and Failed. A table leaves New, Initialized and Tiered in the same change that enters
them, so no reader and no query sees a table in them. Each of them still leaves an event. A table without a queued, running or failed round
is Scheduled, before its first round and after any other. `last_tiered_time` tells when its rows last reached the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from tiering.errors import LakewardError


class TableState(StrEnum):
    """The state of the tiering of one lake table, with Fluss's names."""

    NEW = "New"
    INITIALIZED = "Initialized"
    SCHEDULED = "Scheduled"
    PENDING = "Pending"
    TIERING = "Tiering"
    TIERED = "Tiered"
    FAILED = "Failed"


RESTORED_AS_STORED = frozenset({TableState.PENDING, TableState.TIERING, TableState.FAILED})
"""The states that a restart of the coordinator keeps. Tables in other states become Initialized."""

LASTING = (TableState.SCHEDULED, TableState.PENDING, TableState.TIERING, TableState.FAILED)
"""The states in which queries show a table. A table leaves the others in the change that enters them."""

TRANSITIONS: Mapping[tuple[TableState | None, TableState | None], str] = MappingProxyType(
    {
        (None, TableState.NEW): "a lake-enabled table appeared, or lake was enabled on it",
        (None, TableState.INITIALIZED): "a coordinator that started found a stored table without a queued, running or failed round",
        (TableState.NEW, TableState.SCHEDULED): "its first due time is known",
        (TableState.INITIALIZED, TableState.SCHEDULED): "its next due time is known",
        (TableState.SCHEDULED, TableState.PENDING): "it is due, or a CALL asked for it",
        (TableState.PENDING, TableState.TIERING): "a tierer asked for a table and got it",
        (TableState.TIERING, TableState.TIERED): "its round ended, and the table has not failed",
        (TableState.TIERING, TableState.FAILED): "its round failed or was fenced, or its tierer was lost",
        (TableState.TIERED, TableState.SCHEDULED): "it waits for its next due time",
        (TableState.TIERED, TableState.PENDING): "its round stopped early, and the next one continues",
        (TableState.FAILED, TableState.PENDING): "its back-off is over, or a CALL, a change or a repair of the table ended the wait",
        **{(state, None): "the table was dropped, or lake was disabled on it" for state in TableState},
    }
)


def check_transition(source: TableState | None, target: TableState | None) -> None:
    """Raises LakewardError for a change that is not in `TRANSITIONS`. That is a defect of the calling code, never of the user."""
    if (source, target) not in TRANSITIONS:
        raise LakewardError(f"a table cannot go from {source or '(none)'} to {target or '(none)'}", source=source, target=target)
