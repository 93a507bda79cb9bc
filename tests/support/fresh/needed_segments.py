"""Segments of an embedded cluster's log that are out of reach for a while, so that a read that opens one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.running.cluster_of_processes import Deployment
from tiering.model.tables import TablePath


@contextmanager
def only_segments(service: Deployment, path: TablePath, is_needed: Callable[[Mapping[str, Any]], bool]) -> Iterator[tuple[int, int]]:
    """Moves the segments away whose first row is not needed. Yields the number of those that stay, and of those that are away."""
    with service.cluster() as cluster:
        table_id = cluster.table(path).table_id
    folder = service.data.root / "cluster" / "log" / str(table_id)
    segments = sorted(folder.glob("*.arrow"))
    assert segments, folder
    away = [segment for segment in segments if not is_needed(_first_row(segment))]
    try:
        for segment in away:
            segment.rename(segment.with_suffix(".away"))
        yield len(segments) - len(away), len(away)
    finally:
        for segment in away:
            segment.with_suffix(".away").rename(segment)


def _first_row(segment: Path) -> Mapping[str, Any]:
    with pa.ipc.open_file(segment) as reader:
        row: Mapping[str, Any] = reader.get_batch(0).slice(0, 1).to_pylist()[0]
    return row
