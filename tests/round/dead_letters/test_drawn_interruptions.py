"""Drawn stories of rounds that put records aside, die between any two steps, wake up late, and lose their answers.

At the end each good record is a row, and each bad record is one dead letter that counts.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.lake_kinds.dead_letters import PUT_ASIDE, letters
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned, refuse_poison
from support.worlds.lake_world import SteppedRound
from support.worlds.validated import check, faults
from tiering.model.rounds import RoundState
from tiering.round.steps import actions as act

POINTS = {
    "before the grant": act.BeginCommit,
    "before the letters": act.PutRecordsAside,
    "before the commit": act.CommitLake,
    "ack": act.Ack,
}
"""The step before which a round falls asleep."""

MOST_ROUNDS = 20
"""Rounds after which the lake has everything, waits after failures included."""
WRITES = st.lists(st.booleans(), min_size=1, max_size=4).map(lambda bad: ("write", tuple(bad)))
STEPS = st.lists(
    st.one_of(
        WRITES,
        st.sampled_from(sorted(POINTS)).map(lambda point: ("sleep", point)),
        st.sampled_from([("tier", None), ("wake", None), ("restart", None), ("lose", None)]),
    ),
    min_size=3,
    max_size=9,
)


class Story:
    """A table, what was written to it, and the rounds that sleep."""

    def __init__(self, folder: Path, kind: LakeKind, *, has_key: bool) -> None:
        self.poisoned = Poisoned(folder, kind, has_key=has_key, buckets=1, options=PUT_ASIDE)
        self.world = self.poisoned.world
        self.asleep: list[SteppedRound] = []
        self.written: list[bool] = []

    def step(self, name: str, detail: object) -> None:
        if name == "write":
            assert isinstance(detail, tuple)
            first = len(self.written)
            self.poisoned.write(*((first + place, POISON if bad else "good") for place, bad in enumerate(detail)))
            self.written += detail
        elif name == "sleep":
            self._sleep(POINTS[str(detail)])
        elif name == "wake" and self.asleep:
            self.asleep.pop(0).runner.run()
        elif name == "restart":
            self.world.restart()
        elif name in ("tier", "lose"):
            self.world.transport.lose_acks = name == "lose"
            if (stepped := self._begin()) is not None:
                stepped.runner.run()
            self.world.transport.lose_acks = False
            self._lose_tierer()

    def _begin(self) -> SteppedRound | None:
        """The table's next round; None while the table waits after a failure."""
        self.world.due()
        answer = self.world.beat(request_table=True)
        return self.world._stepped(answer) if answer.HasField("tiering_table") else None

    def _sleep(self, point: type[act.Action]) -> None:
        if (stepped := self._begin()) is None:
            return
        while not isinstance(stepped.runner.next_action, point | act.End):
            stepped.runner.advance()
        self.asleep.append(stepped)
        self._lose_tierer()

    def _lose_tierer(self) -> None:
        """The tierer is lost: the next round may begin, and a granted commit may still land."""
        self.world.clock.advance(300)
        self.world.restart()

    def end(self) -> None:
        for stepped in self.asleep:
            stepped.runner.run()
        self._lose_tierer()
        self._tier_all()
        good = {number: "good" for number, bad in enumerate(self.written) if not bad}
        bad = [number for number, bad in enumerate(self.written) if bad]
        assert self.poisoned.in_lake() == good if self.world.lake.view(self.poisoned.table.path) else not good
        assert [letter["offset"] for letter in letters(self.poisoned)] == bad
        assert self.world.record(self.poisoned.table).lake.dead_letters == ({"0": tuple(bad)} if bad else {})
        assert not faults(check(self.world, self.poisoned.table))

    def _tier_all(self) -> None:
        for _ in range(MOST_ROUNDS):
            if (stepped := self._begin()) is not None and stepped.end().state is RoundState.EMPTY:
                return
        raise AssertionError(self.world.record(self.poisoned.table).error)


@pytest.mark.parametrize("kind", [ICEBERG_CLEAN, PAIMON], ids=lambda kind: kind.name)
@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary key"])
def test_each_record_is_a_row_or_one_dead_letter(kind: LakeKind, has_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_poison(monkeypatch)

    @settings(max_examples=examples(4), phases=[Phase.generate])
    @given(WRITES, STEPS)
    def story(first: tuple[str, object], steps: list[tuple[str, object]]) -> None:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as folder:
            table = Story(Path(folder), kind, has_key=has_key)
            for step in [first, *steps]:
                table.step(*step)
            table.end()
            table.world.close()

    story()
