"""Metrics and health over HTTP: what the pages answer, and what a hostile or slow client can do."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry, Gauge

from tiering.access.grants import EVERYTHING, Access
from tiering.errors import SetupError
from tiering.telemetry import http_server
from tiering.telemetry.http_server import SCRAPES, SILENT, TelemetryServer

Page = tuple[int, str, str]


@pytest.fixture
def problems() -> dict[str, str | None]:
    return {"alive": None, "ready": None}


@pytest.fixture
def server(problems: dict[str, str | None]) -> Iterator[TelemetryServer]:
    registry = CollectorRegistry()
    Gauge("answer", "To everything.", registry=registry).set(42)
    server = TelemetryServer("127.0.0.1", 0, registry, lambda: problems["alive"], lambda: problems["ready"])
    yield server
    server.close()


def get(server: TelemetryServer, path: str, method: str = "GET", **headers: str) -> Page:
    connection = http.client.HTTPConnection(server.address, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read().decode()
    finally:
        connection.close()


def test_metrics_are_served_in_both_formats(server: TelemetryServer) -> None:
    status, content_type, text = get(server, "/metrics")
    assert status == 200
    assert content_type.startswith("text/plain")
    assert "answer 42.0" in text
    _, content_type, text = get(server, "/metrics?x=1", Accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert get(server, "/metrics", "HEAD")[2] == ""


def test_health_and_readiness_say_why_not(server: TelemetryServer, problems: dict[str, str | None]) -> None:
    assert [get(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    problems["ready"] = "it starts"
    assert get(server, "/healthz")[0] == 200
    assert get(server, "/readyz")[::2] == (503, "it starts\n")


def test_nothing_else_is_there(server: TelemetryServer) -> None:
    assert get(server, "/")[0] == 404
    assert get(server, "/metrics/../etc/passwd")[0] == 404
    assert get(server, "/metrics", "POST")[0] == 501


def test_a_port_that_is_taken_is_named(server: TelemetryServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(SetupError, match=str(port)):
        TelemetryServer("127.0.0.1", port, CollectorRegistry(), lambda: None, lambda: None)


def test_slow_clients_fill_no_more_than_their_rooms_and_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTION_SECONDS", 0.5)
    server = TelemetryServer("127.0.0.1", 0, CollectorRegistry(), lambda: None, lambda: None)
    host, _, port = server.address.rpartition(":")
    slow = [socket.create_connection((host, int(port)), timeout=60) for _ in range(SILENT // 4)]
    try:
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        for connection in slow:
            assert connection.recv(1) == b"", "cut off without an answer"
        answered(lambda: get(server, "/healthz")[0])
    finally:
        for connection in slow:
            connection.close()
        server.close()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\n"])
def test_connections_without_a_request_give_way_to_a_probe(server: TelemetryServer, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SILENT", 4)
    host, _, port = server.address.rpartition(":")
    silent = [socket.create_connection((host, int(port)), timeout=60) for _ in range(4)]
    try:
        for connection in silent:
            connection.sendall(sent)
        for _ in range(3):
            assert get(server, "/healthz")[0] == 200
        assert silent[0].recv(1) == b"", "the oldest one is closed"
    finally:
        for connection in silent:
            connection.close()


def test_scrapes_that_wait_keep_no_probe_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    def access(_bearer: str | None, _peer: str) -> Access:
        begun.release()
        assert go.wait(60)
        return EVERYTHING

    server = TelemetryServer("127.0.0.1", 0, CollectorRegistry(), lambda: None, lambda: None, access)
    try:
        with ThreadPoolExecutor(SCRAPES) as scrapers:
            scrapes = [scrapers.submit(get, server, "/metrics") for _ in range(SCRAPES)]
            for _ in scrapes:
                assert begun.acquire(timeout=60)
            assert get(server, "/healthz")[0] == 200
            assert get(server, "/metrics")[0] == 503
            go.set()
            assert {scrape.result()[0] for scrape in scrapes} == {200}
    finally:
        go.set()
        server.close()


def test_a_connection_that_gets_no_thread_keeps_no_room(server: TelemetryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    for at in ((http_server.ThreadingHTTPServer, "process_request"), (http_server.threading.Timer, "start")):
        with monkeypatch.context() as short_of_memory:
            short_of_memory.setattr(*at, no_thread)
            for _ in range(2 * SCRAPES):
                with pytest.raises((ConnectionError, http.client.HTTPException)):
                    get(server, "/healthz")
        answered(lambda: get(server, "/healthz")[0])


def answered(status: Callable[[], int]) -> None:
    """The rooms are free again: at the first try, or one soon after."""
    for _ in range(100):
        try:
            assert status() == 200
            return
        except (ConnectionError, http.client.HTTPException):
            continue
    raise AssertionError("no server answers")


def test_ipv6_is_served_too() -> None:
    server = TelemetryServer("::1", 0, CollectorRegistry(), lambda: None, lambda: None)
    try:
        assert server.url.startswith("http://[::1]:")
    finally:
        server.close()
