"""A coordinator with tables, for commands that ask; and `lakeward` called in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Ended, Lakeward
from support.running.processes import wait_for
from tiering.cli.main import main
from tiering.client import LakewardClient
from tiering.model.names import table_path

ORDERS = table_path("sales", "orders")
CLICKS = table_path("web", "clicks")


@pytest.fixture(scope="session")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator without a tierer, with two tables and 30 untiered rows."""
    deployment = Deployment(tmp_path_factory.mktemp("stocked"))
    try:
        deployment.start_coordinator()
        deployment.create(ORDERS, freshness="5 min")
        deployment.create(CLICKS, freshness="1 h", buckets=1)
        deployment.append(ORDERS, 0, 30)
        with LakewardClient(deployment.uri) as client:
            wait_for("the coordinator knows both tables", lambda: len(client.list_tiering_statuses()) == 2)
        yield deployment
    finally:
        deployment.close()


@pytest.fixture
def lakeward(stocked: Deployment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lakeward:
    """Runs the whole command line against `stocked`, as a person does but without a terminal."""
    monkeypatch.setenv("LAKEWARD_URI", stocked.uri)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["lakeward", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return run
