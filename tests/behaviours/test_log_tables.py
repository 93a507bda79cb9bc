"""Whatever is appended, added, dropped and restarted: after each round the lake is the log up to its marker.

For every backend. Hypothesis makes the stories, always the same; a failure prints its story.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from support.behaviours.backends import Backend
from support.behaviours.behaviour_log import LogBehaviour
from support.behaviours.behaviour_rules import ROUNDS, Story, tell_stories
from support.behaviours.lacks import Lack

LATER = {
    "note": (pa.string(), st.sampled_from(["", "\U0001f600", "x" * 40])),
    "amount": (pa.decimal128(38, 18), st.sampled_from([Decimal("0.000000000000000001"), Decimal("-99999999999999999999.5")])),
    "tags": (pa.list_(pa.string()), st.sampled_from([[], ["a", None]])),
    "place": (
        pa.struct([("x", pa.int32()), ("names", pa.list_(pa.string()))]),
        st.sampled_from([{"x": 1, "names": None}, {"x": None, "names": ["n"]}]),
    ),
    "small": (pa.int16(), st.sampled_from([-32768, 0, 32767])),
    "day": (pa.date32(), st.sampled_from([date(1969, 12, 31), date(2024, 2, 29)])),
    "seen": (pa.timestamp("us", "UTC"), st.sampled_from([datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)])),
}
REGIONS = ("north", "south", "east-1")


class LogStory(Story):
    weights = ROUNDS | {"append": 6, "add_column": 2, "drop_partition": 1}
    needs: ClassVar = {"add_column": Lack.ADDED_COLUMNS}

    def append(self, data: st.DataObject) -> None:
        added = [name for name in self.world.table.schema.names if name in LATER]
        values = {"name": st.sampled_from([None, "", "a"]), **{name: st.none() | LATER[name][1] for name in added}}
        one_row: Any = st.tuples(st.sampled_from(REGIONS), st.fixed_dictionaries(values))
        self.world.append(data.draw(st.lists(one_row, min_size=1, max_size=12)))

    def add_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(LATER)))
        self.world.add_column(name, LATER[name][0])

    def drop_partition(self, data: st.DataObject) -> None:
        if self.world.regions:
            self.world.drop_partition(data.draw(st.sampled_from(self.world.regions)))


@pytest.mark.every_backend
def test_after_each_round_the_lake_is_the_log_up_to_its_marker(backend: Backend) -> None:
    events: Counter[str] = Counter()

    def tell(data: st.DataObject, folder: Path) -> None:
        partitioned, has_bucket_key = data.draw(st.booleans()), data.draw(st.booleans())
        world = LogBehaviour(folder, backend, partitioned, ("id",) if has_bucket_key else ())
        try:
            LogStory(world, events).tell(data, 16)
        finally:
            world.close()

    tell_stories(tell, backend.stories)
    assert backend.happened("SUCCEEDED", "EMPTY", "FENCED", "FORCE_FINISHED") <= events.keys(), events
