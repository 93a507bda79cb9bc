"""Stories of a small deployment, drawn from a seed: tables, rows, rounds, CALLs, deaths and damage in any order, and a model of the rows.

Everything is real but the processes: embedded cluster, coordinator over SQLite, rounds, lake. `Story.heal` then does what the
printed hints say until nothing is left to do; `Story.prove` compares.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.lake_kinds.kinds import LakeKind
from support.worlds.faults import Fault
from support.worlds.stories.healing import Healing

DRAWS = 4
"""Many faults need something that is not there."""
TRIES, TRIES_OF_A_TABLE = 8, 2
"""Until a wanted fault can happen."""
PERIOD = 10
SHARE, SHARE_IN_ONE_FORMAT = 4, 8
"""In how many of PERIOD stories a fault is wanted; more often if it can happen in one format of lakes alone."""

Inject = Callable[["Story"], str | None]


@dataclass(frozen=True)
class StoryFault(Fault):
    """`inject` makes it happen, and returns what happened; None where there was nothing that it could happen to."""

    inject: Inject
    formats: frozenset[str]
    """Lake formats in which it can happen."""


def wanted_of(seed: int, faults: Sequence[StoryFault]) -> list[StoryFault]:
    """The faults that the story of a seed is to meet: each of them in as many of PERIOD seeds that follow one another."""
    rng, wanted = random.Random(f"wanted {seed // PERIOD}"), []
    for fault in faults:
        share = SHARE if len(fault.formats) > 1 else SHARE_IN_ONE_FORMAT
        if seed % PERIOD in rng.sample(range(PERIOD), share):
            wanted.append(fault)
    random.Random(seed).shuffle(wanted)
    return wanted


class Story(Healing):
    """One of them. `faults`: those that it may meet; `wanted`: those that it is to meet, whatever else is drawn."""

    def __init__(
        self, folder: Path, seed: int, kind: LakeKind, faults: Sequence[StoryFault] = (), wanted: Sequence[StoryFault] = ()
    ) -> None:
        super().__init__(folder, seed, kind)
        self.abandoned, self.store_backup = [], None
        self.backup, self.damaged, self.renamed = {}, {}, {}
        self.faults = [fault for fault in faults if kind.format in fault.formats]
        self.wanted = deque(fault for fault in wanted if kind.format in fault.formats)

    def meet_fault(self) -> None:
        """Some fault that can happen now."""
        any(self.inject(fault) for fault in self.rng.sample(self.faults, min(DRAWS, len(self.faults))))

    def inject(self, fault: StoryFault) -> bool:
        """Whether it could happen."""
        happened = self.attempt(fault.name, lambda: fault.inject(self))
        if not isinstance(happened, str):
            return False
        self.injected[fault.name] += 1
        return True

    def tell(self, steps: int) -> None:
        """Draws and does so many."""
        self.create()
        for left in range(steps, 0, -1):
            (step,) = self.rng.choices(list(STEPS), weights=list(STEPS.values()))
            self.attempt(step.__name__, lambda step=step: step(self))  # type: ignore[misc]
            while len(self.wanted) >= left or (self.wanted and self.rng.random() < len(self.wanted) / left):
                self.meet_wanted()

    def meet_wanted(self) -> None:
        """The next fault that is wanted. Where it cannot happen, most often because of those before it, all is healed first."""
        fault = self.wanted.popleft()
        if self.injected[fault.name] or self.inject(fault):
            return
        self.heal()
        for number in range(TRIES):
            self.make_ready(number)
            if self.inject(fault):
                return

    def make_ready(self, number: int) -> None:
        """Prepares the tables that most faults need: tiered tables with KV snapshots; now and then other tables."""
        if number % TRIES_OF_A_TABLE == TRIES_OF_A_TABLE - 1:
            self.attempt("drop", self.drop)
        self.attempt("create", self.create)
        self.attempt("snapshot", self.snapshot)
        self.attempt("tier", self.tier)


STEPS: dict[Callable[[Story], object], int] = {
    Story.create: 3,
    Story.drop: 1,
    Story.switch: 2,
    Story.add_column: 2,
    Story.drop_partition: 2,
    Story.write: 9,
    Story.delete: 3,
    Story.snapshot: 3,
    Story.wait: 3,
    Story.restart: 2,
    Story.tier: 8,
    Story.upkeep: 4,
    Story.lose_an_ack: 2,
    Story.abandon: 3,
    Story.come_back: 3,
    Story.call: 8,
    Story.meet_fault: 16,
}
