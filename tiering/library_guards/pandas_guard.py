"""Keeps pandas out of processes that have no use for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _PandasIsNotHere(MetaPathFinder):
    """Answers the search for pandas as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this process works without pandas", name=name)
        return None


def keep_pandas_out() -> None:
    """From here on pandas counts as not installed in this process.

    pyarrow's datasets, which pyiceberg reads files with, import it only to know its types: 0.2 s of a core, as long as everything else
    that a small validation does.
    """
    sys.meta_path.insert(0, _PandasIsNotHere())
