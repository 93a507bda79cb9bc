"""Whatever is inserted, changed, deleted, snapshot, cut, added, dropped and restarted: after each round the lake is the table.

For every backend, as of the offsets of the lake's marker. Hypothesis makes the stories, always the same; a failure
prints its story.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from support.behaviours.backends import Backend
from support.behaviours.behaviour_primary_key import SHAPES, PrimaryKeyBehaviour
from support.behaviours.behaviour_rules import ROUNDS, Story, tell_stories
from support.behaviours.lacks import Lack

LATER = {"note": (pa.string(), st.sampled_from(["", "é"])), "tags": (pa.list_(pa.string()), st.sampled_from([[], ["a", None]]))}
REGIONS = ("north", "south")
KEYS = st.fixed_dictionaries({"region": st.sampled_from(REGIONS), "id": st.integers(0, 15)})
NEEDED = {"from a KV snapshot": Lack.KV_SNAPSHOT_ON_DEMAND, "log cut": Lack.LOG_CUT_ON_DEMAND}
"""Events that happen only with a backend that can bring them about."""


class PrimaryKeyStory(Story):
    """Few keys, so that the same ones come, change, go and come back."""

    weights = ROUNDS | {"upsert": 6, "delete": 3, "snapshot": 2, "age": 2, "add_column": 1, "drop_partition": 1}
    needs: ClassVar = {"snapshot": Lack.KV_SNAPSHOT_ON_DEMAND, "age": Lack.LOG_CUT_ON_DEMAND, "add_column": Lack.ADDED_COLUMNS}

    def __init__(self, world: PrimaryKeyBehaviour, events: Counter[str]) -> None:
        super().__init__(world, events)
        self.dropped: set[str] = set()

    def upsert(self, data: st.DataObject) -> None:
        names = self.world.table.schema.names
        values: dict[str, Any] = {"name": st.sampled_from([None, "", "a", "b"])} if "name" in names else {}
        values |= {name: st.none() | LATER[name][1] for name in names if name in LATER}
        rows = data.draw(st.lists(st.tuples(KEYS, st.fixed_dictionaries(values)), min_size=1, max_size=20))
        self.world.upsert(self._living([key | more for key, more in rows]))

    def delete(self, data: st.DataObject) -> None:
        self.world.delete(self._living(data.draw(st.lists(KEYS, min_size=1, max_size=6))))

    def _living(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A partition that was dropped does not come back: its rows stay in the lake."""
        return [row for row in rows if row["region"] not in self.dropped]

    def snapshot(self, data: st.DataObject) -> None:
        self.world.snapshot()

    def age(self, data: st.DataObject) -> None:
        self.world.age()

    def add_column(self, data: st.DataObject) -> None:
        if self.world.shape != "keys only":
            name = data.draw(st.sampled_from(sorted(LATER)))
            self.world.add_column(name, LATER[name][0])

    def drop_partition(self, data: st.DataObject) -> None:
        if len(self.world.regions) == len(REGIONS):
            region = data.draw(st.sampled_from(REGIONS))
            self.dropped.add(region)
            self.world.drop_partition(region)


@pytest.mark.every_backend
def test_after_each_round_the_lake_is_the_table_as_of_its_marker(backend: Backend) -> None:
    events: Counter[str] = Counter()
    shapes = sorted(name for name, shape in SHAPES.items() if all(map(backend.can, shape.needs)))

    def tell(data: st.DataObject, folder: Path) -> None:
        world = PrimaryKeyBehaviour(folder, backend, data.draw(st.sampled_from(shapes)), events=events)
        try:
            PrimaryKeyStory(world, events).tell(data, 20)
            world.prove()
        finally:
            world.close()

    tell_stories(tell, backend.stories)
    can_happen = [event for event, need in NEEDED.items() if backend.can(need)]
    happened = backend.happened("SUCCEEDED", "compared rows", "FENCED", "FORCE_FINISHED", "partly tiered", "rows deleted", *can_happen)
    assert happened <= {event for event, times in events.items() if times}, events
