"""A tierer's metrics: what its rounds did, and whether it is ready."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry, generate_latest

from support.round_scene import new_scene
from support.worlds.coordinator_world import HandClock
from tiering.errors import RoundFailed
from tiering.model.rounds import RoundState, RoundStats
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.round.steps.actions import RoundOutcome
from tiering.telemetry.metrics import METRICS, Process
from tiering.telemetry.tierer_metrics import TiererMetrics


def test_rounds_are_counted_with_what_they_did_and_how_long_their_parts_took() -> None:
    registry, scene = CollectorRegistry(), new_scene()
    metrics = TiererMetrics(registry, HandClock(), slots=4, ready_ms=60_000)
    assignment = scene.assignment()
    metrics.round_started(assignment)
    assert registry.get_sample_value("lakeward_tierer_rounds_running") == 1
    metrics.round_ended(assignment, scene.run(), 1_500)
    metrics.round_started(assignment)
    metrics.round_ended(assignment, RoundOutcome(RoundState.FAILED, RoundStats(bytes_read=70), error=RoundFailed("disk full")), 10)
    value = registry.get_sample_value
    assert value("lakeward_tierer_rounds_running") == 0
    assert value("lakeward_tierer_rounds_total", {"state": "SUCCEEDED"}) == 1
    assert value("lakeward_tierer_rounds_total", {"state": "FAILED"}) == 1
    assert value("lakeward_tierer_rounds_total", {"state": "FENCED"}) == 0
    assert value("lakeward_tierer_records_written_total") == 9
    assert value("lakeward_tierer_bytes_read_total") == 70
    assert value("lakeward_tierer_round_seconds_sum") == 1.51
    assert value("lakeward_tierer_phase_seconds_count", {"phase": "commit"}) == 1
    assert value("lakeward_tierer_phase_seconds_count", {"phase": "lease"}) == 0
    assert value("lakeward_tierer_slots") == 4


def test_upkeep_rounds_are_counted_apart_and_what_upkeep_did_in_any_round() -> None:
    registry, scene = CollectorRegistry(), new_scene()
    metrics, assignment = TiererMetrics(registry, HandClock(), slots=4, ready_ms=60_000), scene.assignment()
    rewritten = RoundStats(upkeep=UpkeepStats(bytes_read=300, bytes_written=200, snapshots_expired=2))
    for upkeep in (None, UpkeepOrder()):
        metrics.round_started(assignment)
        metrics.round_ended(replace(assignment, upkeep=upkeep), RoundOutcome(RoundState.SUCCEEDED, stats=rewritten), 2_000)
    value = registry.get_sample_value
    assert value("lakeward_tierer_rounds_total", {"state": "SUCCEEDED"}) == 1
    assert value("lakeward_tierer_upkeep_rounds_total", {"state": "SUCCEEDED"}) == 1
    assert (value("lakeward_tierer_round_seconds_count"), value("lakeward_tierer_upkeep_seconds_count")) == (1, 1)
    assert (value("lakeward_tierer_upkeep_bytes_read_total"), value("lakeward_tierer_upkeep_bytes_written_total")) == (600, 400)
    assert value("lakeward_tierer_snapshots_expired_total") == 4


def test_a_tierer_is_ready_while_the_coordinator_answers() -> None:
    clock = HandClock()
    metrics = TiererMetrics(CollectorRegistry(), clock, slots=1, ready_ms=60_000)
    assert metrics.not_ready() == "the coordinator has not answered yet"
    metrics.heartbeat_failed()
    assert metrics.not_ready() is not None
    metrics.heartbeat_answered()
    clock.advance(60)
    assert metrics.not_ready() is None
    clock.advance(1)
    assert metrics.not_ready() == "the coordinator has not answered for 61 s"


def test_every_metric_of_the_tierer_is_declared_and_scraped() -> None:
    registry = CollectorRegistry()
    TiererMetrics(registry, HandClock(), slots=1, ready_ms=1)
    scraped = {family.name for family in registry.collect()}
    assert scraped == {metric.name.removesuffix("_total") for metric in METRICS if metric.process is Process.TIERER}


def test_a_scrape_has_only_declared_series() -> None:
    registry, scene = CollectorRegistry(), new_scene()
    TiererMetrics(registry, HandClock(), slots=1, ready_ms=1).round_ended(scene.assignment(), scene.run(), 10)
    assert "_created" not in generate_latest(registry).decode()
