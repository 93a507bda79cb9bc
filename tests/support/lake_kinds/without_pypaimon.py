"""A process in which the package pypaimon does not seem to be installed."""

from __future__ import annotations

import sys

import pytest

OURS = "tiering.lake.paimon"
STAYS = ("opening", "paimon")
"""Modules that do without it."""


def without_pypaimon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that import it are imported anew. A package that stays has its modules as attributes, which an import replaces: they come
    back with `monkeypatch`, too, or other tests would find a package whose import never finished.
    """
    for name in [name for name in sys.modules if name.startswith(OURS) and not name.endswith(STAYS)]:
        parent, _, child = name.rpartition(".")
        if hasattr(sys.modules.get(parent), child):
            monkeypatch.setattr(sys.modules[parent], child, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pypaimon"] or ["pypaimon"]:
        monkeypatch.setitem(sys.modules, name, None)
