"""A browser before the console of a real service: an embedded cluster, tokens, and policies that hide a table from one user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from support.services.guarded_service import GuardedService, guarded_service
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.app import console_app
from sys_tables.console.sign_in_pages import Site
from sys_tables.console.signing_in import SignInCodes
from tiering.access.client_access import ClientAccess
from tiering.model.tables import TablePath

POLICIES = """
permit (principal == User::"olga", action, resource);
permit (principal in Group::"staff", action, resource is Table in Database::"hr");
permit (principal == User::"vera", action == Action::"DESCRIBE", resource is Table in Database::"hr");
permit (principal == User::"theo", action == Action::"DESCRIBE", resource is Table in Database::"hr");
permit (principal == User::"theo", action == Action::"OPERATE", resource == Table::"hr.people");
forbid (principal in Group::"staff", action, resource == Table::"hr.layoffs");
"""
HIDDEN, VISIBLE = TablePath("hr", "layoffs"), TablePath("hr", "people")
PORT = 7717
Browser = Callable[[str], TestClient]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    """Olga may do everything. Ana is of the staff, for whom hr.layoffs does not exist. Nina may do nothing, and Vera may only describe.
    Theo may describe both tables, and operate hr.people.
    """
    roles = {"ana": ("staff",), "olga": (), "nina": (), "vera": (), "theo": ()}
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, roles) as running:
        for path in (HIDDEN, VISIBLE):
            running.ensure_table(path)
        yield running


@pytest.fixture
def access(service: GuardedService, tmp_path: Path) -> Callable[[str], ClientAccess]:
    return lambda user: service.access(user, tmp_path)


@pytest.fixture
def console(service: GuardedService, access: Callable[[str], ClientAccess]) -> Iterator[Callable[[str], tuple[TestClient, SignInCodes]]]:
    """Opens a console for a user: a browser that is not signed in, and the source of codes."""
    catalogs: list[SystemCatalog] = []

    def of_user(user: str) -> tuple[TestClient, SignInCodes]:
        catalogs.append(SystemCatalog(service.running.uri, access=access(user)))
        code = SignInCodes()
        return TestClient(console_app(catalogs[-1], code, Site(PORT)), base_url=f"http://127.0.0.1:{PORT}"), code

    yield of_user
    for catalog in catalogs:
        catalog.close()


@pytest.fixture
def signed_in(console: Callable[[str], tuple[TestClient, SignInCodes]]) -> Browser:
    """Opens the console of a user in a browser that is signed in."""

    def of_user(user: str) -> TestClient:
        browser, code = console(user)
        assert browser.post(f"/sign-in/{code.new()}").status_code == 200
        return browser

    return of_user
