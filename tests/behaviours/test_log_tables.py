"""Whatever is appended, added, dropped and restarted: after each round the lake is the log up to its marker.

For every cluster and every lake. Hypothesis makes the stories, always the same; a failure prints its story.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from support.behaviour_world import CLUSTERS, LAKES, Behaviour
from tiering.errors import LakewardError
from tiering.model import RoundState

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


class Stories(RuleBasedStateMachine):
    """One story. `cluster` and `lake` are set by a subclass."""

    cluster: str
    lake: str
    world: Behaviour

    @initialize(partitioned=st.booleans(), keyed=st.booleans())
    def begin(self, partitioned: bool, keyed: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.world = Behaviour(self.folder, CLUSTERS[self.cluster], LAKES[self.lake], partitioned, ("id",) if keyed else ())

    @rule(data=st.data(), count=st.integers(1, 12))
    def append(self, data: st.DataObject, count: int) -> None:
        added = [name for name in self.world.table.schema.names if name in LATER]
        values = {"name": st.sampled_from([None, "", "a"]), **{name: st.none() | LATER[name][1] for name in added}}
        one_row: Any = st.tuples(st.sampled_from(REGIONS), st.fixed_dictionaries(values))
        self.world.append(data.draw(st.lists(one_row, min_size=count, max_size=count)))

    @rule(name=st.sampled_from(sorted(LATER)))
    def add_column(self, name: str) -> None:
        self.world.add_column(name, LATER[name][0])

    @precondition(lambda self: self.world.regions)
    @rule(data=st.data())
    def drop_partition(self, data: st.DataObject) -> None:
        self.world.drop_partition(data.draw(st.sampled_from(self.world.regions)))

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule()
    def run_a_round(self) -> None:
        outcome = self.world.run_round()
        assert outcome.state in (RoundState.SUCCEEDED, RoundState.EMPTY), _why(outcome.error)
        self.world.assert_all_tiered()

    @rule()
    def run_a_round_that_is_fenced(self) -> None:
        before = self.world.tiered
        assert self.world.run_round(refuse_fence=True).state in (RoundState.FENCED, RoundState.EMPTY)
        assert self.world.tiered == before

    @rule()
    def run_a_round_whose_ack_is_lost(self) -> None:
        outcome = self.world.run_round(lose_ack=True)
        # What an earlier round tiered is acked before anything else; without a coordinator it stays at that.
        assert outcome.state in (RoundState.SUCCEEDED, RoundState.EMPTY, RoundState.FAILED), _why(outcome.error)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.check()
            self.run_a_round()
        finally:
            self.world.close()
            shutil.rmtree(self.folder)


def _why(error: LakewardError | None) -> str:
    return "" if error is None else f"{error.error_class}: {error.message}"


@pytest.mark.parametrize("lake", LAKES)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_after_each_round_the_lake_is_the_log_up_to_its_marker(cluster: str, lake: str) -> None:
    stories = type("StoriesHere", (Stories,), {"cluster": cluster, "lake": lake})
    how = settings(
        max_examples=25,
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # to shrink a story of real files takes minutes
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(stories, settings=how)
