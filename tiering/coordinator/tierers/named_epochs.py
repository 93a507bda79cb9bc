"""Epochs that tierers send. A coordinator whose store was lost or restored from a backup continues above them (DESIGN 2, 6).

Only tierers can do this: with authentication, callers with the role TIERER. Only the number is trusted, and only up to a bound, so that a
made-up number does no harm. It leaves a gap in the epochs, with room for all that follow, and ends no round.
"""

from __future__ import annotations

from collections.abc import Iterable

from tiering.coordinator.decisions import round_lifecycle
from tiering.coordinator.decisions.round_lifecycle import RoundRef
from tiering.coordinator.memory.table_records import TableRecords
from tiering.rpc.v1 import coordinator_pb2 as pb

MOST_COORDINATORS = 10**9
"""Highest accepted coordinator epoch: one start per second for thirty years. Coordinator epochs are 32-bit numbers."""


def note_named_epochs(table_records: TableRecords, messages: Iterable[pb.PbHeartbeatReqForTable | RoundRef]) -> None:
    """Raises the stored epochs above those in the messages, durably, before the messages are applied. Call it inside of `changing`.

    Raises StoreError and Fenced. For an unknown table there is no epoch to raise: its tierer gets an error and gives up.
    """
    highest, unknown = 0, dict[int, int]()  # the coordinator epoch to rise above, and tiering epochs by table id
    for message in messages:
        record = table_records.get(message.table_id)
        is_unknown = record is not None and record.highest_epoch < message.tiering_epoch <= round_lifecycle.MOST_ROUNDS
        # An unknown round under this coordinator's epoch comes from another coordinator that had this epoch before.
        lowest = table_records.epoch - 1 if is_unknown else table_records.epoch
        if lowest < message.coordinator_epoch <= MOST_COORDINATORS:
            highest = max(highest, message.coordinator_epoch)
        if is_unknown:
            unknown[message.table_id] = max(message.tiering_epoch, unknown.get(message.table_id, 0))
    if highest:
        table_records.rise_above(highest)  # once, because each call is a write of its own while other threads wait for the lock
    for table_id, epoch in unknown.items():
        record = table_records.get(table_id)
        change = None if record is None else round_lifecycle.note_named_epoch(table_records.context(), record, epoch)
        if change is not None:
            table_records.put(change)
