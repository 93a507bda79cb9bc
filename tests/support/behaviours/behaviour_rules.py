"""Stories of tiered tables, and what any of them may do: rounds that go well, are fenced, lose their ack or have no time; restarts.

A story is a list of steps, drawn with weights: a state machine of Hypothesis leaves out most rules of most stories, and so tells of
tables without rows.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.behaviours.behaviour_world import TieredTable
from support.behaviours.lacks import Lack
from tiering.errors import LakewardError
from tiering.model.rounds import RoundState

WENT_WELL = (RoundState.SUCCEEDED, RoundState.EMPTY)
ROUNDS = {"restart": 1, "round": 3, "fenced_round": 1, "round_without_ack": 1, "round_without_time": 2}
"""Weights of the steps below."""


class Story:
    """One story. A subclass has the steps that write, and their weights; each step takes what draws its data."""

    weights: Mapping[str, int]
    needs: Mapping[str, Lack] = {}
    """By step, what a backend must not lack for it."""

    def __init__(self, world: TieredTable, events: Counter[str]) -> None:
        self.world: Any = world
        self.events = events
        """Events of all stories together, to show that the stories are useful."""

    def tell(self, data: st.DataObject, steps: int) -> None:
        """The story, then a last round, after which everything is tiered."""
        can = self.world.backend.can
        names = [name for name, weight in self.weights.items() if name not in self.needs or can(self.needs[name]) for _ in range(weight)]
        for _ in range(steps):
            getattr(self, data.draw(st.sampled_from(names)))(data)
        self.world.check()
        self.round(data)

    def restart(self, data: st.DataObject) -> None:
        self.world.restart()

    def round(self, data: st.DataObject) -> None:
        assert self._run() in WENT_WELL
        self.world.assert_all_tiered()

    def fenced_round(self, data: st.DataObject) -> None:
        before = self.world.tiered
        assert self._run(refuse_fence=True) in (RoundState.FENCED, RoundState.EMPTY)
        assert self.world.tiered == before

    def round_without_ack(self, data: st.DataObject) -> None:
        """Acks the rows of an earlier round before anything else; without a coordinator it does no more."""
        assert self._run(lose_ack=True) in (*WENT_WELL, RoundState.FAILED)

    def round_without_time(self, data: st.DataObject) -> None:
        """Runs a round that stops early: it reads one batch of each bucket, and one bucket of those that still need their KV snapshot."""
        assert self._run(max_duration_ms=0) in (*WENT_WELL, RoundState.FORCE_FINISHED)

    def _run(self, **how: Any) -> RoundState:
        outcome = self.world.run_round(**how)
        self.events[outcome.state.value] += 1
        if outcome.state is RoundState.FAILED:
            assert how, why(outcome.error)
        return outcome.state


def tell_stories(tell: Any, examples: int) -> None:
    """Calls `tell(data, folder)` for each story, always the same ones; not shrunk, for a story of real files takes seconds."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def example(data: st.DataObject) -> None:
        folder = Path(tempfile.mkdtemp())
        try:
            tell(data, folder)
        finally:
            shutil.rmtree(folder)

    example()


def why(error: LakewardError | None) -> str:
    return "" if error is None else f"{error.error_class}: {error.message}"
