"""The hypothesis state machine: which step comes next, of which table, with which numbers. `run_story` runs one seed of it."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest import mock

from faults.random_users.healing import Healing, prove
from faults.random_users.kept_deployment import PARTS, TIERERS
from faults.random_users.lake_users import ACTIONS
from faults.random_users.model import REGIONS, Table
from faults.random_users.users import NAMES, Users
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from support.lake_kinds.kinds import LAKE_KINDS

NUMBERS = st.integers(0, (1 << 16) - 1)
TABLES = st.sampled_from(NAMES)
KINDS = st.integers(0, len(LAKE_KINDS) - 1)
SECONDS = st.sampled_from((0.0, 0.1, 0.3, 0.6, 1.0, 2.0))
DOZE_SECONDS = st.sampled_from((1.0, 4.0, 8.0))
"""Shorter and longer than the time after which a silent tierer has lost its tables."""
LOOKS = ("sweep", "validate", "explain", "read")
STEERING = (
    "pause for a moment",
    "pause",
    "resume",
    "cancel",
    "disable",
    "enable",
    "freshness",
    "reset errors",
    "take kv snapshot",
    "fence",
    "retry",
)


@dataclass
class Story:
    """The outcome of one seed."""

    number: int
    steps: list[str] = field(default_factory=list)
    """Steps as drawn."""
    lines: list[str] = field(default_factory=list)
    """Actions, and their outcomes."""
    failure: BaseException | None = None

    def __str__(self) -> str:
        return "\n".join((f"story {self.number}:", *self.lines, f"  {self.failure!r}" if self.failure is not None else "  all is well"))


Method = Callable[..., None]


def step(**drawn: st.SearchStrategy[Any]) -> Callable[[Method], Method]:
    """A rule that the story tells of."""

    def decorate(method: Method) -> Method:
        @rule(**drawn)
        @functools.wraps(method)
        def noted_rule(machine: RandomUsers, **values: Any) -> None:
            machine.tell(f"{method.__name__} {', '.join(f'{name}={value}' for name, value in values.items())}")
            method(machine, **values)

        return cast(Method, noted_rule)

    return decorate


class RandomUsers(RuleBasedStateMachine):
    """Draws the same steps for a seed whatever becomes of them: nothing that is drawn depends on an answer.

    A step that fails ends the story, and does not raise: hypothesis would tell the story again to make it shorter, and processes do
    not die twice at the same moment. Without a folder no user does anything.
    """

    def __init__(self, story: Story, folder: Path | None) -> None:
        super().__init__()
        self._story = story
        self._users: Users | None = None
        if folder is not None:
            self._attempt(lambda: self._begin(folder))

    def tell(self, line: str) -> None:
        """Takes note of a step."""
        self._story.steps.append(line)
        if self._users is not None and self._story.failure is None:
            self._users.note(line)

    def _begin(self, folder: Path) -> None:
        self._users = users = Users(folder)
        self._story.lines = users.story
        users.start()

    def _attempt(self, act: Callable[[], object]) -> None:
        if self._story.failure is not None:
            return
        try:
            act()
        except BaseException as failure:  # a defect of the product, or of this machine
            self._story.failure = failure
            if not isinstance(failure, Exception):  # the test is stopped, perhaps before there is a machine to tear down
                if self._users is not None:
                    self._users.close()
                raise

    def _for_all(self, act: Callable[[Users], object]) -> None:
        """Runs an action that concerns no single table."""
        users = self._users
        if users is not None:
            self._attempt(lambda: act(users))
            self._attempt(users.look)

    def _step(self, name: str, act: Callable[[Users, Table], object]) -> None:
        """Nothing, if there is no such table now."""
        self._for_all(lambda users: act(users, users.tables[name]) if name in users.tables else None)

    def teardown(self) -> None:
        users = self._users
        if users is None:
            return
        self._attempt(Healing(users).heal)
        self._attempt(lambda: prove(users))
        users.close()

    @initialize(shapes=st.lists(st.tuples(KINDS, st.booleans(), st.booleans()), min_size=len(NAMES), max_size=len(NAMES)), number=NUMBERS)
    def create_all(self, shapes: list[tuple[int, bool, bool]], number: int) -> None:
        self.tell(f"create_all shapes={shapes}, number={number}")
        for name, (kind, keys, partitioned) in zip(NAMES, shapes, strict=True):
            self._create(name, kind, keys, partitioned, number)

    @step(name=TABLES, kind=KINDS, keys=st.booleans(), partitioned=st.booleans(), number=NUMBERS)
    def create(self, name: str, kind: int, keys: bool, partitioned: bool, number: int) -> None:
        self._create(name, kind, keys, partitioned, number)

    def _create(self, name: str, kind: int, keys: bool, partitioned: bool, number: int) -> None:
        drawn = (name, kind, keys, partitioned, 1 + number % 2, random.Random(number))
        self._for_all(lambda users: users.create(*drawn) if name not in users.tables else None)

    @step(name=TABLES, number=NUMBERS)
    def write(self, name: str, number: int) -> None:
        self._step(name, lambda users, table: users.write(table, random.Random(number)))

    @step(name=TABLES, number=NUMBERS)
    def delete(self, name: str, number: int) -> None:
        self._step(name, lambda users, table: users.delete(table, random.Random(number)))

    @step(name=TABLES, number=NUMBERS, by_client=st.booleans())
    def write_and_tier(self, name: str, number: int, by_client: bool) -> None:
        self._step(name, lambda users, table: users.write(table, random.Random(number)))
        self._step(name, lambda users, table: users.tier(table, by_client))

    @step(name=TABLES, number=NUMBERS)
    def write_and_wait(self, name: str, number: int) -> None:
        self._step(name, lambda users, table: users.write(table, random.Random(number)))
        self._step(name, lambda users, table: users.steer(table, "wait"))

    @step(name=TABLES, number=NUMBERS, after=SECONDS)
    def write_and_die(self, name: str, number: int, after: float) -> None:
        self._step(name, lambda users, table: users.ingest_killed(table, random.Random(number), after))

    @step(name=TABLES, action=st.sampled_from(STEERING))
    def steer(self, name: str, action: str) -> None:
        self._step(name, lambda users, table: users.steer(table, action))

    @step(name=TABLES, action=st.sampled_from(("retier", "accept", "adopt", "deduplicate")), dry_run=st.booleans())
    def reconcile(self, name: str, action: str, dry_run: bool) -> None:
        self._step(name, lambda users, table: users.reconcile(table, action, dry_run))

    @step(name=TABLES, action=st.sampled_from(ACTIONS), number=NUMBERS, in_quiet=st.booleans())
    def change_lake(self, name: str, action: str, number: int, in_quiet: bool) -> None:
        self._step(name, lambda users, table: users.change_lake(table, action, number, in_quiet))

    @step(name=TABLES, action=st.sampled_from(ACTIONS), number=NUMBERS, in_quiet=st.booleans())
    def change_lake_under_writes(self, name: str, action: str, number: int, in_quiet: bool) -> None:
        """Changes a table that has snapshots, with a round requested just before, and rows written afterwards."""
        self._step(name, lambda users, table: users.write(table, random.Random(number)))
        self._step(name, lambda users, table: users.tier(table, by_client=True))
        self._step(name, lambda users, table: users.write(table, random.Random(f"{number} again")))
        self._step(name, lambda users, table: users.steer(table, "tier now"))
        self._step(name, lambda users, table: users.change_lake(table, action, number, in_quiet))
        self._step(name, lambda users, table: users.write(table, random.Random(f"{number} at last")))

    @step(name=TABLES, by_ingest=st.booleans(), number=NUMBERS)
    def add_column(self, name: str, by_ingest: bool, number: int) -> None:
        self._step(name, lambda users, table: users.add_column(table, by_ingest, random.Random(number)))

    @step(name=TABLES, region=st.sampled_from(REGIONS))
    def drop_partition(self, name: str, region: str) -> None:
        self._step(name, lambda users, table: users.drop_partition(table, region))

    @step(name=TABLES, kind=KINDS, keys=st.booleans(), partitioned=st.booleans(), number=NUMBERS, again=st.booleans())
    def drop(self, name: str, kind: int, keys: bool, partitioned: bool, number: int, again: bool) -> None:
        self._step(name, lambda users, table: users.drop(table))
        if again:
            self._create(name, kind, keys, partitioned, number)

    @step(name=TABLES, look=st.sampled_from(LOOKS), number=NUMBERS)
    def look(self, name: str, look: str, number: int) -> None:
        """Rules that are drawn share the same chance, and most of these change nothing."""
        match look:
            case "sweep":
                self._step(name, lambda users, table: users.sweep(None if number % 2 else table, dry_run=number % 4 < 2))
            case "validate":
                self._step(name, lambda users, table: users.validate(table))
            case "explain":
                self._step(name, lambda users, table: users.explain(table))
            case "read":
                self._for_all(lambda users: users.read(number))

    @step(name=st.sampled_from(PARTS), after=SECONDS)
    def kill(self, name: str, after: float) -> None:
        self._for_all(lambda users: users.kill(name, after))

    @step(name=st.sampled_from(PARTS), number=NUMBERS)
    def arm(self, name: str, number: int) -> None:
        self._for_all(lambda users: users.arm(name, number))

    @step(name=st.sampled_from(TIERERS), seconds=DOZE_SECONDS)
    def doze(self, name: str, seconds: float) -> None:
        self._for_all(lambda users: users.doze(name, seconds))


def run_story(number: int, steps: int, folder: Path | None) -> Story:
    """Tells the story of a seed in an empty folder. Without one only the steps are drawn."""
    story, machines = Story(number), itertools.count()

    @seed(number)
    class Seeded(RandomUsers):
        def __init__(self) -> None:
            # The first example that hypothesis tries is the simplest there is, whatever the seed.
            story.steps.clear()
            super().__init__(story, folder if next(machines) == 1 else None)

    quiet = settings(
        max_examples=2,
        stateful_step_count=steps,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    # Else one number in twenty is taken from the sources of all modules that this process has imported by now.
    with mock.patch.object(HypothesisProvider, "_maybe_draw_constant", return_value=None):
        run_state_machine_as_test(Seeded, settings=quiet)
    return story
