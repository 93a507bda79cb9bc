"""The daemon from which Spark forks its Python workers, with everything a task needs imported already.

Imports take two seconds of a core; a forked worker has them at once. Nothing here may start a thread or open a channel:
neither survives the fork. Spark runs it through `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tiering.cluster.embedded.reader
import tiering.lake.iceberg.lake
import tiering.round.executor  # noqa: F401

if __name__ == "__main__":
    # A worker collects garbage after every task before it takes the next: what was imported is none.
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
