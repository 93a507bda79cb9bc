"""Epochs that tierers name in what they send. A coordinator whose store was lost, or set back, goes on above them (DESIGN 2, 6).

Only tierers are heard: with an authentication, who has the role TIERER. A number alone is believed, and only so far that a made-up one does
no harm: it makes a gap in the epochs, within bounds that leave room for all that follow, and ends no round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.memory.table_records import TableRecords

MOST_COORDINATORS = 10**9
"""A start each second for thirty years. Coordinator epochs are numbers of 32 bits."""


class NamesEpochs(Protocol):
    """A message about a round."""

    @property
    def table_id(self) -> int: ...

    @property
    def coordinator_epoch(self) -> int: ...

    @property
    def tiering_epoch(self) -> int: ...


def heed_epochs(table_records: TableRecords, messages: Iterable[NamesEpochs]) -> None:
    """Takes note of epochs above those of the store, durably, before anything else is made of the messages. Call it inside `changing`.

    Raises StoreError and Fenced. A table that is not known has nothing to be told: its tierer is, and gives up.
    """
    for message in messages:
        record = table_records.get(message.table_id)
        change: Change | None = None
        if record is not None and message.tiering_epoch > record.highest_epoch:
            change = round_lifecycle.heed_epoch(table_records.context(), record, message.tiering_epoch)
        # A round that this coordinator never made, under the epoch that it has, is of another one that had it before.
        lowest = table_records.epoch if change is None else table_records.epoch - 1
        if lowest < message.coordinator_epoch <= MOST_COORDINATORS:
            table_records.rise_above(message.coordinator_epoch)
        if change is not None:
            table_records.put(change)
