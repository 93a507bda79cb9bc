"""The coordinator's part of a round's trace, as a real OTLP receiver gets it, over real gRPC."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from support.services.served import at_uri
from support.telemetry.otlp_receiver import OtlpReceiver, attributes_of, otlp_receiver
from support.worlds.coordinator_world import World
from support.worlds.leases import keeper
from tiering.clock import RandomIds, SystemClock
from tiering.errors import UnknownTable
from tiering.model.rounds import Assignment, RoundState
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.transport import GrpcTransport
from tiering.rpc.v1.coordinator_pb2 import RecordPlanRequest
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.telemetry.call_traces import CallTraces, open_call_traces
from tiering.telemetry.traces import RoundTraces, open_traces
from tiering.wire.channel import calling
from tiering.wire.model_codecs import ASSIGNMENT

CALLS = ("RecordPlan", "BeginLakeCommit", "CommitLakeSnapshot")
SERVICE = "tiering.rpc.v1.TieringCoordinator"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.coordinator.close()


@contextmanager
def traced_rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OtlpReceiver, RoundTraces, CallTraces]]:
    """A receiver with all spans once this is over, and what sends them to it."""
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        of_rounds, of_calls = open_traces(SystemClock(), "tierer-1"), open_call_traces("here")
        assert of_rounds is not None
        assert of_calls is not None
        yield receiver, of_rounds, of_calls
        of_rounds.close()
        of_calls.close()


def run_round(world: World, uri: str, traces: RoundTraces) -> Assignment:
    """A round of the due table over real gRPC, as a tierer runs it."""
    tierer = world.process("process-1")
    assignment = ASSIGNMENT.from_pb(tierer.get(), coordinator_epoch=tierer.epoch)
    transport = GrpcTransport(uri, tierer.name, "process-1", traces.metadata)
    inline, clock, leases = InlineTaskRunner(), SystemClock(), keeper(transport)
    parts = RoundEnvironment(transport, world.cluster, lambda _: world.lake, inline, inline, clock, RandomIds(), 0, leases, watch=traces)
    traces.round_started(assignment)
    outcome = RoundRunner(parts, assignment).run()
    traces.round_ended(assignment, outcome, 1)
    transport.close()
    assert outcome.state is RoundState.SUCCEEDED
    return assignment


def test_the_coordinators_part_is_below_the_tierers_round(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append()
    world.due()
    with traced_rounds(monkeypatch) as (receiver, of_rounds, of_calls), at_uri(world, of_calls) as uri:
        assignment = run_round(world, uri, of_rounds)
        assert of_rounds.metadata(assignment.round_id) == (), "nothing is kept of a round that is over"
    [root] = [span for span in receiver.spans if span.name == "tiering round"]
    calls = {span.name: span for span in receiver.spans if span.kind == Span.SPAN_KIND_SERVER}
    assert set(calls) == {f"{SERVICE}/{name}" for name in CALLS}
    for span in calls.values():
        assert (span.trace_id, span.parent_span_id) == (root.trace_id, root.span_id)
        about = attributes_of(span)
        assert (about["round_id"], about["table"]) == (assignment.round_id, str(assignment.path))
        assert about["rpc.method"] in CALLS
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
    assert receiver.services == {"lakeward-tierer", "lakeward-coordinator"}


def test_a_call_without_a_trace_or_with_a_wrong_one_has_no_span_and_a_refused_one_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with traced_rounds(monkeypatch) as (receiver, _, of_calls), at_uri(world, of_calls) as uri, grpc.insecure_channel(uri) as channel:
        for headers in (None, (("traceparent", "nonsense"),), (("traceparent", PARENT), ("tracestate", "a=b"))):
            with pytest.raises(UnknownTable), calling(uri):
                TieringCoordinatorStub(channel).RecordPlan(RecordPlanRequest(), metadata=headers)
    [span] = receiver.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (PARENT.split("-")[1], PARENT.split("-")[2])
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert span.status.message == "no lake table has the id 0: it was dropped, or its lake disabled"


def test_without_an_endpoint_nothing_is_loaded_and_nothing_carried() -> None:
    code = (
        "import sys; from tiering.telemetry.call_traces import open_call_traces;"
        "assert open_call_traces('here', {}) is None;"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
