"""Traces of rounds, as a real OTLP receiver gets them; and that an endpoint that is dead or hangs costs a round nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from support.round_scene import new_scene
from support.telemetry.otlp_receiver import attributes_of, otlp_receiver
from tiering.clock import SystemClock
from tiering.errors import Fenced
from tiering.instants import from_microseconds
from tiering.model.rounds import RoundState
from tiering.round.runner import RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.watch import TiererWatch, Watches
from tiering.telemetry import otlp
from tiering.telemetry.traces import RoundTraces, open_traces

DOES_NOT_WAIT_SECONDS = 9
"""A busy machine may take seconds of what takes none; to wait for an endpoint that hangs takes four times three seconds."""


def opened(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> RoundTraces:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "lakeward-in-a-test")
    traces = open_traces(SystemClock(), "tierer-1")
    assert traces is not None
    return traces


def run_round(traces: TiererWatch, *, refused: bool = False) -> RoundOutcome:
    """A round on a cluster and a lake in memory, as a tierer runs it."""
    scene = new_scene()
    if refused:
        scene.coordinator.refuse = Fenced("an older epoch")
    assignment = scene.assignment()
    runner = RoundRunner(replace(scene.world(), clock=SystemClock(), watch=traces), assignment)
    traces.round_started(assignment)
    outcome = runner.run()
    traces.round_ended(assignment, outcome, 10)
    return outcome


def test_a_round_is_a_trace_with_a_span_for_each_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_receiver() as receiver:
        traces = opened(monkeypatch, receiver.endpoint)
        assert run_round(traces).state is RoundState.SUCCEEDED
        traces.close()
    spans = {span.name: span for span in receiver.spans}
    assert set(spans) == {"tiering round", "plan", "read", "write", "commit", "ack"}
    root = spans.pop("tiering round")
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    for span in (root, *spans.values()):
        about = attributes_of(span)
        assert (about["round_id"], about["table"], about["tiering_epoch"]) == ("round-1", "sales.orders", 1)
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
    assert attributes_of(root)["records_written"] == 9
    assert receiver.services == {"lakeward-in-a-test"}


class DrawnClock:
    """A clock whose wall time a test sets."""

    def __init__(self, wall_us: int) -> None:
        self.wall_us = wall_us

    def now(self) -> datetime:
        return from_microseconds(self.wall_us)

    def monotonic_ms(self) -> int:
        raise AssertionError("traces take durations from the round")


YEAR_US = 366 * 86_400 * 1_000_000
LAST_US = 2**64 // 1_000 - 1
"""The latest microsecond that OTLP's unsigned nanoseconds can hold: in the year 2554."""
WALL_US = st.integers(0, LAST_US)
STEPS_US = st.one_of(st.integers(0, 2_000), st.integers(-2_000, 2_000), st.integers(-YEAR_US, YEAR_US), st.integers(-LAST_US, LAST_US))
"""How far the wall clock moves between two events of a round: most of them less than the millisecond that durations are rounded to."""
ELAPSED_MS = st.one_of(st.integers(0, 3), st.integers(0, 10**6), st.integers(0, LAST_US // 1_000))
PIECES = st.lists(st.tuples(STEPS_US, st.sampled_from(["plan", "lease", "read", "write", "commit", "ack"]), ELAPSED_MS), max_size=8)


@given(WALL_US, PIECES, STEPS_US)
@example(1_000_400, [(0, "plan", 1)], 0)
@example(1_000_400, [(1_000, "plan", 1)], -900)
def test_a_part_never_begins_before_its_round_nor_ends_after_it(
    began_us: int, pieces: list[tuple[int, str, int]], last_step_us: int
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    clock = DrawnClock(began_us)
    traces, assignment = RoundTraces(provider, clock), new_scene().assignment()
    traces.round_started(assignment)
    for step_us, phase, elapsed_ms in pieces:
        clock.wall_us = min(LAST_US, max(0, clock.wall_us + step_us))
        traces.phase_done(assignment, phase, elapsed_ms, elapsed_ms)
    clock.wall_us = min(LAST_US, max(0, clock.wall_us + last_step_us))
    traces.round_ended(assignment, RoundOutcome(RoundState.EMPTY), 0)
    *parts, root = [(span.start_time, span.end_time) for span in exporter.get_finished_spans()]
    assert len(parts) == len({phase for _, phase, _ in pieces})
    assert root[0] == began_us * 1_000
    for start_ns, end_ns in parts:
        assert root[0] <= start_ns <= end_ns <= root[1] < 2**64


def test_a_failed_round_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_receiver() as receiver:
        traces = opened(monkeypatch, receiver.endpoint)
        assert run_round(traces, refused=True).state is RoundState.FENCED
        traces.close()
    [root] = [span for span in receiver.spans if span.name == "tiering round"]
    assert (attributes_of(root)["error_class"], root.status.message) == ("Fenced", "an older epoch")


@pytest.mark.in_turn("hang")
@pytest.mark.parametrize("hang", [False, True], ids=["dead", "hanging"])
def test_an_endpoint_that_does_not_answer_delays_neither_rounds_nor_the_end(monkeypatch: pytest.MonkeyPatch, hang: bool) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")  # seconds of a batch, of which the queue holds four: longer than CLOSE_SECONDS
    with otlp_receiver(hang=hang) as receiver:
        traces = opened(monkeypatch, receiver.endpoint if hang else "http://127.0.0.1:9")
        started = time.monotonic()
        assignment, outcome = new_scene().assignment(), RoundOutcome(RoundState.EMPTY)
        for _ in range(3_000):  # more than its queue holds
            traces.round_started(assignment)
            traces.phase_done(assignment, "plan", 1, 1)
            traces.round_ended(assignment, outcome, 1)
        assert time.monotonic() - started < DOES_NOT_WAIT_SECONDS, "some 100 us a round"
        started = time.monotonic()
        traces.close()
        assert time.monotonic() - started < otlp.CLOSE_SECONDS + DOES_NOT_WAIT_SECONDS
    for thread in threading.enumerate():
        if thread.name == "last spans":  # it has a word to say when it gives up, which belongs to no other test
            thread.join(30)


def test_without_an_endpoint_nothing_is_loaded() -> None:
    code = (
        "import sys; from tiering.clock import SystemClock; from tiering.telemetry.traces import open_traces;"
        "assert open_traces(SystemClock(), 't', {}) is None;"
        "assert open_traces(SystemClock(), 't', {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://x', 'OTEL_SDK_DISABLED': 'true'}) is None;"
        "assert open_traces(SystemClock(), 't', {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://x', 'OTEL_TRACES_EXPORTER': 'none'}) is None;"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_endpoint_without_the_packages_is_a_warning_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with capture_logs() as lines:
        assert open_traces(SystemClock(), "t", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4317"}) is None
    [line] = lines
    assert line["log_level"] == "warning"
    assert "[otel]" in line["hint"]


def test_a_watch_that_raises_harms_no_round() -> None:
    class Broken(TiererWatch):
        def phase_done(self, *_: object) -> None:
            raise ZeroDivisionError

        def round_ended(self, *_: object) -> None:
            raise ZeroDivisionError

    with capture_logs() as lines:
        assert run_round(Watches([Broken()])).state is RoundState.SUCCEEDED
    assert {line["call"] for line in lines if "metrics or traces failed" in line["event"]} == {"phase_done", "round_ended"}
