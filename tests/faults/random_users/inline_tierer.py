"""`python -m faults.random_users.inline_tierer`: `lakeward tierer` as it is, but for Spark, which takes ten seconds to start.

Rounds of small tables run inline, so no Spark job is missed; a round that were too large for that fails here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import NoReturn

from tiering.cli import main
from tiering.cli.processes import tierer


class NoSpark:
    """Where the tierer expects its session."""

    sparkContext = SimpleNamespace(applicationId="")

    def stop(self) -> None:
        """There is nothing to stop."""


class NoSparkTaskRunner:
    """A `TaskRunner` that no round may come to."""

    def __init__(self, spark: NoSpark) -> None:
        self.spark = spark

    def run(self, round_id: str, tasks: Sequence[object], *_: object) -> NoReturn:
        raise AssertionError(f"round {round_id} is too large to run inline")


def run() -> None:
    """Takes the options of `lakeward tierer`; returns as it does."""
    tierer.open_spark = lambda *_: NoSpark()  # type: ignore[assignment]
    tierer.warm_up = lambda _: None
    tierer.SparkTaskRunner = NoSparkTaskRunner  # type: ignore[assignment,misc]
    main.main()


if __name__ == "__main__":
    run()
