"""The consoles of two coordinators on one PostgreSQL beside a real Fluss: who leads, and a take-over while pages are open."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from support.clusters.fluss_tables import FlussTables
from support.console.browser import PATIENCE_MS, chromium, use_link
from support.running.fluss_deployment import StandbyDeployment, make_orders
from support.running.postgresql import postgresql_server
from support.running.processes import Process
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.client import LakewardClient
from tiering.model.tables import TablePath

ADDRESS = re.compile(r"^lakeward console: (http://127\.0\.0\.1:\d+/ui)$", re.MULTILINE)


@pytest.fixture
def deployment(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[StandbyDeployment]:
    with tempfile.TemporaryDirectory(prefix="lakeward-postgresql-") as folder, postgresql_server(Path(folder) / "server") as server:
        deployment = StandbyDeployment(tmp_path, servers=fluss.bootstrap_servers, state=server.new_database())
        try:
            yield deployment
        finally:
            deployment.close()


def address_of(member: Process) -> str:
    """Returns the address of the console that the coordinator printed last."""
    return str(ADDRESS.findall(member.output())[-1])


def link(deployment: StandbyDeployment, uri: str) -> str:
    """Returns a sign-in link, for which the coordinator at `uri` is asked."""
    deployment.uri = uri
    return deployment.lakeward("console", "--print").split()[0]


def opened(browser: Browser, address: str) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    return page


def test_a_standby_names_its_leader_and_users_sign_in_there_after_a_take_over(deployment: StandbyDeployment, tables: FlussTables) -> None:
    table = make_orders(tables, "standby_console")
    with (
        chromium() as browser
    ):  # not the fixture's: a table of Fluss is made and dropped by an event loop of this thread, as Playwright has one
        take_over(deployment, table.path, browser)


def take_over(deployment: StandbyDeployment, table: TablePath, browser: Browser) -> None:
    console_port = str(deployment.held_port())
    deployment.options = ("--console-port", console_port)
    leader = deployment.start_member("first")
    first = leader.wait_ready()
    deployment.options = ("--console-port", "0")
    standby = deployment.start_member("second")
    second = standby.wait_standing_by()

    waiting = opened(browser, address_of(standby))
    expect(waiting.get_by_text(f"The coordinator at {first} leads.")).to_be_visible()
    link_of_leader = link(deployment, second)
    assert link_of_leader.startswith(f"{address_of(leader)}/sign-in/")
    page = opened(browser, address_of(leader))
    use_link(page, link_of_leader)
    page.get_by_role("link", name=str(table), exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Live values.")

    leader.send(signal.SIGKILL)
    expect(page.get_by_role("status")).to_contain_text("The console does not answer")
    expect(page.get_by_role("heading", name=str(table))).to_be_visible()
    expect(waiting.get_by_role("heading", name="Sign in")).to_be_visible()  # by itself
    link_after = link(deployment, second)
    assert link_after.startswith(f"{address_of(standby)}/sign-in/")
    use_link(waiting, link_after)
    waiting.get_by_role("link", name=str(table), exact=True).click()
    expect(waiting.get_by_role("status")).to_contain_text("Live values.")
    with LakewardClient(second) as client:
        client.pause_tiering(table, reason="after the take-over")
        expect(waiting.locator("#live")).to_contain_text("after the take-over")

    deployment.options = ("--console-port", console_port)
    deployment.start_member("first", port=int(first.rpartition(":")[2])).wait_standing_by()
    expect(page.get_by_role("status")).to_contain_text(f"The coordinator at {second} leads.")
    expect(page.get_by_role("heading", name=str(table))).to_be_visible()
