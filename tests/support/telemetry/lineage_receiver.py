"""A receiver of OpenLineage's events over real HTTP: what Marquez is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.running.processes import wait_for

Event = dict[str, Any]


class LineageReceiver(ThreadingHTTPServer):
    """Keeps the events that it takes. `statuses`: its next answers, for which it takes none; then it takes all."""

    daemon_threads = True

    def __init__(self, port: int = 0, *, hang: bool = False) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.events: list[Event] = []
        self.requests: list[tuple[str, str | None]] = []
        """Path and `Authorization` of each request."""
        self.statuses: list[int] = []
        self.hang = hang
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def of_run(self, run_id: str) -> dict[str, Event]:
        """The events of a run by their types."""
        return {event["eventType"]: event for event in [*self.events] if event["run"]["runId"] == run_id}

    def wait_for_events(self, count: int) -> list[Event]:
        """Waits until it has taken this many events."""
        wait_for(f"{count} events", lambda: len(self.events) >= count)
        return self.events


class _Handler(BaseHTTPRequestHandler):
    server: LineageReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Authorization"]))
        if self.server.hang:
            self.server.over.wait(60)
        status = self.server.statuses.pop(0) if self.server.statuses else 201
        if status == 201:
            self.server.events.append(json.loads(body))
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Writes nothing."""


@contextmanager
def lineage_receiver(port: int = 0, *, hang: bool = False) -> Iterator[LineageReceiver]:
    """Serves on loopback; `port` 0: a free one. `hang`: it takes requests and does not answer."""
    with LineageReceiver(port, hang=hang) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.over.set()
            receiver.shutdown()
            thread.join()
