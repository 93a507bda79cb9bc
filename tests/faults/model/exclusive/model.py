"""Lakeward alone: all steps of tierers, coordinator, network and users, and the way out of every state."""

from __future__ import annotations

from collections.abc import Iterator

from faults.model.exclusive import messages, rounds, users
from faults.model.exclusive.world import Size, Step, World, initial
from faults.model.search import Result, Search, WaysOut


class ExclusiveModel:
    """The model in one size."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def search(self, depth: int, states: int | None = None, seconds: float | None = None, *, repairs: bool = True) -> Result:
        """Every story of so many steps; with `repairs` also whether the table can be healed at every step."""
        if not repairs:
            return Search(initial(self.size), self.steps).run(depth, states, seconds)
        return self._search().run(depth, states, seconds)

    def walk(self, depth: int, seconds: float) -> Result:
        """Stories of up to so many steps, drawn at random for so many seconds; whether the table can be healed at their ends."""
        return self._search().walk(depth, seconds)

    def _search(self) -> Search[World]:
        return Search(initial(self.size), self.steps, WaysOut(self.is_tiered, self.next_step))

    def steps(self, world: World) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from rounds.steps(self.size, world)
        yield from messages.steps(self.size, world)
        yield from users.steps(self.size, world)

    def is_tiered(self, world: World) -> bool:
        """Whether the table is at rest, with all rows in the lake, and coordinator and cluster know."""
        marker = None if world.lake is None else world.lake.marker
        under_way = world.rounds or world.requests or world.reports or world.is_locked
        if under_way or world.record.running is not None or world.record.error:
            return False
        if world.log_start == world.log_end and marker is None:
            return world.lake is None or not world.lake.rows
        if marker is None or world.record.copy is None or world.cluster is None:
            return False
        return {marker.tiered, world.record.copy.tiered, world.cluster.tiered} == {world.log_end}

    def next_step(self, world: World) -> Step | None:
        """The next step of a continuation without faults, in which users do what errors say, and late copies never arrive."""
        if world.requests:
            return rounds.deliver(self.size, world, world.requests[0])
        if world.telling is not None:
            return rounds.tell(self.size, world, world.telling)
        if world.reports:
            return messages.deliver_report(world, world.reports[0])
        if world.call is not None:
            return users.end_reconcile(self.size, world)
        if world.sweep is not None:
            return users.end_sweep(self.size, world, world.sweep)
        for current in world.rounds:
            for step in rounds.round_steps(self.size, world._replace(faults=0), current):
                return step
        if world.record.running is not None:
            return users.time_out(world)
        if world.record.error:
            return self._mend(world)
        return rounds.assign(world)

    def _mend(self, world: World) -> Step | None:
        """Follows a hint: `retier`, or `accept` where that is refused, or a new lake table (`hints.new_table_hint`)."""
        for action in ("retier", "accept"):
            for step in users.begin_reconcile(self.size, world, action):
                return step
        if world.lake is None:
            return None
        renamed = world._replace(lake=None, others=(*world.others, world.lake))
        for _, after in users.begin_reconcile(self.size, renamed, "retier"):
            return "a user renames the lake table and calls retier", after
        return None
