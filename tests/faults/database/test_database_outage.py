"""PostgreSQL is stopped for some seconds under load. For a whole minute: `python -m faults.database`, a part of `make soak`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from faults.database.outage import be_without_database

from support.running.postgresql import postgresql_server

AWAY_SECONDS = 8
"""Longer than the service timeout: rounds under way are given up meanwhile, by those who would be."""


@pytest.mark.soak
def test_calls_fail_clearly_while_the_database_is_gone_and_everything_goes_on_after_it(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="lakeward-postgresql-") as folder, postgresql_server(Path(folder) / "server") as database:
        service = be_without_database(tmp_path, database, AWAY_SECONDS)
    assert {refusal.partition(":")[0] for refusal in service.refusals} == {"StoreError"}
    assert service.refusals.total() >= len(service.refusals) > 0
