"""Records of tables as some story may have left them, drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

from support.worlds.coordinator_world import World
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import ErrorInfo, Pause, RoundRecord, TableRecord, Trigger
from tiering.model.rounds import RoundState
from tiering.model.states import TableState


def disturbed(record: TableRecord, seed: random.Random, world: World) -> TableRecord:
    """The record as some story may have left it."""
    now = world.coordinator.table_records.now()

    def maybe(value: Any) -> Any:
        return value if seed.random() < 0.6 else None

    state = seed.choice([state for state in TableState if state is not TableState.NEW])
    error = ErrorInfo("Boom", "it broke", maybe("READ"), seed.choice(["", "mend it"]), seed.random() < 0.5, now.wall)
    running_round = RoundRecord(
        round_id=f"r{seed.randrange(1_000)}",
        table_id=record.table_id,
        database_name=record.database_name,
        table_name=record.table_name,
        tiering_epoch=seed.randrange(9),
        coordinator_epoch=1,
        trigger=Trigger.SCHEDULE,
        state=seed.choice(list(RoundState)),
        pending_time=now.wall,
        tierer_id=maybe("tierer-1"),
        started_time=maybe(now.wall - timedelta(seconds=3)),
        splits_total=maybe(4),
        splits_done=maybe(1),
    )
    return replace(
        record,
        state=state,
        tiering_epoch=running_round.tiering_epoch,
        round=running_round if state is TableState.TIERING else maybe(running_round),
        error=maybe(error),
        error_count=seed.randrange(5),
        consecutive_failures=seed.randrange(5),
        freshness_ms=seed.choice([record.freshness_ms, 1_000, 900_000]),
        retry_deadline=maybe(now.after(seed.randrange(-5_000, 90_000_000))),
        due_deadline=maybe(now.after(seed.randrange(-5_000, 20_000_000))),
        heartbeat_time=maybe(now.wall - timedelta(seconds=seed.randrange(60))),
        last_tiered_time=maybe(now.wall),
        last_checked_time=maybe(now.wall),
        last_round_duration_ms=maybe(12),
        pause=maybe(Pause("ann", maybe("lunch"), now.wall, maybe(now.after(60_000)))),
        lake=replace(record.lake, snapshot_id=maybe(7), records=maybe(3), size_bytes=maybe(2**40), files=maybe(1)),
    )


def disturb(world: World, seed: random.Random, tables: int = 9) -> None:
    """Changes the records of some tables that are not removed."""
    table_records = world.coordinator.table_records
    with table_records.changing():
        chosen = seed.sample(table_records.live(), tables)
        table_records.put(*(Change(disturbed(record, seed, world), durable=False) for record in chosen))
