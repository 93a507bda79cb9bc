"""Modules of bench/ for tests: bench/ is no package, and none of its names is on the path."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from support.repository import ROOT


def load_module(path: str) -> ModuleType:
    """The module at a path below bench/ that imports nothing else from there."""
    spec = importlib.util.spec_from_file_location("bench_" + path.replace("/", "_").removesuffix(".py"), ROOT / "bench" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


figures = load_module("running/figures.py")
