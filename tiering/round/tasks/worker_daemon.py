"""The daemon from which Spark forks its Python workers, with everything that a task needs already imported.

Imports take two seconds of a core; a forked worker has them at once. This module must not start a thread or open a channel: neither
survives the fork. Spark runs it through `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import re
import sys
from importlib.util import find_spec
from pathlib import Path

SPARK_ARCHIVE = re.compile(r"pyspark\.zip|py4j-.*\.zip|spark-core_.*\.jar")
"""Entries that Spark puts on the path of Python workers (PythonUtils.sparkPythonPath)."""


def main() -> None:
    """Imports the modules, then forks workers as Spark requests them."""
    prefer_installed_pyspark()
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import tiering.lake.iceberg.lake
    import tiering.round.tasks.executor  # noqa: F401
    from tiering.cluster.registry import preload_readers

    preload_readers()

    # A worker collects garbage after every task before it takes the next one. Freezing exempts the imported modules from that.
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]


def prefer_installed_pyspark() -> None:
    """Removes the archives that Spark puts on the path if pyspark is installed, as it is in Lakeward's environment.

    Every task begins with `importlib.invalidate_caches()`, after which the directory of each archive is read again. Spark's own jar is
    among the archives; its 5,000 entries alone cost each task 0.06 s of a core.
    """
    archives = [path for path in sys.path if SPARK_ARCHIVE.fullmatch(Path(path).name)]
    sys.path[:] = [path for path in sys.path if path not in archives]
    for path in archives:
        sys.path_importer_cache.pop(path, None)
    if find_spec("pyspark") is None:
        sys.path.extend(archives)


if __name__ == "__main__":
    main()
