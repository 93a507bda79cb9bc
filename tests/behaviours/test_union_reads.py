"""Whatever is written, tiered, cut, added and dropped: a union read is the table as of now, and the same rows when it is repeated.

For every backend. Hypothesis makes the stories, always the same; a failure prints its story.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from behaviours.test_log_tables import LogStory
from behaviours.test_primary_key_tables import NEEDED, PrimaryKeyStory
from hypothesis import strategies as st

from support.behaviours.backends import Backend
from support.behaviours.behaviour_log import LogBehaviour
from support.behaviours.behaviour_primary_key import SHAPES, PrimaryKeyBehaviour
from support.behaviours.behaviour_rules import Story, tell_stories
from support.behaviours.behaviour_world import Row
from support.behaviours.union_read_model import WEIGHTS, UnionReads


class _Reads(Story):
    reads: UnionReads

    def read(self, data: st.DataObject) -> None:
        self.reads.read()

    def read_again(self, data: st.DataObject) -> None:
        self.reads.read_again(data)


class ReadLogStory(_Reads, LogStory):
    weights: ClassVar = LogStory.weights | WEIGHTS

    def __init__(self, world: LogBehaviour, events: Counter[str]) -> None:
        super().__init__(world, events)
        self.reads = UnionReads(world, lambda: _log_rows(world), events)


class ReadPrimaryKeyStory(_Reads, PrimaryKeyStory):
    weights: ClassVar = PrimaryKeyStory.weights | WEIGHTS

    def __init__(self, world: PrimaryKeyBehaviour, events: Counter[str]) -> None:
        super().__init__(world, events)
        self.reads = UnionReads(world, lambda: [*world.now.values(), *world.left], events)


def _log_rows(world: LogBehaviour) -> list[Row]:
    return [row for rows in world.rows.values() for row in rows if row is not None] + world.left


@pytest.mark.every_backend
def test_a_union_read_of_a_log_table_has_each_appended_row_once(backend: Backend) -> None:
    events: Counter[str] = Counter()

    def tell(data: st.DataObject, folder: Path) -> None:
        partitioned, has_bucket_key = data.draw(st.booleans()), data.draw(st.booleans())
        world = LogBehaviour(folder, backend, partitioned, ("id",) if has_bucket_key else ())
        try:
            ReadLogStory(world, events).tell(data, 20)
        finally:
            world.close()

    tell_stories(tell, backend.stories)
    assert backend.happened("reads", "reads again", "rows of lake and log") <= {event for event, times in events.items() if times}, events


@pytest.mark.every_backend
def test_a_union_read_of_a_primary_key_table_has_the_last_row_of_each_key(backend: Backend) -> None:
    events: Counter[str] = Counter()
    shapes = sorted(name for name, shape in SHAPES.items() if all(map(backend.can, shape.needs)))

    def tell(data: st.DataObject, folder: Path) -> None:
        world = PrimaryKeyBehaviour(folder, backend, data.draw(st.sampled_from(shapes)), events=events)
        try:
            ReadPrimaryKeyStory(world, events).tell(data, 24)
        finally:
            world.close()

    tell_stories(tell, backend.stories)
    from_snapshots = ["reads of KV snapshots"] if backend.can(NEEDED["from a KV snapshot"]) else []
    happened = backend.happened("reads", "reads again", "rows of lake and log", *from_snapshots)
    assert happened <= {event for event, times in events.items() if times}, events
