"""How a bench takes its sizes and gives its figures: `--smoke` for a tiny run, and a last line of JSON that is never nonsense.

A figure is nonsense if it is not finite, or negative where it is neither a difference nor an overhead. A bench with such a figure ends
with an error that names it, and prints neither its table nor its JSON line.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

SIGNED_WORDS = ("overhead", "difference")
"""With one of these in its name a figure compares two others, and may be negative."""


def parse(parser: argparse.ArgumentParser, **smoke_sizes: Any) -> argparse.Namespace:
    """The command line. `--smoke` replaces the defaults of the sizes by `smoke_sizes`; what the command line names stays."""
    parser.add_argument("--smoke", action="store_true", help="a tiny run, which shows that the bench works; its figures tell nothing")
    if parser.parse_known_args()[0].smoke:
        parser.set_defaults(**smoke_sizes)
    return parser.parse_args()


def finish(figures: Mapping[str, Any], show: Callable[[], None] = lambda: None) -> None:
    """Checks the figures, has them shown, and prints them as one line of JSON. Ends the bench with an error if one is nonsense."""
    if nonsense := list(problems(figures)):
        raise SystemExit(
            f"nothing is printed, because the figures are nonsense: {'; '.join(nonsense)}. "
            "Run the bench again on a quiet machine; if that does not help, its measurement is wrong."
        )
    show()
    print(json.dumps(figures, allow_nan=False))


def problems(value: object, name: str = "") -> Iterator[str]:
    """Returns each impossible figure by name, however deeply the figures are nested."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from problems(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from problems(part, f"{name}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            yield f"{name} is {value}"
        elif value < 0 and not any(word in name.lower() for word in SIGNED_WORDS):
            yield f"{name} is {value}, and cannot be negative"


def verdict(value: float | None, limit: float) -> str:
    """`met` or `missed`: whether a time or an age is at most `limit`. `not measured` without a value, and with one that no clock gives."""
    if value is None or not math.isfinite(value) or value <= 0:
        return "not measured"
    return "met" if value <= limit else "missed"


def shown(value: float | None, digits: int = 1) -> str:
    """A figure with thousands separated; `not measured` for None."""
    return "not measured" if value is None else f"{value:,.{digits}f}"


def rounded(value: float | None, digits: int = 2) -> float | None:
    """A figure as it stands in JSON."""
    return None if value is None else round(value, digits)
