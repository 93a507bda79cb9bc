"""Random stories of a cluster that assigns its tables to two services, while everything restarts."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial

import pytest

from support.assigned_world import assigner, pause, resume, tables
from support.clusters.assigner import OURS, Assigner
from support.upkeep.upkeep_world import UpkeepWorld, run_upkeep, upkept_table
from support.worlds.coordinator_world import HandTierer, World
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import LakewardError
from tiering.rpc.v1 import coordinator_pb2 as pb


@pytest.mark.parametrize("seed", range(60))
def test_no_round_begins_in_another_services_turn(seed: int) -> None:
    """Whatever fails and restarts: a round begins only in a turn of ours, and the turn of a commit that may still land is not ended."""
    tell(World(tables(3), CoordinatorOptions(held_tables=1), assigner=Assigner()), seed)


@pytest.mark.parametrize("seed", range(40))
def test_no_upkeep_round_begins_in_another_services_turn(seed: int) -> None:
    """The stories run with tables that need upkeep all the time."""
    options = CoordinatorOptions(held_tables=1, upkeep_interval_ms=1_000)
    tell(UpkeepWorld(tuple(map(upkept_table, (1, 2, 3))), options, assigner=Assigner()), seed)


def tell(world: World, seed: int) -> None:
    story = Story(world, random.Random(seed))
    for _ in range(80):
        story.step()
    world.coordinator.close()


class Story:
    """One random step at a time."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.assigner = assigner(world)
        self.chance = chance
        self.names = iter(range(1, 1_000))
        self.tierers = [world.tierer("a"), world.tierer("b")]

    def step(self) -> None:
        steps = [self._due, self._ask, self._ask, self._end, self._end, self._time, self._time, self._pause, self._fault, self._other]
        if isinstance(self.world, UpkeepWorld):
            steps += [self._tier_well, self._tier_well]
        self.chance.choice(steps)()
        self._check()

    def _tier_well(self) -> None:
        """A turn whose tiering round goes well, so that upkeep may follow."""
        if not self.assigner.is_up:
            self.assigner.start()
        for table in self.world.tables:
            resume(self.world, table)
        self._due()
        self._time()
        self._ask()
        self._time()
        for tierer in self.tierers:
            for info in list(tierer.running.values()):
                with suppress(LakewardError, AssertionError):  # fenced
                    (partial(run_upkeep, tierer) if info.HasField("upkeep") else tierer.run)(info)
                tierer.running.pop(info.round_id, None)
        self._ask()

    def _due(self) -> None:
        table = self.chance.choice(self.world.tables)
        if table.table_id not in self.assigner.tiering and self.assigner.is_up:
            self.assigner.due(table)

    def _ask(self) -> None:
        tierer = self.chance.choice(self.tierers)
        response = tierer.beat(request=not tierer.running)
        if response.HasField("tiering_table"):
            info = response.tiering_table
            turn = self.assigner.tiering.get(info.table_id)
            record = self.world.coordinator.table_records.get(info.table_id)
            assert record is not None
            if self.assigner.is_up and not record.lake.unresolved_epoch:
                assert record.assignment is not None
                same_session = record.assignment.session == f"connection {self.assigner.connections}"
                assert not same_session or (turn is not None and turn.owner == OURS)

    def _end(self) -> None:
        tierer = self.chance.choice(self.tierers)
        for info in list(tierer.running.values()):
            try:
                runs = partial(run_upkeep, tierer) if info.HasField("upkeep") else tierer.run
                self.chance.choice([runs, tierer.fail, self._commit_and_die(tierer)])(info)
            except (LakewardError, AssertionError):  # fenced
                tierer.running.pop(info.round_id, None)

    def _commit_and_die(self, tierer: HandTierer):  # type: ignore[no-untyped-def]
        def die(info: pb.PbLakeTieringTableInfo) -> None:
            tierer.plan(info)
            tierer.begin(info, tierer.prepare(info, () if info.HasField("upkeep") else None))
            self.tierers.remove(tierer)
            self.tierers.append(self.world.tierer(f"t{next(self.names)}"))

        return die

    def _time(self) -> None:
        self.world.append(table=self.chance.choice(self.world.tables))
        if isinstance(self.world, UpkeepWorld):
            self.world.degrade(table=self.chance.choice(self.world.tables), seconds=0)
        self.world.later(self.chance.choice([0.5, 1, 5, 40]))

    def _pause(self) -> None:
        table = self.chance.choice(self.world.tables)
        self.chance.choice([pause, resume])(self.world, table)

    def _fault(self) -> None:
        match self.chance.randrange(4):
            case 0:
                self.assigner.stop()
            case 1:
                self.assigner.stop()
                self.assigner.start()
            case 2:
                self.assigner.break_connection()
            case _:
                self.world.restart()

    def _other(self) -> None:
        if self.assigner.is_up:
            self.assigner.another_asks()
        for table in self.world.tables:
            turn = self.assigner.tiering.get(table.table_id)
            if turn is not None and turn.owner != OURS and self.chance.random() < 0.5:
                self.assigner.another_fails(table)

    def _check(self) -> None:
        records = self.world.coordinator.table_records
        for record in records.live():
            assert (record.upkeep.before is not None) == record.upkeep_runs
        for record in records.assigned():
            assert not (record.unresolved_commit and record.assignment is not None and record.assignment.end is not None)
        held = [record for record in records.assigned() if record.has_turn and record.pause is not None and record.running is None]
        assert len(held) <= len(self.world.tables)
