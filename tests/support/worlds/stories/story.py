"""Stories of a small deployment, drawn from a seed: tables, rows, rounds, CALLs, deaths and damage in any order, and a model of the rows.

Everything is real but the processes: embedded cluster, coordinator over SQLite, rounds, lake. `Story.heal` then does what the
printed hints say until nothing is left to do; `Story.prove` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.lake_kinds.kinds import LakeKind
from support.worlds.faults import Fault
from support.worlds.stories.healing import Healing

DRAWS = 4
"""Many faults need something that is not there."""

Inject = Callable[["Story"], str | None]


@dataclass(frozen=True)
class StoryFault(Fault):
    """`inject` makes it happen, and returns what happened; None where there was nothing that it could happen to."""

    inject: Inject
    formats: frozenset[str]
    """Of the lakes that it can happen to."""


class Story(Healing):
    """One of them. `faults`: those that it may meet."""

    def __init__(self, folder: Path, seed: int, kind: LakeKind, faults: Sequence[StoryFault] = ()) -> None:
        super().__init__(folder, seed, kind)
        self.abandoned, self.store_backup = [], None
        self.backup, self.damaged = {}, {}
        self.faults = [fault for fault in faults if kind.format in fault.formats]

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
        for _ in range(steps):
            (step,) = self.rng.choices(list(STEPS), weights=list(STEPS.values()))
            self.attempt(step.__name__, lambda step=step: step(self))  # type: ignore[misc]


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
    Story.lose_an_ack: 2,
    Story.abandon: 3,
    Story.come_back: 3,
    Story.call: 8,
    Story.meet_fault: 16,
}
