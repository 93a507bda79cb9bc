"""Whether a fault strikes now: by a seed, and counted under its name."""

from __future__ import annotations

import random
from collections import Counter


class Chance:
    """`faulty` False: nothing goes wrong any more. `injected`: how often each fault really was."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.faulty = True
        self.injected: Counter[str] = Counter()

    def strikes(self, fault: str, share: float) -> bool:
        """Whether the fault happens, as it does in this share of the times; the caller injects it then."""
        if not self.faulty or self.random.random() >= share:
            return False
        self.injected[fault] += 1
        return True

    def note(self, fault: str) -> None:
        """A fault was injected that no share decides about."""
        self.injected[fault] += 1


class SimulatedDeath(BaseException):
    """The process is gone: passes every handler, and whoever called it gets no answer."""


class PanicException(BaseException):
    """As libraries written in Rust raise it: no Exception."""
