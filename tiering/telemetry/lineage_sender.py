"""Sends events of rounds to an OpenLineage endpoint, such as Marquez, in a thread of its own.

A round never waits for it: events wait in a queue with a bound, and the oldest are lost when it is full. The thread repeats an event until
the endpoint takes it, so an endpoint may get an event twice. Lost events are counted, and a crash of the process loses those that wait.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tiering.errors import LakewardError
from tiering.library_guards.panics import contained
from tiering.redaction.known_secrets import KNOWN
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.telemetry import metrics
from tiering.telemetry.lineage_events import RoundStep

_log = structlog.get_logger(__name__)

MOST_EVENTS = 2_048
"""Most events that wait, as for spans (`OTEL_BSP_MAX_QUEUE_SIZE`)."""
MOST_OFFSETS = 200_000
"""Most offsets in the events that wait, some 20 MB: a table can have thousands of buckets."""
ANSWER_SECONDS = 5.0
"""Longest wait for a part of an answer."""
RETRY_SECONDS = (1, 2, 5, 10, 30, 60)
"""Waits before an event is sent again, by the number of failures in a row; then the last one."""
MOST_REFUSALS = 10
"""How often an event is sent that the endpoint answers with an internal error, which may be due to that event."""
CLOSE_SECONDS = 1.0
"""Seconds for which a process that ends waits until its last events are sent."""

_ABOUT_THE_EVENT = (400, 413, 415, 422)
"""Statuses of an answer that a repeat of the event does not change."""
_INTERNAL_ERROR = 500


class EndpointFailed(Exception):
    """The endpoint did not take an event. `status`: that of its answer; None without an answer."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


@dataclass(frozen=True)
class LineageEndpoint:
    """An endpoint. `api_key` returns the key to show, or None; it is read with each event, so that a replaced file works at once."""

    url: str
    api_key: Callable[[], str | None] = lambda: None

    def send(self, event: Mapping[str, Any]) -> None:
        """Sends one event. Raises EndpointFailed, also for a redirection, so that no other place gets events or the key."""
        parts = urlsplit(self.url)
        connection = _connection(parts)
        try:
            connection.request("POST", parts.path, json.dumps(event).encode(), self._headers())
            answer = connection.getresponse()
            text = answer.read(NAME_TEXT_LIMIT * 4).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise EndpointFailed(outside_text(str(error) or type(error).__name__)) from error
        except LakewardError as error:
            raise EndpointFailed(error.message) from error
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise EndpointFailed(outside_text(f"{answer.status} {answer.reason} {text}", NAME_TEXT_LIMIT), answer.status)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Connection": "close"}
        key = self.api_key()
        if key is not None:
            KNOWN.add(key)
            headers["Authorization"] = f"Bearer {key}"
        return headers


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)


class LineageSender(Collector):
    """The queue and its thread, and a collector of `prometheus_client` for its metrics. Thread-safe.

    `event_of` makes the event of a step, in the thread that sends it.
    """

    def __init__(self, endpoint: LineageEndpoint, event_of: Callable[[RoundStep], Mapping[str, Any]]) -> None:
        self._endpoint, self._event_of = endpoint, event_of
        self._steps: deque[RoundStep] = deque()
        self._offsets = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._sent = self._lost = 0
        self._is_reachable = True
        self._thread = threading.Thread(target=contained(self._run), name="lineage", daemon=True)
        self._thread.start()

    def add(self, steps: Iterable[RoundStep]) -> None:
        """Queues events. It never waits for the endpoint."""
        with self._changed:
            for step in steps:
                self._steps.append(step)
                self._offsets += len(step.offsets)
            while len(self._steps) > MOST_EVENTS or (self._offsets > MOST_OFFSETS and len(self._steps) > 1):
                self._offsets -= len(self._steps.popleft().offsets)
                self._lost += 1
            self._changed.notify()

    def close(self) -> None:
        """Sends the remaining events, for at most CLOSE_SECONDS. A repeat has no effect."""
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)
        if self._steps:
            _log.warning("events of OpenLineage were not sent before the end", events=len(self._steps))

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Returns nothing, because this package declares the names."""
        return ()

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Returns the metrics of this sender."""
        with self._changed:
            outcomes, waiting = {"sent": self._sent, "lost": self._lost}, len(self._steps)
        events = CounterMetricFamily(metrics.LINEAGE_EVENTS.name, metrics.LINEAGE_EVENTS.comment, labels=metrics.LINEAGE_EVENTS.labels)
        for outcome, count in outcomes.items():
            events.add_metric((outcome,), count)
        yield events
        yield GaugeMetricFamily(metrics.LINEAGE_WAITING.name, metrics.LINEAGE_WAITING.comment, value=waiting)

    def _run(self) -> None:
        while (step := self._next()) is not None:
            was_sent = self._deliver(step)
            with self._changed:
                self._sent += was_sent
                self._lost += not was_sent

    def _next(self) -> RoundStep | None:
        """Takes the oldest event, waiting for one; None once the sender is stopping and no event waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._steps or self._stopping.is_set())
            if not self._steps:
                return None
            step = self._steps.popleft()
            self._offsets -= len(step.offsets)
            return step

    def _deliver(self, step: RoundStep) -> bool:
        """Sends an event until the endpoint takes it. Returns False for a lost event: refused, or not sent before the end."""
        failures = refusals = 0
        while True:
            try:
                self._endpoint.send(self._event_of(step))
            except EndpointFailed as error:
                refusals += error.status == _INTERNAL_ERROR
                if error.status in _ABOUT_THE_EVENT or refusals >= MOST_REFUSALS:
                    _log.warning("the OpenLineage endpoint refused an event", round_id=step.row.round_id, reason=error.reason)
                    return False
                self._note_failure(error)
                if self._stopping.wait(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]):
                    return False
                failures += 1
            except Exception:
                _log.exception("an event of OpenLineage could not be made", round_id=step.row.round_id)
                return False
            else:
                if not self._is_reachable:
                    _log.info("the OpenLineage endpoint takes events again")
                self._is_reachable = True
                return True

    def _note_failure(self, error: EndpointFailed) -> None:
        """Logs the begin of an outage once."""
        if self._is_reachable:
            _log.warning("the OpenLineage endpoint takes no events; they wait", url=self._endpoint.url, reason=error.reason)
        self._is_reachable = False
