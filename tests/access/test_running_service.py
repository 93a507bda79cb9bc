"""A coordinator as a process, with tokens and policies: its metrics over HTTP, and a policy file that is broken while it runs."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from sys_tables.catalog_client import SystemCatalog
from tiering.access.client_access import ClientAccess
from tiering.access.tokens import add_token, new_token
from tiering.cli.doctor.findings import Verdict
from tiering.cli.doctor.service import Service, policies
from tiering.cli.processes.service_access import owner_token_path
from tiering.client import LakewardClient
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

ORDERS, SALARIES = TablePath("sales", "orders"), TablePath("hr", "salaries")
POLICIES = 'permit (principal == User::"ana", action in Action::"read", resource in Database::"sales");'
URL = re.compile(r"lakeward metrics: (http://\S+/metrics)")


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    file = tmp_path / "policies.cedar"
    file.write_text(POLICIES)
    return file


@pytest.fixture
def token(tmp_path: Path) -> str:
    """Token of the user Ana."""
    token, stored = new_token("ana", datetime.now(UTC))
    add_token(tmp_path / "tokens.json", stored)
    (tmp_path / "ana.token").write_text(token)
    return token


@pytest.fixture
def service(tmp_path: Path, policy_file: Path, token: str) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    try:
        tokens = ("--auth", "token", "--tokens", str(tmp_path / "tokens.json"))
        deployment.start_coordinator(*tokens, "--policy", str(policy_file), "--metrics-port", "0")
        with deployment.cluster() as cluster:
            for path in (ORDERS, SALARIES):
                cluster.create_database(path.database_name, ignore_if_exists=True)
                properties = {"table.datalake.enabled": "true"}
                cluster.create_table(path, TableSpec(pa.schema([pa.field("id", pa.int64())]), 1, properties=properties))
        yield deployment
    finally:
        deployment.close()


def visible_tables(service: Deployment) -> list[TablePath]:
    """Returns the tables that Ana may see."""
    with LakewardClient(service.uri, ClientAccess(token_file=service.folder / "ana.token")) as client:
        return [TablePath(status.database_name, status.table_name) for status in client.list_tiering_statuses()]


def scrape(service: Deployment, token: str | None = None) -> tuple[int, str]:
    url = wait_for("the line that names the metrics", lambda: URL.search(service.coordinator.output()))[1]
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def named(text: str) -> set[str]:
    return set(re.findall(r'table="(\w+)"', text))


def test_metrics_name_the_tables_that_their_token_may_know_of(service: Deployment, token: str) -> None:
    owner = owner_token_path(service.data.root).read_text().strip()
    wait_for("both tables", lambda: named(scrape(service, owner)[1]) == {"orders", "salaries"})
    status, text = scrape(service)
    assert (status, named(text)) == (200, set())
    assert "orders" not in text
    assert 'lakeward_tables{status="Scheduled"} 2.0' in text
    assert "lakeward_tables_left_out 2.0" in text
    status, text = scrape(service, token)
    assert (status, named(text)) == (200, {"orders"})
    assert "salaries" not in text
    status, text = scrape(service, "lw_1_wrong")
    assert (status, named(text)) == (401, set())
    assert "lakeward_tables" not in text


def test_a_policy_file_that_is_broken_leaves_the_policies_before_it_in_force(service: Deployment, policy_file: Path) -> None:
    wait_for("the table", lambda: visible_tables(service) == [ORDERS])

    policy_file.write_text('permit (principal, action, resource);\npermit (principal == User::"eve"')
    wait_for("the log", lambda: (visible_tables(service), "the policy file has an error" in service.coordinator.output())[1])
    assert visible_tables(service) == [ORDERS]
    with SystemCatalog(service.uri) as catalog:
        error, policy = catalog.read("grants")
    assert (error["effect"], policy["resource"]) == ("error", 'Database::"sales"')
    assert "cannot be read" in error["policy_text"]
    (finding,) = policies(Service.ask(service.uri, asked_for=True), None)
    assert finding.verdict is Verdict.FAIL
    assert "the previous policies are in force" in finding.result

    policy_file.write_text('permit (principal == User::"ana", action in Action::"read", resource in Database::"hr");')
    wait_for("the mended file", lambda: visible_tables(service) == [SALARIES])
    (finding,) = policies(Service.ask(service.uri, asked_for=True), None)
    assert finding.verdict is Verdict.OK
