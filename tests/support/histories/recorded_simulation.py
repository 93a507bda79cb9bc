"""A simulated run whose claims, grants, commits, reads and acks are noted."""

from __future__ import annotations

from dataclasses import replace

from support.histories.history import History
from support.histories.recorded import COORDINATOR, RecordedTransport, RecordsHistory, note_claim
from support.lakes.swept_lake import SweptMemoryLake
from support.worlds.simulation import TABLE, SimulatedTierer, Simulation
from tiering.round.runner import RoundEnvironment


class RecordedMemoryLake(RecordsHistory, SweptMemoryLake):
    """The lake in memory."""


class RecordedSimulation(Simulation):
    """A `Simulation` with a history. The coordinator does all that no tierer does."""

    def __init__(self, seed: int, tierers: int = 2) -> None:
        self._acting = COORDINATOR
        self.history = History(lambda: self._acting)
        lake = RecordedMemoryLake()
        lake.history = self.history
        super().__init__(seed, tierers, lake)

    def _advance(self, tierer: SimulatedTierer) -> None:
        before, self._acting = self._acting, tierer.incarnation
        try:
            super()._advance(tierer)
        finally:
            self._acting = before

    def _beat(self, tierer: SimulatedTierer) -> None:
        was_idle = tierer.running is None
        started = self.history.moment()
        super()._beat(tierer)
        if was_idle and tierer.running is not None:
            before, self._acting = self._acting, tierer.incarnation
            with self.history.operation("claim", TABLE.path) as operation:
                operation.call = started
                note_claim(operation, tierer.running[0])
            self._acting = before

    def _world(self, tierer: SimulatedTierer) -> RoundEnvironment:
        world = super()._world(tierer)
        return replace(world, transport=RecordedTransport(world.transport, self.history))
