"""Stories of a small deployment, drawn from a seed: tables, rows, rounds, CALLs, deaths and damage in any order, and a model of the rows.

Everything is real but the processes: embedded cluster, coordinator over SQLite, rounds, lake. `Story.heal` then does what the
printed hints say until nothing is left to do; `Story.prove` compares.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from support.background import tick
from support.lake_kinds.kinds import LakeKind
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import FRESHNESS_S, SteppedRound
from support.worlds.leases import keeper
from support.worlds.validated import check, faults
from tiering import errors
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import TableSpec
from tiering.coordinator.calls.cancel_tiering import CancelTiering
from tiering.coordinator.calls.lake_repair.reconcile_lake import ReconcileLake
from tiering.coordinator.calls.lake_repair.sweep_lake import SweepLake
from tiering.coordinator.calls.pause_tiering import PauseTiering
from tiering.coordinator.calls.reset_errors import ResetErrors
from tiering.coordinator.calls.resume_tiering import ResumeTiering
from tiering.coordinator.calls.retry_tiering import RetryTiering
from tiering.coordinator.calls.skip_record import SkipRecord
from tiering.coordinator.calls.tier_table import TierTable
from tiering.model.tables import TableInfo, TablePath
from tiering.round.runner import RoundRunner, RoundWorld
from tiering.round.steps import actions as act
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.wire.rounds import assignment_from_pb

NAMES = ("a", "b")
REGIONS = ("eu", "us", "asia")
MAX_BACKOFF_S = 301
HEALING_ROUNDS = 12
FRESH_ROWS = 0.7
"""How often a round finds something new for sure."""
STOPS = (act.ReadLake, act.EnsureLakeTable, act.RecordPlan, act.RunSplits, act.BeginCommit, act.CommitLake, act.Ack)

Row = tuple[int, str, str | None]
"""id, region, text."""

_RENAME = re.compile(r"Rename or drop the lake table \S+ in the lake's catalog")
_RECONCILE = re.compile(r"CALL sys\.reconcile_lake\('(?P<table>[^']+)', '(?P<action>\w+)'\)")


@dataclass
class Model:
    """What a table holds by now, and what its lake may hold beside that."""

    info: TableInfo
    has_primary_key: bool
    partitioned: bool
    rows: dict[tuple[str, int], Row] = field(default_factory=dict)
    """By region and id."""
    former: Counter[Row] = field(default_factory=Counter)
    """Of dropped partitions: the lake keeps what was tiered of them, as it was then."""
    left_out: bool = False
    """Whether a reconciliation said that it leaves records out."""


class Story:
    """One of them. Steps are methods; `log` tells what was done."""

    def __init__(self, folder: Path, seed: int, kind: LakeKind) -> None:
        self.rng = random.Random(seed)
        self.world = FolderWorld(folder, kind)
        self.world.storage.create_database("sales")
        self.models: dict[str, Model] = {}
        self.abandoned: list[SteppedRound] = []
        self.log: list[str] = []
        self._numbers = itertools.count(1)
        self.unclear: list[str] = []
        """Errors that no user could do anything about."""

    def close(self) -> None:
        self.world.close()

    def tell(self, steps: int) -> None:
        """Draws and does so many."""
        self.create()
        for _ in range(steps):
            (step,) = self.rng.choices(list(STEPS), weights=list(STEPS.values()))
            self.attempt(step.__name__, lambda step=step: step(self))  # type: ignore[misc]

    def attempt(self, action: str, do: Callable[[], object]) -> object:
        """An error of Lakeward's is an answer; any other ends the story."""
        try:
            result = do()
        except errors.LakewardError as error:
            self.log.append(f"{action}: {error.error_class}: {error.message} [{error.hint}]")
            self._judge(error)
            return error
        if result is not None:
            self.log.append(f"{action}: {result}")
        return result

    def _judge(self, error: errors.LakewardError) -> None:
        if not hasattr(errors, error.error_class):
            self.unclear.append(f"{error.error_class}: {error.message}")
        if isinstance(error, errors.PermanentTieringError) and not error.hint:
            self.unclear.append(f"no hint: {error.error_class}: {error.message}")

    def pick(self) -> Model:
        if not self.models:
            self.create()
        return self.models[self.rng.choice(sorted(self.models))]

    # tables

    def create(self) -> str | None:
        free = [name for name in NAMES if name not in self.models]
        if not free:
            return None
        name, rng = self.rng.choice(free), self.rng
        has_primary_key, partitioned = rng.random() < 0.5, rng.random() < 0.5
        schema = pa.schema(
            [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
        )
        partition_keys = ("region",) if partitioned else ()
        properties = {
            "table.datalake.enabled": "true" if rng.random() < 0.8 else "false",
            "table.datalake.freshness": f"{FRESHNESS_S} s",
            "table.kv.snapshot.interval": "365 d",
            **self.world.lake_options,
        }
        if not has_primary_key:
            del properties["table.kv.snapshot.interval"]
        key = (*partition_keys, "id") if partitioned else ("id",)
        spec = TableSpec(schema, rng.choice((1, 2)), (), properties, key if has_primary_key else (), partition_keys)
        info = self.world.storage.create_table(TablePath("sales", name), spec)
        self.models[name] = Model(info, has_primary_key, partitioned)
        return f"{name} has_primary_key={has_primary_key} partitioned={partitioned} {properties['table.datalake.enabled']}"

    def drop(self) -> str:
        model = self.pick()
        self.world.storage.drop_table(model.info.path)
        del self.models[model.info.path.table_name]
        return str(model.info.path)

    def switch(self) -> str:
        model = self.pick()
        wanted = "false" if self.rng.random() < 0.4 else "true"
        self.world.storage.alter_table(model.info.path, {"table.datalake.enabled": wanted})
        return f"{model.info.path} {wanted}"

    def add_column(self) -> str:
        model = self.pick()
        name = f"c{next(self._numbers)}"
        self.world.storage.alter_table(model.info.path, {}, [pa.field(name, self.rng.choice((pa.int32(), pa.string())))])
        return f"{model.info.path} {name}"

    def drop_partition(self) -> str | None:
        model = self.pick()
        if not model.partitioned:
            return None
        region = self.rng.choice(REGIONS)
        self.world.storage.drop_partition(model.info.path, region)
        for place in [place for place in model.rows if place[0] == region]:
            del model.rows[place]
        return f"{model.info.path} {region}"

    # rows

    def write(self) -> str:
        model, rng = self.pick(), self.rng
        number = next(self._numbers)
        ids = (
            rng.sample(range(12), rng.randrange(1, 8)) if model.has_primary_key else range(number * 100, number * 100 + rng.randrange(1, 8))
        )
        rows = [(key, rng.choice(REGIONS), rng.choice((f"text {number}", None))) for key in ids]
        table = pa.table(dict(zip(("id", "region", "text"), zip(*rows, strict=True), strict=True)), schema=_columns())
        storage = self.world.storage
        (storage.upsert if model.has_primary_key else storage.append)(model.info.path, table, f"writer-{number}", 0)
        for row in rows:
            model.rows[self._place(model, row)] = row
            model.former[row] += 1
        return f"{model.info.path} {rows}"

    def delete(self) -> str | None:
        model, rng = self.pick(), self.rng
        if not model.has_primary_key:
            return None
        places = [(rng.choice(REGIONS), key) for key in rng.sample(range(12), rng.randrange(1, 6))]
        columns = {"region": [region for region, _ in places], "id": pa.array([key for _, key in places], pa.int64())}
        keys = pa.table(columns if model.partitioned else {"id": columns["id"]})
        keys = keys.cast(pa.schema([pa.field(name, keys.schema.field(name).type, nullable=False) for name in keys.schema.names]))
        self.world.storage.delete(model.info.path, keys, f"writer-{next(self._numbers)}", 0)
        for region, key in places:
            model.rows.pop((region if model.partitioned else "", key), None)
        return f"{model.info.path} {places}"

    def _place(self, model: Model, row: Row) -> tuple[str, int]:
        return (row[1] if model.partitioned or not model.has_primary_key else "", row[0])

    def snapshot(self) -> str | None:
        model = self.pick()
        return f"{model.info.path} {len(self.world.storage.take_kv_snapshots(model.info.path))}" if model.has_primary_key else None

    # time and processes

    def wait(self) -> str:
        seconds = self.rng.choice((1, 30, FRESHNESS_S + 1, 200, MAX_BACKOFF_S))
        self.world.clock.advance(seconds)
        tick(self.world.coordinator)
        return f"{seconds} s"

    def restart(self) -> str:
        if self.rng.random() < 0.5:
            self.world.restart()
            return "coordinator"
        self.world.coordinator.close()
        self.world.storage.close()
        self.world.storage = _opened_again(self.world)
        self.world.coordinator = self.world._start()
        return "cluster and coordinator"

    # rounds

    def begin(self) -> SteppedRound | None:
        """Whatever is due."""
        world = self.world
        answer = world.beat(request_table=True)
        if not answer.HasField("tiering_table"):
            return None
        assignment = assignment_from_pb(answer.tiering_table, answer.coordinator_epoch)
        inline = InlineTaskRunner()
        parts = RoundWorld(
            world.transport, world.storage, lambda _: world.lake, inline, inline, world.clock, RandomIds(), 1 << 40, keeper(world.transport)
        )
        return SteppedRound(world, assignment, RoundRunner(parts, assignment))

    def tier(self) -> str | None:
        if self.rng.random() < FRESH_ROWS:
            self.attempt("write", self.write)
        self.world.clock.advance(FRESHNESS_S + 1)
        tick(self.world.coordinator)
        taken = self.begin()
        return None if taken is None else self.end(taken)

    def end(self, taken: SteppedRound) -> str:
        outcome = taken.end()
        if outcome.error is not None:
            self._judge(outcome.error)
        return f"round of {taken.assignment.path}: {outcome.state} {outcome.error!r}"

    def lose_an_ack(self) -> str | None:
        self.world.transport.lose_acks = True
        try:
            return self.tier()
        finally:
            self.world.transport.lose_acks = False

    def abandon(self) -> str | None:
        """A round comes to some place, and is not heard of any more, for now."""
        if self.rng.random() < FRESH_ROWS:
            self.attempt("write", self.write)
        self.world.clock.advance(FRESHNESS_S + 1)
        tick(self.world.coordinator)
        taken = self.begin()
        if taken is None:
            return None
        stop = self.rng.choice(STOPS)
        while not isinstance(taken.runner.next_action, (stop, act.End)):
            if taken.runner.advance() is not None:
                break
        self.abandoned.append(taken)
        return f"{taken.assignment.path} before {type(taken.runner.next_action).__name__}"

    def come_back(self) -> str | None:
        """A tierer that was away goes on with its round."""
        return self.end(self.abandoned.pop(self.rng.randrange(len(self.abandoned)))) if self.abandoned else None

    # CALLs

    def call(self) -> str | None:
        rng, path = self.rng, self.pick().info.path
        key = rng.choice((None, None, f"key-{rng.randrange(4)}"))
        options: dict[str, Any] = {"caller": "ann", "dry_run": rng.random() < 0.2, "idempotency_key": key}
        control, now = self.world.coordinator.control, self.world.clock.now()
        until = rng.choice((None, now + timedelta(seconds=90), now + timedelta(days=4_000), now - timedelta(days=1)))
        rounds = [record.round.round_id for record in self.world.coordinator.table_records.live() if record.round] or ["none"]
        calls: list[Callable[[], Any]] = [
            lambda: control.perform(PauseTiering(path, "why", until, **options)),
            lambda: control.perform(ResumeTiering(path, None, **options)),
            lambda: control.perform(RetryTiering(path, **options)),
            lambda: control.perform(ResetErrors(path, **options)),
            lambda: control.perform(CancelTiering(rng.choice(rounds), "why", **options)),
            lambda: self._tier_call(TierTable(path, wait=False, **options)),
            lambda: self._reconcile(path, rng.choice(("accept", "adopt", "retier")), options["dry_run"]),
            lambda: control.perform(SkipRecord(path, rng.randrange(3), rng.randrange(9), rng.choice((None, "eu")), None, **options)),
            lambda: control.perform(
                SweepLake(rng.choice((None, path)), rng.choice((3_600_000, 86_400_000)), options["dry_run"], caller="ann")
            ),
        ]
        return str(_run(rng.choice(calls)()))

    async def _tier_call(self, call: TierTable) -> object:
        return [step async for step in self.world.coordinator.control.perform_with_progress(call)][-1]

    async def _reconcile(self, path: TablePath, action: str, dry_run: bool = False) -> object:
        result = await self.world.coordinator.control.perform(ReconcileLake(path, action, caller="ann", dry_run=dry_run))
        if result.outcome == "reconciled" and result.records_left_out != 0 and path.table_name in self.models:
            self.models[path.table_name].left_out = True
        return result

    # what others do in the lake

    def damage(self) -> str | None:
        path, by_hand = self.pick().info.path, self.world.by_hand
        if not by_hand.exists(path):
            return None
        action = self.rng.choice(("drop", "rename", "roll back", "untag", "compact"))
        line = by_hand.line(path)
        if action == "drop":
            by_hand.drop(path)
        elif action == "rename":
            by_hand.rename(path, f"former-{next(self._numbers)}")
        elif action == "untag" and self.world.lake_format == "iceberg":
            _untag(self.world.iceberg_catalog().load_table(str(path)))
        elif action == "compact" and line:
            by_hand.rewrite(path)
        elif action == "roll back" and len(line) > 1:
            by_hand.roll_back(path, line[-2])
        return f"{action} {path}"

    # the end

    def heal(self) -> None:
        """Resumes, enables, and follows hints until every table is Scheduled and has nothing left to tier."""
        tick(self.world.coordinator)
        for model in self.models.values():
            self.world.storage.alter_table(model.info.path, {"table.datalake.enabled": "true"})
            tick(self.world.coordinator)
            _run(self.world.coordinator.control.perform(ResumeTiering(model.info.path, None, caller="ann")))
        for _ in range(HEALING_ROUNDS):
            self.world.clock.advance(MAX_BACKOFF_S)
            tick(self.world.coordinator)
            while (taken := self.begin()) is not None:
                self.log.append(f"heal: {self.end(taken)}")
            stuck = [status for status in self.world.coordinator.view().table_statuses() if status.status != "Scheduled"]
            self.log += [
                f"heal: {status.table_name} {status.status} {status.error_class}: {status.last_error} [{status.error_hint}]"
                for status in stuck
            ]
            for status in stuck:
                if status.error_retryable is False:
                    self.follow(TablePath(status.database_name, status.table_name), status.error_hint or "")
            if not stuck and self.caught_up():
                return
        raise AssertionError("a table is stuck")

    def caught_up(self) -> bool:
        """Whether the lake has been told of every record there is."""
        for model in self.models.values():
            view = self.world.lake.view(model.info.path)
            tiered = (
                {} if view is None or view.marker is None else {bucket: progress.tiered for bucket, progress in view.marker.buckets.items()}
            )
            if any(ends.log_end > tiered.get(bucket, 0) for bucket, ends in self.world.storage.offsets(model.info).items()):
                return False
        return True

    def follow(self, path: TablePath, hint: str) -> None:
        """Does the first thing that a hint names, literally."""
        for _ in range(3):
            hinted_call = _RECONCILE.search(hint)
            assert hinted_call is not None, f"{path}: nothing to do in {hint!r}"
            assert hinted_call["table"] == str(path)
            rename = _RENAME.search(hint)
            table_is_there = self.world.by_hand.exists(path)
            if rename is not None and rename.start() < hinted_call.start() and table_is_there:
                self.world.by_hand.rename(path, f"former-{next(self._numbers)}")
            answer = self.attempt(
                f"follow {hinted_call['action']}", lambda hinted_call=hinted_call: _run(self._reconcile(path, hinted_call["action"]))
            )  # type: ignore[misc]
            if not isinstance(answer, errors.LakewardError):
                return
            hint = answer.hint
        raise AssertionError(f"{path}: hints go in a circle: {hint}")

    def prove(self) -> None:
        """Lake and model agree, Lakeward's own validation says so too, and nothing unclear was said on the way."""
        assert not self.unclear, self.unclear
        for model in self.models.values():
            view = self.world.lake.view(model.info.path)
            if view is None or view.head is None:
                assert not model.rows, f"{model.info.path}: no lake table"
                continue
            lake = self.world.by_hand.rows(model.info.path).to_pylist()
            held = Counter((row["id"], row["region"], row["text"]) for row in lake)
            expected = Counter(model.rows.values())
            if not model.left_out:
                assert not expected - held, f"{model.info.path}: the lake lacks {expected - held}"
                wrong = faults(check(self.world, model.info))
                assert not wrong, f"{model.info.path}: {wrong}"
            beside = held - expected
            if not model.partitioned:
                assert not beside or model.left_out, f"{model.info.path}: the lake has {beside} beside"
            assert not beside - model.former, f"{model.info.path}: nobody wrote {beside - model.former}"

    def end_of_all(self) -> None:
        """What was left in the store does not keep another coordinator from starting, and it says the same."""
        before = [(status.table_name, status.status) for status in self.world.coordinator.view().table_statuses()]
        self.world.restart()
        assert [(status.table_name, status.status) for status in self.world.coordinator.view().table_statuses()] == before


def _untag(table: Table) -> None:
    for tag in table.metadata.refs.keys() - {"main"}:
        table.manage_snapshots().remove_tag(tag).commit()


def _columns() -> pa.Schema:
    return pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), pa.field("text", pa.string())]
    )


def _opened_again(world: FolderWorld) -> EmbeddedStorage:
    return EmbeddedStorage(world.storage.root, world.clock, RandomIds(), world.lake.check_schema)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


STEPS: dict[Callable[[Story], object], int] = {
    Story.create: 3,
    Story.drop: 1,
    Story.switch: 2,
    Story.add_column: 2,
    Story.drop_partition: 2,
    Story.write: 9,
    Story.delete: 3,
    Story.snapshot: 3,
    Story.wait: 3,
    Story.restart: 2,
    Story.tier: 8,
    Story.lose_an_ack: 2,
    Story.abandon: 3,
    Story.come_back: 3,
    Story.call: 8,
    Story.damage: 3,
}
