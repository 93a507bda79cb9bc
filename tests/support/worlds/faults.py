"""What a named fault is. Each harness keeps a list of its own; `faults.reliability` puts the lists together."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    variant_of: str | None = field(default=None, kw_only=True)
    """The fault that is the same in another size or at another place; None = a kind of its own."""
    also_held_by: tuple[str, ...] = field(default=(), kw_only=True)
    """Tests of the same fault elsewhere: in another harness, beside another cluster."""

    @property
    def tests(self) -> tuple[str, ...]:
        """All that hold it."""
        return (self.held_by, *self.also_held_by)
