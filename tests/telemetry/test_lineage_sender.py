"""Events of rounds on their way to an endpoint: outages, refusals, a full queue, the end of the process, and keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from support.running.processes import wait_for
from support.telemetry.lineage_receiver import LineageReceiver, lineage_receiver
from support.worlds.coordinator_world import START
from tiering.cli.processes.lineage import endpoint
from tiering.cli.terminal.options import LineageOptions
from tiering.coordinator.decisions.records import RoundRecord, Trigger
from tiering.errors import InvalidArgument, SetupError
from tiering.model.rounds import RoundState
from tiering.telemetry import lineage_sender
from tiering.telemetry.lineage_events import RoundStep
from tiering.telemetry.lineage_sender import LineageEndpoint, LineageSender


@pytest.fixture
def receiver() -> Iterator[LineageReceiver]:
    with lineage_receiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_sender, "RETRY_SECONDS", (0.01,))


def step(number: int, buckets: int = 0) -> RoundStep:
    row = RoundRecord(f"r{number}", 1, "sales", "orders", 3, 1, Trigger.SCHEDULE, RoundState.RUNNING, START, started_time=START)
    return RoundStep(row, "iceberg", None, None, dict.fromkeys(map(str, range(buckets)), 0))


def sender_to(url: str) -> LineageSender:
    return LineageSender(endpoint(LineageOptions(url)), lambda step: {"run": step.row.round_id})


def counts(sender: LineageSender) -> dict[str, float]:
    """The values of its metrics."""
    return {sample.labels.get("outcome", "waiting"): sample.value for family in sender.collect() for sample in family.samples}


def runs(receiver: LineageReceiver) -> list[str]:
    return [event["run"] for event in receiver.events]


def test_events_arrive_in_order_at_the_standard_path(receiver: LineageReceiver) -> None:
    sender = sender_to(receiver.url + "/")
    sender.add([step(1), step(2)])
    sender.add([step(3)])
    sender.close()
    assert runs(receiver) == ["r1", "r2", "r3"]
    assert receiver.requests == [("/api/v1/lineage", None)] * 3
    assert counts(sender) == {"sent": 3, "lost": 0, "waiting": 0}


def test_events_wait_for_an_endpoint_that_is_down() -> None:
    with lineage_receiver() as receiver:
        port, sender = receiver.server_port, sender_to(receiver.url)
    with capture_logs() as lines:
        sender.add([step(1), step(2)])
        wait_for("the outage", lambda: lines)
        with lineage_receiver(port) as receiver:
            receiver.wait_for_events(2)
            sender.close()
    assert runs(receiver) == ["r1", "r2"]
    assert [line["event"] for line in lines] == [
        "the OpenLineage endpoint takes no events; they wait",
        "the OpenLineage endpoint takes events again",
    ]


@pytest.mark.parametrize("status", [401, 404, 429, 503, 302])
def test_an_event_is_repeated_until_it_is_taken(receiver: LineageReceiver, status: int) -> None:
    receiver.statuses = [status, status]
    sender = sender_to(receiver.url)
    sender.add([step(1), step(2)])
    receiver.wait_for_events(2)
    sender.close()
    assert runs(receiver) == ["r1", "r2"]
    assert {path for path, _ in receiver.requests} == {"/api/v1/lineage"}, "a redirection is not followed"


@pytest.mark.parametrize("statuses", [[422], [500] * lineage_sender.MOST_REFUSALS])
def test_an_event_that_the_endpoint_refuses_is_lost_alone(receiver: LineageReceiver, statuses: list[int]) -> None:
    receiver.statuses = statuses
    sender = sender_to(receiver.url)
    sender.add([step(1), step(2)])
    receiver.wait_for_events(1)
    sender.close()
    assert runs(receiver) == ["r2"]
    assert counts(sender) == {"sent": 1, "lost": 1, "waiting": 0}


@pytest.mark.parametrize(("most", "buckets"), [("MOST_EVENTS", 0), ("MOST_OFFSETS", 1)])
def test_the_oldest_events_are_lost_when_too_many_wait(monkeypatch: pytest.MonkeyPatch, most: str, buckets: int) -> None:
    monkeypatch.setattr(lineage_sender, most, 3)
    with lineage_receiver(hang=True) as receiver:
        sender = sender_to(receiver.url)
        sender.add([step(0)])
        wait_for("the first event is on its way", lambda: receiver.requests)
        sender.add(step(number, buckets) for number in range(1, 6))
        assert counts(sender) == {"sent": 0, "lost": 2, "waiting": 3}
        receiver.hang = False
        receiver.over.set()
        receiver.wait_for_events(4)
        sender.close()
    assert runs(receiver) == ["r0", "r3", "r4", "r5"]


def test_a_process_that_ends_does_not_wait_for_an_endpoint_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage_sender, "CLOSE_SECONDS", 0.05)
    with lineage_receiver(hang=True) as receiver, capture_logs() as lines:
        sender = sender_to(receiver.url)
        began = time.monotonic()
        sender.add([step(1), step(2)])
        wait_for("the first event is on its way", lambda: receiver.requests)
        sender.close()
        assert time.monotonic() - began < lineage_sender.ANSWER_SECONDS
    assert [(line["event"], line["events"]) for line in lines] == [("events of OpenLineage were not sent before the end", 1)]


def test_an_event_that_cannot_be_made_stops_no_other(receiver: LineageReceiver) -> None:
    def event_of(step: RoundStep) -> dict[str, str]:
        if step.row.round_id == "r1":
            raise ValueError("a name that is no text")
        return {"run": step.row.round_id}

    sender = LineageSender(LineageEndpoint(f"{receiver.url}/api/v1/lineage"), event_of)
    sender.add([step(1), step(2)])
    sender.close()
    assert (runs(receiver), counts(sender)["lost"]) == (["r2"], 1)


def test_a_replaced_key_file_works_at_once_and_no_log_has_the_key(receiver: LineageReceiver, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first-key-1234567\n")
    place = endpoint(LineageOptions(receiver.url, api_key_file=file))
    place.send({"run": "r1"})
    file.write_text("second-key-1234567\n")
    place.send({"run": "r2"})
    assert [key for _, key in receiver.requests] == ["Bearer first-key-1234567", "Bearer second-key-1234567"]
    assert lineage_sender.outside_text("it refused second-key-1234567") == "it refused ***"


def test_the_key_may_be_in_the_variable_of_openlineages_own_clients(receiver: LineageReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "key-of-the-environment")
    endpoint(LineageOptions(receiver.url)).send({})
    assert receiver.requests == [("/api/v1/lineage", "Bearer key-of-the-environment")]


@pytest.mark.parametrize(
    "url", ["marquez:5000", "ftp://marquez", "http://", "http://me:secret@marquez", "http://:secret@marquez", "http://marquez?key=secret"]
)
def test_an_address_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        endpoint(LineageOptions(url))
    assert "secret" not in str(refused.value)


def test_a_key_is_not_sent_in_clear_text(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(SetupError, match="cannot be read"):
        endpoint(LineageOptions("https://marquez", api_key_file=file))
    file.write_text("key-1234567")
    with pytest.raises(InvalidArgument, match="in clear text"):
        endpoint(LineageOptions("http://marquez", api_key_file=file))
    assert endpoint(LineageOptions("https://marquez", api_key_file=file)).url == "https://marquez/api/v1/lineage"
