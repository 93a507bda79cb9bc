"""A tierer process without Spark's JVM: what `lakeward tierer` is made of, and every round inline. For tests that start many of them.

python -m support.faulty.inline_tierer HOST:PORT TIERER_ID
"""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

from tiering.cli.processes import tierer
from tiering.cli.terminal.logs import configure_logging
from tiering.cli.terminal.options import MetricsAddress, TiererOptions
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.progress import ProgressPulse
from tiering.round.tasks.inline_runner import InlineTaskRunner, usable_threads

LEASE_TTL_MS = 6_000
"""The lease of one that was killed ends within a test."""
NO_SPARK = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="inline"), stop=lambda: None)


def main(uri: str, tierer_id: str) -> None:
    """Runs until SIGTERM."""
    configure_logging()
    with (
        patch.object(tierer, "require_java"),
        patch.object(tierer, "open_spark", lambda *_: NO_SPARK),
        patch.object(tierer, "warm_up"),
        patch.object(tierer, "LeaseKeeper", partial(LeaseKeeper, ttl_ms=LEASE_TTL_MS)),
        patch.object(tierer, "SparkTaskRunner", lambda _: InlineTaskRunner(usable_threads(), ProgressPulse())),
    ):
        tierer.run_tierer(uri, TiererOptions(), MetricsAddress(), tierer_id=tierer_id)


if __name__ == "__main__":
    main(*sys.argv[1:])
