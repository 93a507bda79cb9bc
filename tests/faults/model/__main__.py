"""Searches the models and prints what comes of it: `PYTHONPATH=.:tests python -m faults.model [--minutes N]`.

Of each rule that is taken out the steps to a violation; of the whole how many states passed, and how deep they lie. With `--minutes`
the larger sizes are searched as well, as far as half of that time goes, and stories in them are drawn at random in the other half: there
`states` counts steps, and `depth` is the longest story's. `--stories` prints each violation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from faults.model.exclusive import sizes as exclusive
from faults.model.exclusive.model import ExclusiveModel
from faults.model.exclusive.rules import Rule
from faults.model.search import Result
from faults.model.shared import sizes as shared
from faults.model.shared.model import SharedModel
from faults.model.shared.rules import SharedRule

DEPTH = 80
Search = Callable[[], Result]


def taken_out() -> Iterator[tuple[str, str, Search]]:
    """The searches that lack a rule: mode, rule and search."""
    for rule in Rule:
        yield "exclusive", rule.name.lower(), lambda rule=rule: exclusive.without(rule)  # type: ignore[misc]
    for shared_rule in SharedRule:
        yield (
            "shared",
            shared_rule.name.lower(),
            lambda rule=shared_rule: SharedModel(shared.without(rule)).search(DEPTH),  # type: ignore[misc]
        )


def whole() -> Iterator[tuple[str, str, Search]]:
    """The searches with all rules."""
    for name, size in exclusive.WHOLE_SIZES.items():
        yield "exclusive", f"none: {name}", lambda size=size: ExclusiveModel(size).search(DEPTH)  # type: ignore[misc]
    for name, shared_size in shared.WHOLE_SIZES.items():
        yield "shared", f"none: {name}", lambda size=shared_size: SharedModel(size).search(DEPTH)  # type: ignore[misc]


def larger(minutes: float) -> Iterator[tuple[str, str, Search]]:
    """The larger searches with all rules. They share the minutes: what one does not need is left to those that follow."""
    sizes: list[tuple[str, str, Callable[[float], Result]]] = []
    for name, size in exclusive.LARGE_SIZES.items():
        model = ExclusiveModel(size)
        sizes += [("exclusive", name, partial(model.search, DEPTH, None)), ("exclusive", f"{name}, drawn", partial(model.walk, DEPTH))]
    for name, shared_size in shared.LARGE_SIZES.items():
        beside = SharedModel(shared_size)
        sizes += [("shared", name, partial(beside.search, DEPTH, None)), ("shared", f"{name}, drawn", partial(beside.walk, DEPTH))]
    ends = time.monotonic() + 60 * minutes
    for left, (mode, name, search) in zip(range(len(sizes), 0, -1), sizes, strict=True):
        yield mode, f"none: {name}", partial(search, max(0.0, ends - time.monotonic()) / left)


def row(mode: str, rule: str, search: Search) -> Result:
    """Runs a search and prints its row of the table."""
    began = time.monotonic()
    result = search()
    steps = "" if result.violation is None else f"{len(result.violation.steps)}"
    end = "violated" if result.violation else "all states" if result.complete else f"to depth {result.depth}"
    print(f"{mode:<10} {rule:<52} {result.states:>9} {result.depth:>6} {steps:>6} {time.monotonic() - began:>8.1f}  {end}", flush=True)
    return result


def main() -> int:
    """Returns the exit status: 1 if a rule is not needed, or the whole is violated."""
    parser = argparse.ArgumentParser(prog="python -m faults.model")
    parser.add_argument("--minutes", type=float, default=0, help="search the larger sizes for so long, too")
    parser.add_argument("--stories", action="store_true", help="print the violations")
    options = parser.parse_args()
    print(f"{'mode':<10} {'rule taken out':<52} {'states':>9} {'depth':>6} {'steps':>6} {'seconds':>8}")
    failed = 0
    for mode, rule, search in taken_out():
        result = row(mode, rule, search)
        failed += result.violation is None
        if options.stories:
            print(result.violation)
    for mode, rule, search in chain(whole(), larger(options.minutes) if options.minutes else ()):
        result = row(mode, rule, search)
        failed += result.violation is not None
        if result.violation is not None:
            print(result.violation)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
