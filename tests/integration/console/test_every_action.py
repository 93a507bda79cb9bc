"""Every procedure by clicks: its form, the check that changes nothing, the confirmation, the result, and the line in the audit log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from zipfile import ZipFile

import pytest
from playwright.sync_api import Browser, Page

from support.console.browser import console, screenshot
from support.console.scene import CUSTOMERS, ORDERS, TIERER, varied_tables
from support.running.cluster_of_processes import Deployment
from support.services.procedure_arguments import ARGUMENTS
from sys_tables.catalog_client import SystemCatalog
from sys_tables.declare.procedure import Procedure
from sys_tables.registry import default_registry

PROCEDURES = default_registry().procedures
ON_KEYS = ("acquire_kv_snapshot_lease", "release_kv_snapshot_lease", "take_kv_snapshot")
"""Procedures that need a primary-key table."""
LEASES = ("drop_kv_snapshot_lease", "release_kv_snapshot_lease", "renew_kv_snapshot_lease")
"""Procedures that need a lease. Each gets its own."""
VALUES: Mapping[str, Mapping[str, str]] = {
    "adopt_table": {"lake_table": "sales.nothing", "offsets": '{"0": 0}'},
    "cancel_tiering": {"round_id": "no-such-round"},
    "fence_tierer": {"tierer_id": TIERER},
    **{name: {"lease_id": name} for name in LEASES},
}
"""Texts of fields beside those of ARGUMENTS."""
REFUSED = {"adopt_table": "CannotReconcile", "backfill_table": "InvalidArgument", "skip_record": "InvalidArgument"}
"""Procedures that nothing needs here, with the class of the error that says so."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with varied_tables(tmp_path_factory.mktemp("service")) as running:
        with SystemCatalog(running.uri) as catalog:
            catalog.call("take_kv_snapshot", table=str(CUSTOMERS))
            for name in LEASES:
                catalog.call("acquire_kv_snapshot_lease", lease_id=name, table=str(CUSTOMERS))
        yield running


@pytest.fixture(scope="module")
def pages(deployment: Deployment, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Page]]:
    """Pages of several consoles. One console allows a burst of 30 checks and changes."""
    folder = tmp_path_factory.mktemp("consoles")
    with ExitStack() as stack:
        consoles = [stack.enter_context(console(deployment.uri, folder / f"{number}.log")) for number in range(1 + len(PROCEDURES) // 14)]
        yield [running.signed_in(browser) for running in consoles]


@pytest.fixture
def page(pages: list[Page], procedure: Procedure) -> Page:
    return pages[PROCEDURES.index(procedure) % len(pages)]


def texts_of(procedure: Procedure) -> dict[str, str]:
    """Returns the texts for the fields of its form."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in ARGUMENTS.get(procedure.name, {}).items()
    }
    subject = CUSTOMERS if procedure.name in ON_KEYS else ORDERS
    texts |= {"table": str(subject), "database": subject.database_name, **VALUES.get(procedure.name, {})}
    return {parameter.name: texts[parameter.name] for parameter in procedure.parameters if parameter.name in texts}


def fill(page: Page, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        field = page.locator(f"#argument_{name}")
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(text)
        else:
            field.fill(text)


def outcome(page: Page) -> str:
    """Returns the heading of the outcome, and the class of an error."""
    heading = page.locator("section[role=status] h2, section[role=alert] h2").inner_text()
    problem = page.locator("section[role=alert] .problem")
    return f"{heading}: {problem.inner_text().partition(':')[0]}" if problem.count() else heading


def assert_the_archive_can_be_saved(page: Page) -> None:
    with page.expect_download() as download:
        page.get_by_role("link", name="Save the archive").click()
    with ZipFile(download.value.path()) as archive:
        assert (download.value.suggested_filename, "verify.py" in archive.namelist()) == (f"proof-{ORDERS}.zip", True)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)
def test_a_procedure_is_performed_by_clicks(page: Page, procedure: Procedure) -> None:
    changes = any(parameter.name == "dry_run" for parameter in procedure.parameters)
    page.goto("/actions")
    page.get_by_role("link", name=procedure.name, exact=True).click()
    fill(page, texts_of(procedure))
    page.get_by_role("button", name="Check" if changes else "Run").click()
    if procedure.name in REFUSED:
        assert outcome(page) == f"It was refused: {REFUSED[procedure.name]}"
        return
    assert outcome(page) == ("This is what would change" if changes else "Result")
    if procedure.name == "prove_table":
        assert_the_archive_can_be_saved(page)
    if not changes:
        return
    page.get_by_role("button", name="Make this change").click()
    assert outcome(page) == "Result"
    screenshot(page, f"result-{procedure.name}")
    statement = page.locator("details.sql code").first.inner_text()
    page.goto(f"/system/audit?column=action&text=sys.{procedure.name}")
    line = page.locator("tbody tr").first.inner_text()
    key = re.findall(r"idempotency_key => '(console-\w+)'", statement)
    assert ("ANSWERED" in line, [name in line for name in key]) == (True, [True])
