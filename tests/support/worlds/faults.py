"""A named fault. Each harness has its own list of faults; `faults.reliability` merges the lists."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """A fault that tests inject."""

    name: str
    description: str
    """The fault as a sentence."""
    where: str
    """The harness that injects it ("simulator", "stories"), or the part of the product that it strikes."""
    handled_by: str
    """The function or the rule of the design that makes it harmless."""
    held_by: str
    """The test that fails when `handled_by` is taken out."""
    variant_of: str | None = field(default=None, kw_only=True)
    """The name of the fault that differs only in size or place; None if there is no such fault."""
    also_held_by: tuple[str, ...] = field(default=(), kw_only=True)
    """Tests of the same fault in another harness or on another cluster."""

    @property
    def tests(self) -> tuple[str, ...]:
        """All tests of the fault."""
        return (self.held_by, *self.also_held_by)
