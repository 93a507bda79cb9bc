"""The console of a service with TLS: https with the service's certificate, and a cookie that browsers send over https alone."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from support.running.cluster_of_processes import Deployment
from support.services.certificates import LOCAL, Authority
from sys_tables.catalog_client import SystemCatalog
from tiering.access.client_access import TLS_CA


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    yield deployment
    deployment.close()


def test_a_browser_signs_in_by_https_and_the_console_trusts_its_own_service(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    tls = authority.server()
    files = ("--server-cert", str(tls.certificate), "--server-key", str(tls.key))
    service = deployment.start_coordinator("--auth", "token", "--console-port", "0", *files)  # it names no authority
    monkeypatch.setenv(TLS_CA, str(authority.certificate))
    with SystemCatalog(deployment.uri) as catalog:
        link = catalog.console_link()
    assert link is not None
    assert re.search(r"^lakeward console: (https://\S+)$", service.output(), re.MULTILINE)[1] == link.partition("/sign-in")[0]  # type: ignore[index]  # it is there
    with httpx2.Client(timeout=60, verify=ssl.create_default_context(cafile=str(authority.certificate))) as browser:
        cookie = browser.post(link).headers["set-cookie"]
        page = browser.get(f"{link.partition('/sign-in')[0]}/")
    assert [word in cookie for word in ("__Host-lakeward-console-", "Secure", "HttpOnly", "SameSite=strict", "Path=/")] == [True] * 5
    assert (page.status_code, "http://" in page.text) == (200, False)
    with pytest.raises(httpx2.TransportError):
        httpx2.get(timeout=60, url=link.replace("https://", "http://"))


def test_renewed_files_are_in_force_without_a_restart_for_browsers_and_for_the_console_itself(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    tls = authority.server()
    files = ("--server-cert", str(tls.certificate), "--server-key", str(tls.key))
    deployment.start_coordinator("--auth", "token", "--console-port", "0", *files)
    for target, source in zip((tls.key, tls.certificate), reversed(other.issue("server", *LOCAL, files="next")), strict=True):
        os.replace(source, target)
    monkeypatch.setenv(TLS_CA, str(other.certificate))
    with SystemCatalog(deployment.uri) as catalog:
        link = catalog.console_link()
    assert link is not None
    with pytest.raises(httpx2.TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx2.get(timeout=60, url=link, verify=ssl.create_default_context(cafile=str(authority.certificate)))
    with httpx2.Client(timeout=60, verify=ssl.create_default_context(cafile=str(other.certificate))) as browser:
        assert browser.post(link).status_code == browser.get(f"{link.partition('/sign-in')[0]}/").status_code == 200
