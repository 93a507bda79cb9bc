"""What a named fault is. Each harness keeps a list of its own; `faults.reliability` puts the lists together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, and that is injected on purpose."""

    name: str
    description: str
    """What happens, as a sentence."""
    where: str
    """Which harness injects it ("simulator", "stories"); of faults of processes and services, which part they strike."""
    handled_by: str
    """What makes it harmless: a function, or a rule of the design."""
    held_by: str
    """The test that fails when that is taken out."""
