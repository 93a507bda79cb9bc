"""Epochs that tierers name in what they send. A coordinator whose store was lost, or set back, goes on above them (DESIGN 2, 6).

Only tierers are heard: with an authentication, who has the role TIERER. A number alone is believed, and only so far that a made-up one does
no harm: it makes a gap in the epochs, within bounds that leave room for all that follow, and ends no round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tiering.coordinator.decisions import round_lifecycle
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
    highest, unknown = 0, dict[int, int]()  # the coordinator epoch to rise above, and by table id the tiering epoch
    for message in messages:
        record = table_records.get(message.table_id)
        is_unknown = record is not None and record.highest_epoch < message.tiering_epoch <= round_lifecycle.MOST_ROUNDS
        # A round that this coordinator never made, under the epoch that it has, is of another one that had it before.
        lowest = table_records.epoch - 1 if is_unknown else table_records.epoch
        if lowest < message.coordinator_epoch <= MOST_COORDINATORS:
            highest = max(highest, message.coordinator_epoch)
        if is_unknown:
            unknown[message.table_id] = max(message.tiering_epoch, unknown.get(message.table_id, 0))
    if highest:
        table_records.rise_above(highest)  # once: each time is a write of its own, and others wait for the lock
    for table_id, epoch in unknown.items():
        record = table_records.get(table_id)
        change = None if record is None else round_lifecycle.note_named_epoch(table_records.context(), record, epoch)
        if change is not None:
            table_records.put(change)
