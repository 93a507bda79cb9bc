"""The coordinator's store on a disk that fills up and whose answers get lost, written by processes that die over it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from support.simulated.chance import Chance, SimulatedDeath
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.decisions.records import OperationRecord, RoundRecord
from tiering.coordinator.memory.store import Writes
from tiering.errors import StoreError

WRITE_SHARE = 0.004
READ_SHARE = 0.004


class SimulatedStore(MemoryStore):
    """A write fails before its effect (a full disk) or after it (fsync, a lost answer), and at times its process dies with it.

    `on_write` gets what was written.
    """

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self.chance = chance
        self.dead: set[int] = set()
        """Epochs of coordinators that died: nothing that still runs of them does anything."""
        self.on_write: Callable[[Writes], None] = lambda writes: None

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        if coordinator_epoch in self.dead:
            raise SimulatedDeath
        if self.chance.strikes("store-write-failed", WRITE_SHARE):
            raise StoreError("database or disk is full")
        if self.chance.strikes("coordinator-killed", WRITE_SHARE / 2):
            self.die(coordinator_epoch)
        super().apply(coordinator_epoch, writes)
        self.on_write(writes)
        if self.chance.strikes("store-answer-lost", WRITE_SHARE):
            raise StoreError("disk I/O error")
        if self.chance.strikes("coordinator-killed", WRITE_SHARE / 2):
            self.die(coordinator_epoch)

    def die(self, coordinator_epoch: int) -> None:
        """The coordinator with this epoch is gone."""
        self.dead.add(coordinator_epoch)
        raise SimulatedDeath

    def operation(self, idempotency_key: str) -> OperationRecord | None:
        self._read()
        return super().operation(idempotency_key)

    def round(self, round_id: str) -> RoundRecord | None:
        self._read()
        return super().round(round_id)

    def rounds_by_id(self, round_ids: Collection[str]) -> Mapping[str, RoundRecord]:
        self._read()
        return super().rounds_by_id(round_ids)

    def _read(self) -> None:
        if self.chance.strikes("store-answer-lost", READ_SHARE):
            raise StoreError("the store does not answer")
