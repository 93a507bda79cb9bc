"""Whether a fault strikes now: by a seed, and counted under its name."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection

FOCUS = 6
"""How much likelier a fault is where nothing else goes wrong."""


class Chance:
    """`faulty` False: nothing goes wrong any more. `injected`: how often each fault really was. `only`: no others; None = all."""

    def __init__(self, seed: int, only: Collection[str] | None = None) -> None:
        self.random = random.Random(seed)
        self.faulty = True
        self.only = only
        self.injected: Counter[str] = Counter()

    def may(self, *faults: str) -> bool:
        """Whether one of these faults is among those that may happen; none named = no fault."""
        return self.only is None or not faults or not set(faults).isdisjoint(self.only)

    def strikes(self, fault: str, share: float) -> bool:
        """Whether the fault happens, as it does in this share of the times; the caller injects it then."""
        if self.only is not None:
            share = share * FOCUS if fault in self.only else 0.0
        if not self.faulty or self.random.random() >= share:
            return False
        self.injected[fault] += 1
        return True

    def note(self, fault: str) -> None:
        """A fault was injected that no share decides about."""
        self.injected[fault] += 1


class SimulatedDeath(BaseException):
    """The death of the process: it passes every handler, and the caller gets no answer."""


class PanicException(BaseException):
    """A panic like those of libraries in Rust: no Exception."""
