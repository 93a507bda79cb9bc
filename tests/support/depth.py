"""How much the tests try: what tells that the code works in CI, and all that there is in a soak.

A soak (`make soak`, tests/faults/README.md) sets `LAKEWARD_FUZZ_EXAMPLES` to the number of examples that Hypothesis draws; then the tests
with the mark `soak` run too. To run one of them alone: `LAKEWARD_FUZZ_EXAMPLES=200 pytest -n 0 TEST`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

C = TypeVar("C")
EXAMPLES = "LAKEWARD_FUZZ_EXAMPLES"
SOAKS = EXAMPLES in os.environ
IN_CI = 40
"""Examples of a property that looks at values alone. One that works on files names fewer (`examples`)."""
_CHECKS = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)
"""A fixture that lasts for all examples is meant so, and a machine that is busy draws slowly."""


def examples(in_ci: int) -> int:
    """How many of them to try: so many, and what it was told in a soak."""
    return int(os.environ.get(EXAMPLES, in_ci))


def load_profile() -> None:
    """Every day the same examples; in a soak others every time, and what failed is told as code that draws it again."""
    settings.register_profile("ci", max_examples=IN_CI, deadline=None, derandomize=True, database=None, suppress_health_check=_CHECKS)
    settings.register_profile("soak", max_examples=examples(IN_CI), deadline=None, print_blob=True, suppress_health_check=_CHECKS)
    settings.load_profile("soak" if SOAKS else "ci")


def soaked(case: Any, of_ci: bool) -> Any:
    """A parameter of a test that CI runs only if `of_ci`."""
    return case if of_ci else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)


def taking_turns(cases: Sequence[C], turn: int, kind: Callable[[C], object]) -> list[Any]:
    """All of them as parameters of a test. CI runs of each `kind` the one whose turn it is."""
    kinds: dict[object, list[C]] = {}
    for case in cases:
        kinds.setdefault(kind(case), []).append(case)
    chosen = [those[turn % len(those)] for those in kinds.values()]
    return [soaked(case, case in chosen) for case in cases]


def turn_of(function: Callable[..., object]) -> int:
    """The place of a test among those of its file, where another file begins with another turn."""
    tests = [name for name in function.__globals__ if name.startswith("test_")]
    place = tests.index(function.__name__) if function.__name__ in tests else 0
    return place + crc32(function.__module__.encode())


def left_to_the_soak(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Returns the tests with the mark `soak`. Of tests that differ only in the parameters of `in_turn`, it returns all but the one whose
    turn it is."""
    left, groups = [], dict[tuple[object, ...], list[pytest.Function]]()
    for item in items:
        turns = item.get_closest_marker("in_turn")
        if item.get_closest_marker("soak"):
            left.append(item)
        elif turns is not None and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            rest = [(name, repr(value)) for name, value in item.callspec.params.items() if name not in turns.args]
            groups.setdefault((item.function, *rest), []).append(item)
    numbers: Counter[object] = Counter()
    for (function, *_), alike in groups.items():
        chosen = alike[(turn_of(alike[0].function) + numbers[function]) % len(alike)]
        numbers[function] += 1
        left += [item for item in alike if item is not chosen]
    return left
