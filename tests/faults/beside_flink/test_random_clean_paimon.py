"""Random steps beside Flink on real clean Paimon tables: two incarnations that sleep, die or say nothing, files written anew, our rounds,
and a user who does what errors say. A seed reproduces a failure.

Whenever a round of ours passes, the lake is what the log is: nothing was ever adopted that is not.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from support.flink.flink_on_iceberg import FlinkOnIceberg, flink_on, share
from support.lake_kinds.kinds import PAIMON_CLEAN
from support.on_call import call, follow, in_lake
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.model.tables import TableInfo

STEPS = 24
KEYS = 12


class CleanStory:
    """See the module. `step` does one random thing."""

    def __init__(self, folder: Path, seed: int, *, keyed: bool) -> None:
        self.random, self.keyed = random.Random(seed), keyed
        self.world = LakeWorld(folder, kind=PAIMON_CLEAN)
        share(self.world)
        self.table: TableInfo = self.world.primary_key_table("planes") if keyed else self.world.table("orders")
        self.writer = LogWriter(self.world.storage, self.table.path, "writer")
        self.rows = 0
        self.flinks: list[tuple[FlinkOnIceberg, list[str]]] = []
        self.happened: Counter[str] = Counter()
        self.write()
        self.tier()

    def step(self) -> None:
        things = {self.write: 5, self.flink: 10, self.tier: 5, self.rewrite: 1}
        self.random.choices(list(things), weights=list(things.values()))[0]()

    def write(self) -> None:
        count = self.random.randrange(2, 9)
        if not self.keyed:
            self.world.append(self.table, self.rows, count)
        else:
            keys = [self.random.randrange(KEYS) for _ in range(count)]
            self.writer.upsert(pa.table({"id": keys, "text": [f"text {self.rows}"] * count}, schema=PRIMARY_KEY_SCHEMA))
            gone = pa.table({"id": [self.random.randrange(KEYS)]}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")]))
            self.writer.delete(gone)
        self.rows += count

    def flink(self) -> None:
        """An incarnation goes on by one step, or another one begins, or one dies."""
        if len(self.flinks) < 2 and self.random.random() < 0.5:
            self.flinks.append((flink_on(self.world, self.table).plan(), ["append", "tell"]))
        elif self.flinks:
            place = self.random.randrange(len(self.flinks))
            flink, rest = self.flinks[place]
            if self.random.random() > 0.1:
                getattr(flink, rest.pop(0))()
                self.happened["flink"] += 1
            else:
                rest.clear()
            if not rest:
                self.flinks.pop(place)

    def rewrite(self) -> None:
        if self.world.view(self.table).head is not None and not self.keyed:
            self.world.by_hand.rewrite(self.table.path)
            self.happened["rewritten"] += 1

    def tier(self) -> None:
        outcome = self.world.tier(self.table)
        if outcome.error is None:
            self.happened[outcome.state.value] += 1
            assert faults(check(self.world, self.table)) == []
            return
        assert outcome.error.error_class == "ForeignTieringUnproved", outcome.error
        self.happened[outcome.error.error_class] += 1
        self.mend()

    def mend(self) -> None:
        ran = follow(self.world.coordinator, self.table, in_lake(self.world))
        if self.keyed:
            assert ["'retier'" in statement for statement in ran] == [True]
            return
        [status] = self.world.coordinator.view().table_statuses()
        hint = re.search(r"Set the main branch on snapshot (\d+)", status.error_hint or "")
        assert (ran, hint is None) == ([], False), status
        assert hint is not None
        self.world.by_hand.roll_back(self.table.path, int(hint[1]))
        call(self.world.coordinator, "CALL fluss.sys.retry_tiering('sales.orders')")

    def heal(self) -> None:
        """All incarnations end. Then both services go on, and within some rounds all is whole."""
        while self.flinks:
            self.flink()
        for _ in range(4):
            self.tier()
        self.write()
        flink_on(self.world, self.table).plan().append().tell()
        healthy = self.world.tier(self.table)
        assert healthy.error is None, healthy.error
        assert faults(check(self.world, self.table)) == []


@pytest.mark.parametrize("keyed", [False, True], ids=["log", "primary-key"])
@pytest.mark.in_turn("seed")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_adopted_that_is_not_the_logs(tmp_path: Path, seed: int, keyed: bool) -> None:
    story = CleanStory(tmp_path, seed, keyed=keyed)
    for _ in range(STEPS):
        story.step()
    story.heal()
    assert story.happened["flink"] > 0
    story.world.close()
