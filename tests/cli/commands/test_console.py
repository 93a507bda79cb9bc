"""`lakeward console`: a process whose link signs a browser in, and which ends with Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.processes import Process, wait_for
from tiering.cli.terminal.access_options import AccessOptions, Auth
from tiering.cli.terminal.console_options import ConsoleOptions
from tiering.errors import InvalidArgument

LINK = re.compile(r"^http://127\.0\.0\.1:\d+/sign-in/\S+$", re.MULTILINE)


@pytest.fixture
def console(stocked: Deployment, tmp_path: Path) -> Iterator[Process]:
    process = Process("console", "--uri", stocked.uri, "--port", "0", "--print", log=tmp_path / "console.log")
    yield process
    process.close()


def test_the_printed_link_opens_the_overview_of_the_service(console: Process) -> None:
    wait_for("the link", lambda: LINK.search(console.output()))
    [link] = LINK.findall(console.output())
    with httpx2.Client(timeout=60, follow_redirects=True) as browser:
        signed_in = browser.post(link)
        [overview] = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', signed_in.text)
        page = browser.get(overview)
    assert (page.status_code, "sales.orders" in page.text, "web.clicks" in page.text) == (200, True, True)
    assert httpx2.get(timeout=60, url=link).status_code == 403
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


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts coordinators, each on a folder of its own and a free port."""
    processes: list[Process] = []

    def start(*options: str) -> Process:
        name = f"coordinator-{len(processes)}"
        arguments = ("coordinator", "--data", str(tmp_path / name), "--port", "0", *options)
        processes.append(Process(*arguments, log=tmp_path / f"{name}.log"))
        return processes[-1]

    yield start
    for process in processes:
        process.close()


def test_a_service_with_a_console_gives_the_link(started: Callable[..., Process], lakeward: Lakeward, tmp_path: Path) -> None:
    service = started("--auth", "token", "--console-port", "0")
    uri = service.wait_ready()
    [address] = re.findall(r"^lakeward console: (http://127\.0\.0\.1:\d+/ui)$", service.output(), re.MULTILINE)
    ended = lakeward("console", "--uri", uri, "--print")
    link = ended.out.strip()
    assert (ended.status, link.rpartition("/sign-in/")[0], "Ctrl-C" in ended.err) == (0, address, False)
    assert (httpx2.post(timeout=60, url=link).status_code, httpx2.post(timeout=60, url=link).status_code) == (200, 403)
    taken = started("--console-port", address.rpartition(":")[2].removesuffix("/ui"))
    assert (taken.wait_ended(60), "for the console: Address already in use" in taken.output()) == (1, True)
    assert "--console-port: 0 picks a free port, and none turns the console off" in re.sub(r"\s+", " ", taken.output())


def test_behind_a_trusted_proxy_each_client_has_a_limit_of_its_own(started: Callable[..., Process]) -> None:
    service = started("--console-port", "0", "--console-trusted-proxies", "127.0.0.1")
    service.wait_ready()
    [address] = re.findall(r"^lakeward console: (\S+)$", service.output(), re.MULTILINE)
    with httpx2.Client(timeout=60) as proxy:

        def statuses(client: str, requests: int) -> set[int]:
            link, headers = f"{address}/sign-in/x", {"X-Forwarded-For": f"10.9.9.9, {client}", "X-Forwarded-Proto": "https"}
            return {proxy.get(link, headers=headers).status_code for _ in range(requests)}

        assert statuses("10.0.0.1", 90) == {403, 429}
        assert statuses("10.0.0.2", 1) == {403}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (ConsoleOptions("door"), "--console-port 'door' is not a port"),
        (ConsoleOptions("70000"), "--console-port '70000' is not a port"),
        (ConsoleOptions(trusted_proxies="proxy.example"), "'proxy.example' is not the address or the network of a proxy"),
        (ConsoleOptions(trusted_proxies="10.0.0.5,*"), "'\\*' is not the address"),
        (ConsoleOptions(trusted_proxies="10.0.0.5,"), "'' is not the address"),
        (ConsoleOptions(trusted_proxies="::/0"), "'::/0' is not the address"),
        (ConsoleOptions(url="lake.example"), "is not the address of a console"),
        (ConsoleOptions(url="https://lake.example/console"), "is not the address of a console"),
    ],
)
def test_options_of_the_console_are_checked(options: ConsoleOptions, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        options.begin(7707, AccessOptions(Auth.TOKEN), is_on=True)


@pytest.mark.parametrize(
    ("port", "is_on", "auth", "expected"),
    [
        (7707, True, Auth.TOKEN, 7717),
        (0, True, Auth.NONE, 0),
        (65_530, True, Auth.TOKEN, 0),
        (7707, True, Auth.MTLS, None),
        (7707, False, Auth.TOKEN, None),
    ],
)
def test_the_default_port_follows_the_port_of_the_service(port: int, is_on: bool, auth: Auth, expected: int | None) -> None:
    assert ConsoleOptions().begin(port, AccessOptions(auth), is_on).bound_port == expected
    assert ConsoleOptions("none").begin(port, AccessOptions(auth), is_on).bound_port is None


def test_a_service_that_knows_callers_by_certificate_has_no_console() -> None:
    with pytest.raises(InvalidArgument, match="--auth mtls has no console"):
        ConsoleOptions("7717").begin(7707, AccessOptions(Auth.MTLS), is_on=True)


def test_without_a_service_or_with_a_used_port_no_link_is_printed(lakeward: Lakeward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        used = lakeward("console", "--port", port)
    gone = lakeward("console", "--uri", f"127.0.0.1:{port}")
    assert (used.status, gone.status, used.out + gone.out) == (1, 3, "")
    assert f"port {port} cannot be had for the console" in used.err
