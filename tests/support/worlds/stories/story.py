"""Stories of a small deployment, drawn from a seed: tables, rows, rounds, CALLs, deaths and damage in any order, and a model of the rows.

Everything is real but the processes: embedded cluster, coordinator over SQLite, rounds, lake. `Story.heal` then does what the
printed hints say until nothing is left to do; `Story.prove` compares.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.lake_kinds.kinds import LakeKind
from support.worlds.stories.healing import Healing
from support.worlds.stories.lake_damage import LakeDamage


class Story(Healing, LakeDamage):
    """One of them."""

    def __init__(self, folder: Path, seed: int, kind: LakeKind) -> None:
        super().__init__(folder, seed, kind)
        self.abandoned = []

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
    Story.damage: 3,
}
