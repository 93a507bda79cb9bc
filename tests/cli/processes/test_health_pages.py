"""The pages beside the metrics of a coordinator that waits, serves and stops, and the addresses where they may be served."""

from __future__ import annotations

import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from tiering.cli.processes.monitoring import check_host
from tiering.errors import SetupError

URL = re.compile(r"lakeward metrics: (http://\S+)/metrics")


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    yield deployment
    deployment.close()


def page(process: Process, path: str) -> tuple[int, str]:
    match = wait_for("the line that names the metrics", lambda: URL.search(process.output()))
    try:
        with urllib.request.urlopen(f"{match[1]}/{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_coordinator_is_ready_once_it_has_the_data_folder(deployment: Deployment, tmp_path: Path) -> None:
    first = deployment.start_coordinator("--metrics-port", "0")
    assert page(first, "readyz") == (200, "ok\n")
    second = Process("coordinator", "--data", str(deployment.data.root), "--port", "0", "--metrics-port", "0", log=tmp_path / "second.log")
    deployment.processes.append(second)
    status, text = page(second, "readyz")
    assert (status, "data folder" in text) == (503, True)
    assert page(second, "healthz")[0] == 200
    assert "process_resident_memory_bytes" in page(second, "metrics")[1]
    assert "lakeward_tables" not in page(second, "metrics")[1]
    first.send(signal.SIGTERM)
    second.wait_ready()
    assert page(second, "readyz")[0] == 200
    assert "lakeward_tables_behind 0.0" in page(second, "metrics")[1]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.com"])
def test_metrics_are_served_off_loopback_on_demand_alone(host: str) -> None:
    with pytest.raises(SetupError, match=re.escape(host)) as raised:
        check_host(host, insecure=False)
    assert "--insecure" in raised.value.hint
    check_host(host, insecure=True)
