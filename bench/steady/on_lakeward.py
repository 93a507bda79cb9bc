"""Lakeward on a real Fluss cluster: how old the lake is while rows come at a constant rate."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import fluss_round
from rounds.sources import FLIGHTS
from steady.lag import Landing, Step, lags, quantile
from steady.writer import FlussTarget, Order, Progress, writing

from tiering.client import LakewardClient
from tiering.cluster.writable import TableSpec
from tiering.lake.base import Lake
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.names import table_path
from tiering.model.tables import TablePath

BUCKETS, SMALL_BUCKETS = 4, 1
LOOK_S, STATUS_S = 0.2, 2.0
"""Between two looks at the lake, and at the status of the other tables."""
CATCH_UP_S = 120.0
"""How long the last rows may take to the lake."""
WARM_UP_S = 30.0
"""From the start, at most a quarter of a step: its first rounds make the lake table."""


class OnLakeward:
    """One table after the other, beside the same small ones."""

    def __init__(self, bench: fluss_round.Bench, tables: int, freshness_s: float) -> None:
        self._bench, self._freshness_s = bench, freshness_s
        self._lake: Lake = open_lake("iceberg", local_lake_properties(bench.data))
        self._steps = 0
        bench.writer.create_database("bench")
        self._small = tuple(f"small{number:03d}" for number in range(tables))
        for name in self._small:
            self._make(name, SMALL_BUCKETS)

    def step(self, rate: float, seconds: float) -> Step:
        """A new table that gets so many rows a second."""
        self._steps += 1
        order = Order(f"steady{self._steps}", self._small, rate, seconds)
        path = table_path("bench", order.table)
        self._make(order.table, BUCKETS)
        with LakewardClient(self._bench.uri) as client, writing(FlussTarget(self._bench.cluster.bootstrap_servers), order) as progress:
            landings, small = self._watch(client, path, order, progress)
        view = self._lake.view(path)
        self._bench.writer.drop_table(path)
        return step_of(order, landings, small, progress.behind_s, None if view is None else view.files)

    def _make(self, name: str, buckets: int) -> None:
        properties: Mapping[str, str] = {
            "table.datalake.enabled": "true",
            "table.datalake.freshness": f"{self._freshness_s:g}s",
            "table.datalake.auto-compaction": "true",
            "table.datalake.auto-expire-snapshot": "true",
        }
        self._bench.writer.create_table(table_path("bench", name), TableSpec(FLIGHTS.schema, buckets, properties=properties))

    def _watch(self, client: LakewardClient, path: TablePath, order: Order, progress: Progress) -> tuple[list[Landing], list[float]]:
        """Landing times of the table's rows, and the lags of the small tables in the service."""
        start, landings, small, next_status = progress.wait_for_start(), list[Landing](), list[float](), 0.0
        while True:
            view = self._lake.view(path)
            at = time.time() - start
            landings.append(Landing(at, 0 if view is None else view.records or 0))
            if landings[-1].rows >= order.rows or at > order.seconds + CATCH_UP_S:
                return landings, small
            if at >= next_status and warm_up_s(order) <= at < order.seconds:
                next_status = at + STATUS_S
                statuses = client.list_tiering_statuses()
                small += [status.lag_ms / 1_000 for status in statuses if status.table_name in self._small and status.lag_ms is not None]
            time.sleep(LOOK_S)


def warm_up_s(order: Order) -> float:
    """Seconds at the start that do not count."""
    return min(WARM_UP_S, order.seconds / 4)


def step_of(order: Order, landings: Sequence[Landing], small: Sequence[float], behind_s: float, files: int | None) -> Step:
    """The figures of a step."""
    ages = list(lags(landings, order.rate, warm_up_s(order), order.seconds))
    return Step(
        rate=order.rate,
        seconds=order.seconds,
        p50_s=quantile(ages, 0.5),
        p99_s=quantile(ages, 0.99),
        max_s=max(ages),
        small_p99_s=quantile(small, 0.99) if small else None,
        behind_s=behind_s,
        files=files,
        is_whole=landings[-1].rows == order.rows,
    )


@contextmanager
def lakeward(folder: Path, tables: int, freshness_s: float, slots: int) -> Iterator[OnLakeward]:
    """A Fluss cluster, `lakeward up` for it, and the small tables."""
    folder.mkdir()
    with fluss_round.running(folder, None, slots) as bench:
        yield OnLakeward(bench, tables, freshness_s)
