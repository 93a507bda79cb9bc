"""`lakeward console`: a process whose link signs a browser in, and which ends with Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.processes import Process, wait_for

LINK = re.compile(r"^http://127\.0\.0\.1:\d+/sign-in/\S+$", re.MULTILINE)


@pytest.fixture
def console(stocked: Deployment, tmp_path: Path) -> Iterator[Process]:
    process = Process("console", "--uri", stocked.uri, "--port", "0", "--print", log=tmp_path / "console.log")
    yield process
    process.close()


def test_the_printed_link_opens_the_overview_of_the_service(console: Process) -> None:
    wait_for("the link", lambda: LINK.search(console.output()))
    [link] = LINK.findall(console.output())
    with httpx2.Client(follow_redirects=True) as browser:
        signed_in = browser.get(link)
        [overview] = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', signed_in.text)
        page = browser.get(overview)
    assert (page.status_code, "sales.orders" in page.text, "web.clicks" in page.text) == (200, True, True)
    assert httpx2.get(link).status_code == 403
    console.send(signal.SIGINT)
    assert console.wait_ended(60) == 0
    assert link.rpartition("/")[2] not in console.output().replace(link, "", 1)


def test_a_browser_is_opened_by_a_file_of_this_user_alone(lakeward: Lakeward, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[tuple[str, int]] = []

    def open_browser(address: str) -> None:
        file = Path(address.removeprefix("file://"))
        opened.append((file.read_text(), file.stat().st_mode & 0o777))

    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", open_browser)
    monkeypatch.setattr("sys_tables.console.serving.serve", lambda app, listening: None)
    ended = lakeward("console", "--port", "0")
    [(text, mode)] = opened
    assert (ended.status, ended.out.strip() in text, mode) == (0, True, 0o600)
    assert list((tmp_path / "console").iterdir()) == []


def test_without_a_service_or_with_a_used_port_no_link_is_printed(lakeward: Lakeward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        used = lakeward("console", "--port", port)
    gone = lakeward("console", "--uri", f"127.0.0.1:{port}")
    assert (used.status, gone.status, used.out + gone.out) == (1, 3, "")
    assert f"port {port} cannot be had for the console" in used.err
