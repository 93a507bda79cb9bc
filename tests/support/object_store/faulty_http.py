"""An HTTP proxy that a test tells what to do to requests: lose an answer after the effect, answer an error instead of it, or after it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

UPSTREAM_SECONDS = 60
_OF_A_CONNECTION = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})


class Fault(StrEnum):
    """Faults of a request."""

    LOSE_ANSWER = "its answer is lost after the effect"
    ERROR_AFTER = "an error is answered after the effect"
    ERROR_INSTEAD = "an error is answered and nothing happens"


@dataclass
class Rule:
    """Requests that a fault happens to. `times` None = until it is taken away."""

    method: str
    path: re.Pattern[str]
    fault: Fault
    status: int = 500
    times: int | None = None
    bodies: list[bytes] = field(default_factory=list)
    """Bodies of the requests that had the fault."""

    @property
    def hits(self) -> int:
        """How many these are."""
        return len(self.bodies)

    def fits(self, method: str, path: str) -> bool:
        return self.method in ("*", method) and bool(self.path.search(path)) and (self.times is None or self.hits < self.times)


@dataclass
class FaultyHttp:
    """Leads to one server. `uri`: where it is reached."""

    uri: str
    rules: list[Rule] = field(default_factory=list)
    posted: list[bytes] = field(default_factory=list)
    """Bodies of the POST requests that came, whatever happened to them."""
    put: list[str] = field(default_factory=list)
    """Paths of the PUT requests."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fault: Fault, method: str = "*", path: str = "", *, status: int = 500, times: int | None = None) -> Rule:
        """From now on it happens to requests whose path matches; the first rule that fits counts."""
        rule = Rule(method, re.compile(path), fault, status, times)
        with self._lock:
            self.rules.append(rule)
        return rule

    def heal(self) -> None:
        """Nothing happens to requests any more."""
        with self._lock:
            self.rules.clear()

    def take(self, method: str, path: str, body: bytes) -> Rule | None:
        """The rule of a request that just came; it is counted."""
        with self._lock:
            rule = next((rule for rule in self.rules if rule.fits(method, path)), None)
            if rule is not None:
                rule.bodies.append(body)
            if method == "POST":
                self.posted.append(body)
            elif method == "PUT":
                self.put.append(path)
            return rule


@contextmanager
def faulty_http(upstream: str) -> Iterator[FaultyHttp]:
    """A proxy before `upstream`, an `http://HOST:PORT`."""
    server = _Server(urlparse(upstream).netloc)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.faults = FaultyHttp(f"http://127.0.0.1:{self.server_port}")

    def handle_error(self, *_: object) -> None:
        """A client that was killed is nothing to tell of."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        rule = self.server.faults.take(self.command, self.path, body)
        if rule is not None and rule.fault is Fault.ERROR_INSTEAD:
            self._answer(rule.status, {}, b"")
            return
        upstream = HTTPConnection(self.server.upstream, timeout=UPSTREAM_SECONDS)
        try:
            # With the host that the client named: a signature of S3 holds for it.
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "expect")}
            upstream.request(self.command, self.path, body, headers)
            response = upstream.getresponse()
            content = response.read()
        finally:
            upstream.close()
        if rule is None:
            self._answer(response.status, _passed_on(response, self.command), content)
        elif rule.fault is Fault.ERROR_AFTER:
            self._answer(rule.status, {}, b"")
        else:
            self.close_connection = True

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def _passed_on(response: HTTPResponse, method: str) -> dict[str, str]:
    headers = {name: value for name, value in response.getheaders() if name.lower() not in _OF_A_CONNECTION}
    length = response.getheader("Content-Length")
    return {**headers, "Content-Length": length} if method == "HEAD" and length is not None else headers
