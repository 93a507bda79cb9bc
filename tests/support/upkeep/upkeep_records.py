"""Records of a table under upkeep, its rounds and the requests of callers, made by the pure rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from support.upkeep.upkeep_world import upkept_table
from support.worlds.coordinator_world import START
from tiering.coordinator.decisions.change import Context
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord
from tiering.coordinator.decisions.table_lifecycle import discover
from tiering.coordinator.decisions.upkeep import requests, rounds
from tiering.coordinator.decisions.upkeep.rounds import UpkeepWork
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.rounds import RoundStats
from tiering.model.upkeep import UpkeepOrder, UpkeepStats

OPTIONS = CoordinatorOptions()
FRESHNESS_MS = 3_600_000
TABLE = upkept_table(freshness_ms=FRESHNESS_MS)
ERROR = ErrorInfo("OSError", "no disk left", None, "", retryable=True, time=START)
WORK = UpkeepWork(UpkeepOrder(), "it is degraded")


def at(seconds: float, round_id: str = "r9") -> Context:
    moment = START + timedelta(seconds=seconds)
    return Context(Moment(moment, moment), 1, OPTIONS, round_id, principal="alice")


def resting(**fields: Any) -> TableRecord:
    """A table that was tiered and rests for its freshness."""
    record = discover(at(0), TABLE).record
    lake = replace(record.lake, snapshot_id=1, table_uuid="u", offsets={"0": 5}, backlog={})
    return replace(record, lake=lake, recent_rounds_ms=(1_000,), **fields)


def ended(record: TableRecord, seconds: float, upkeep: UpkeepStats, *, acked: bool = True) -> TableRecord:
    """The record after an upkeep round that committed, if `acked`, and ended well."""
    began = rounds.begin(at(seconds, f"round-{seconds}"), record, work_of(record), "t").record
    if acked:
        assert began.round is not None
        began = replace(began, round=replace(began.round, acked=True))
    return rounds.finish(at(seconds + 1), began, RoundStats(upkeep=upkeep)).record


def work_of(record: TableRecord) -> UpkeepWork:
    if not record.upkeep.requests:
        return WORK
    request = record.upkeep.requests[0]
    return UpkeepWork(request.order, "a caller", request)


def ask(record: TableRecord, order: UpkeepOrder, seconds: float = 0) -> tuple[TableRecord, str]:
    called = requests.request(at(seconds, f"q-{order.full}-{order.manifests}"), record, order, "rewrite_data_files")
    return called.change.record, called.round_id
