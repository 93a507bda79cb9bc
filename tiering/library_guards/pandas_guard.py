"""Keeps pandas out of processes that do not use it."""

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
    """Makes pandas count as not installed in this process from now on.

    pyiceberg reads files with pyarrow's datasets, which import pandas only for its types. That takes 0.2 s of a core, as much as all other
    work of a small validation.
    """
    sys.meta_path.insert(0, _PandasIsNotHere())
