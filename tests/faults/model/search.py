"""Search through the states of a model: every interleaving, shortest stories first; and long stories drawn at random."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class State(Hashable, Protocol):
    """A state of a model; `broken` tells which invariant the last step violated, and is empty if it violated none."""

    @property
    def broken(self) -> str: ...


S = TypeVar("S", bound=State)
Steps = Callable[[S], Iterable[tuple[str, S]]]


@dataclass(frozen=True)
class Violation:
    """A story that ends with a violated invariant, a step a line."""

    invariant: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        """The story as people read it."""
        return "\n".join([f"{number:3} {step}" for number, step in enumerate(self.steps, 1)] + [f"    => {self.invariant}"])


@dataclass(frozen=True)
class Result:
    """`complete`: there is no state beyond the depth. `depth` is that of the deepest state, `states` their number."""

    violation: Violation | None
    states: int
    depth: int
    complete: bool


class Search(Generic[S]):
    """Searches from one state on. `way_out` tells of a state that no continuation without faults heals; None = one does."""

    def __init__(self, initial: S, steps: Steps[S], way_out: Callable[[S], Violation | None] = lambda state: None) -> None:
        self._initial, self._steps, self._way_out = initial, steps, way_out
        self._before: dict[S, tuple[S, str] | None] = {initial: None}

    def run(self, depth: int, states: int | None = None, seconds: float | None = None) -> Result:
        """Stops at the first violation, behind `depth` steps, when there are more `states` than that, or after so many `seconds`."""
        queue = deque([(self._initial, 0)])
        stops = None if seconds is None else time.monotonic() + seconds
        deepest, complete = 0, True
        while queue:
            state, at = queue.popleft()
            deepest = max(deepest, at)
            problem = self._way_out(state)
            if problem is not None:
                story = Violation(problem.invariant, (*self._story(state), *problem.steps))
                return Result(story, len(self._before), at, False)
            if (states is not None and len(self._before) > states) or (stops is not None and time.monotonic() > stops):
                return Result(None, len(self._before), deepest, False)
            if at == depth:
                complete = complete and not any(after not in self._before for _, after in self._steps(state))
                continue
            for step, after in self._steps(state):
                if after in self._before:
                    continue
                self._before[after] = (state, step)
                if after.broken:
                    return Result(Violation(after.broken, self._story(after)), len(self._before), at + 1, False)
                queue.append((after, at + 1))
        return Result(None, len(self._before), deepest, complete)

    def walk(self, depth: int, seconds: float, seed: int = 0) -> Result:
        """Stories of up to `depth` steps drawn at random, one after the other, for so many `seconds`: deeper than a search comes in a
        large model, and not complete. Whether the table can be healed is asked where a story ends. `states` counts steps.
        """
        chance, stops = random.Random(seed), time.monotonic() + seconds
        walked = deepest = 0
        while time.monotonic() < stops:
            state, story = self._initial, list[str]()
            while len(story) < depth and (following := list(self._steps(state))):
                step, state = chance.choice(following)
                story.append(step)
                if state.broken:
                    return Result(Violation(state.broken, tuple(story)), walked + len(story), len(story), False)
            walked, deepest = walked + len(story), max(deepest, len(story))
            if (problem := self._way_out(state)) is not None:
                return Result(Violation(problem.invariant, (*story, *problem.steps)), walked, len(story), False)
        return Result(None, walked, deepest, False)

    def _story(self, state: S) -> tuple[str, ...]:
        steps: list[str] = []
        at = self._before[state]
        while at is not None:
            steps.append(at[1])
            at = self._before[at[0]]
        return tuple(reversed(steps))


class WaysOut(Generic[S]):
    """From any state: does one continuation without faults make the table tiered? Chains that meet a known state end there.

    `next_step` names the step of such a continuation; None = there is none, though the state is no goal.
    """

    LONGEST = 80
    """Steps of a continuation; more are a circle."""
    SHOWN = 12
    """Steps of a circle that are shown."""

    def __init__(self, is_goal: Callable[[S], bool], next_step: Callable[[S], tuple[str, S] | None]) -> None:
        self._is_goal, self._next_step = is_goal, next_step
        self._healing: set[S] = set()

    def __call__(self, state: S) -> Violation | None:
        """The continuation that violates an invariant, or that leaves the table blocked for ever."""
        chain: list[tuple[str, S]] = [("", state)]
        while True:
            at = chain[-1][1]
            if at in self._healing or self._is_goal(at):
                self._healing.update(healing for _, healing in chain)
                return None
            following = self._next_step(at)
            steps = tuple(step for step, _ in chain[1:])
            if following is None:
                return Violation("the table is blocked for ever: nothing more can be done", steps)
            if following[1].broken:
                return Violation(following[1].broken, (*steps, following[0]))
            if len(chain) > self.LONGEST:
                return Violation("the table is blocked for ever: without faults it goes round in circles", steps[: self.SHOWN])
            chain.append(following)
