"""Keeps a Python process of Spark fast from one task to the next.

Spark reuses the process. Before each task it calls `importlib.invalidate_caches`, and after each task `gc.collect`. The first reads the
directory of Spark's own archives again, once for each package that was imported from them (Python 3.10 and later); the second visits all
objects of all imported modules. Together they take some 250 ms, in which a small task only waits.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from zipimport import zipimporter

_ARCHIVES = re.compile(r".*[/\\](pyspark\.zip|py4j-[^/\\]*\.zip|spark-core_[^/\\]*\.jar)")
"""The archives that Spark puts on the path of its Python processes. They do not change while Spark runs."""

_frozen_modules = 0
"""Number of modules that were imported when objects were frozen last."""


@contextmanager
def between_tasks() -> Iterator[None]:
    """Runs a task in the block. Afterwards the process does not repeat work that has no effect between two tasks.

    The importers of Spark's archives are forgotten; an import creates them again from Python's cache of archive directories. The objects of
    imported modules are frozen: the garbage collector no longer visits them.
    """
    try:
        yield
    finally:
        _forget_importers()
        _freeze_modules()


def _forget_importers() -> None:
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter) and _ARCHIVES.fullmatch(importer.archive):
            sys.path_importer_cache.pop(path, None)


def _freeze_modules() -> None:
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        _frozen_modules = len(sys.modules)
        gc.collect()
        gc.freeze()
