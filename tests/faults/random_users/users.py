"""Users of one deployment: what they type, what they do in the lake, and whom they kill; and the model of what they may then see.

Each step is a method that takes drawn numbers. A command that found no service is typed again, as a person would; each is safe to repeat.
Whatever ends as it must not is raised, with the story so far.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from faults.random_users.command_line import error_class, is_foreseen, lakeward, unclear
from faults.random_users.kept_deployment import COORDINATOR, TIERERS, KeptDeployment
from faults.random_users.lake_users import LakeUsers
from faults.random_users.model import KEYS, REGIONS, Row, Table

from support.lake_kinds.kinds import LAKE_KINDS
from support.running.commands import Ended
from support.running.processes import wait_for
from tiering import crash_points
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.client import LakewardClient
from tiering.errors import LakewardError, PermanentTieringError, ServiceUnreachable
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath

NAMES = ("orders", "clicks", "people")
TIER_MS = 8_000
PATIENCE_SECONDS = 90
"""A coordinator that dies at its start, and again, comes back within that."""
TIERER_POINTS = crash_points.IN_ROUND
COORDINATOR_POINTS = (
    *crash_points.IN_COORDINATOR,
    *crash_points.IN_TAKE_OVER,
    *crash_points.IN_RECONCILE,
    *crash_points.IN_SWEEP,
    *crash_points.IN_KV,
)
"""Without IN_SKIP: no record that users write is refused, so there is none to skip."""
REACHED_ONCE = (*crash_points.IN_TAKE_OVER, *crash_points.IN_SWEEP)
"""Points that are reached once in a coordinator's life, or in the sweep that `arm` requests."""
OFTEN_REACHED = 4
"""A process dies when it comes to another of its points for the first time, or for up to so many times."""
SYSTEM_TABLES = (
    "lake_tiering_status",
    "tiering_rounds",
    "lake_commits",
    "tiering_errors",
    "tiering_buckets",
    "tables",
    "tierers",
    "options",
)
DISCOVERY_SECONDS = 3
FENCED_SECONDS = 2.0
"""Seconds until a user stops a fenced tierer, as its log requests."""
LINE_LENGTH = 300
REPEAT_SECONDS = 0.2
QUIET_SECONDS = 60


class Users:
    """See the module."""

    def __init__(self, folder: Path) -> None:
        self.deployment = KeptDeployment(folder)
        self.tables: dict[str, Table] = {}
        self.story = self.deployment.story
        self._files = folder / "files"
        self._files.mkdir()
        self._number = 0
        self._begun = time.monotonic()
        self.lake = LakeUsers(self.deployment, self.tables)

    def start(self) -> None:
        """Returns when there is a service."""
        self.deployment.start()

    def close(self) -> None:
        """Ends all processes."""
        self.deployment.close()

    # how they type

    def note(self, line: str) -> None:
        self.story.append(f"{time.monotonic() - self._begun:6.1f} s  {line}")

    def number(self) -> int:
        """The next one; no two are the same."""
        self._number += 1
        return self._number

    def run(self, *words: str) -> Ended:
        """Runs a command, and repeats it while no service answers."""
        for _ in self._attempts():
            ended = lakeward(*words, "--uri", self.deployment.uri)
            self.note(f"  lakeward {' '.join(words)}: {ended.status} {_line(ended.err or ended.out)}")
            if (fault := unclear(ended)) is not None:
                raise AssertionError(f"lakeward {' '.join(words)}: {fault}: {ended.out} {ended.err}")
            if ended.status != ExitStatus.UNREACHABLE:
                return ended
        raise AssertionError(f"lakeward {' '.join(words)}: no service ever answers")

    def _attempts(self) -> Iterator[int]:
        """Counts useful attempts. Each but the first one waits until a service answers."""
        end = time.monotonic() + PATIENCE_SECONDS
        for attempt in itertools.count():
            yield attempt
            if time.monotonic() > end:
                return
            time.sleep(REPEAT_SECONDS)  # a process that was killed takes a moment to be gone
            self.deployment.wait_serving()

    def do(self, *words: str) -> Ended:
        """A command that must succeed."""
        ended = self.run(*words)
        assert ended.status == ExitStatus.DONE, f"lakeward {' '.join(words)}: {ended.status} {ended.out} {ended.err}"
        return ended

    def statuses(self) -> list[TableStatus]:
        """Returns the statuses of the Python client."""
        for _ in self._attempts():
            try:
                with LakewardClient(self.deployment.uri) as client:
                    return client.list_tiering_statuses()
            except ServiceUnreachable:
                continue
        raise AssertionError("no service ever answers")

    def look(self) -> None:
        """Checks that only damaged tables are broken."""
        assert not self.deployment.defects, self.deployment.defects
        for status in self.statuses():
            assert status.error_class is None or is_foreseen(status.error_class), (
                f"{status.table_name}: {status.error_class}: {status.last_error}"
            )
        if self._broken():
            time.sleep(DISCOVERY_SECONDS)  # what was dropped under a round is listed until the coordinator looks
            broken = self._broken()
            assert not broken, f"failed for good, and no user damaged it: {broken}"

    def _broken(self) -> list[str]:
        """Tables that nothing but a person can help, and that no person harmed."""
        harmed = {name for name, table in self.tables.items() if table.is_harmed}
        return [
            f"{status.table_name}: {status.error_class}: {status.last_error}"
            for status in self.statuses()
            if status.error_retryable is False and status.table_name not in harmed
        ]

    # tables

    def create(self, name: str, kind: int, has_primary_key: bool, partitioned: bool, buckets: int, rng: random.Random) -> None:
        """With its first rows."""
        path = TablePath("sales", name)
        table = Table(path, LAKE_KINDS[kind], has_primary_key, partitioned)
        table.is_harmed = self.lake.by_hand(table).exists(path)
        options = [word for option in table.kind.options.items() for word in ("--option", "=".join(option))]
        options += ["--buckets", str(buckets), "--freshness", "2 s"]
        options += ["--primary-key", ",".join(table.keys)] if has_primary_key else []
        options += ["--partition-by", "region"] if partitioned else []
        self._ingest(table, table.new_rows(rng, self.number()), rng, *options)
        self.tables[name] = table

    def drop(self, table: Table) -> None:
        """Drops the table. The source keeps nothing of it."""
        self._do_again("drop", str(table.path), "--yes")
        del self.tables[table.path.table_name]

    def drop_partition(self, table: Table, region: str) -> None:
        if not table.partitioned or region not in {row["region"] for row in table.rows.values()}:
            return
        self.note(f"  drops partition {region} of {table.path}")
        for _ in self._attempts():
            try:
                with self.deployment.cluster() as cluster:
                    if region in {partition.partition_name for partition in cluster.partitions(cluster.table(table.path))}:
                        cluster.drop_partition(table.path, region)
                break
            except ServiceUnreachable:
                continue
        table.drop_partition(region)

    def add_column(self, table: Table, by_ingest: bool, rng: random.Random) -> None:
        name = f"c{self.number()}"
        if by_ingest:
            table.added_columns.append(name)
            self._ingest(table, table.new_rows(rng, self.number()), rng, "--add-columns")
            return
        self._do_again("add-column", str(table.path), name, "STRING")
        table.added_columns.append(name)

    def _do_again(self, *words: str) -> None:
        """A command whose repeat is refused if it was done when its answer got lost."""
        lines = len(self.story)
        ended = self.run(*words)
        was_repeated = sum("lakeward " in line for line in self.story[lines:]) > 1
        assert ended.status == ExitStatus.DONE or (was_repeated and ended.status == ExitStatus.USAGE), f"{words}: {ended}"

    # rows

    def write(self, table: Table, rng: random.Random) -> None:
        self._ingest(table, table.new_rows(rng, self.number()), rng)

    def _ingest(self, table: Table, rows: Sequence[Row], rng: random.Random, *options: str) -> None:
        file = self._file(rows, table.columns, rng)
        self.do("ingest", str(table.path), str(file), "--writer-id", file.stem, *options)
        table.write(rows)

    def delete(self, table: Table, rng: random.Random) -> None:
        """Keys that are there and others."""
        if not table.has_primary_key:
            return
        keys = [{"region": rng.choice(REGIONS), "id": identity} for identity in rng.sample(KEYS, rng.randrange(1, 5))]
        file = self._file(keys, table.keys, rng)
        self.do("ingest", str(table.path), str(file), "--deletes", "--writer-id", file.stem)
        table.delete(keys)

    def _file(self, rows: Sequence[Row], columns: Sequence[str], rng: random.Random) -> Path:
        """In a format that is drawn. Its name is the writer's id."""
        name = f"write-{self.number()}"
        ending = rng.choice(("parquet", "csv", "ndjson"))
        file = self._files / f"{name}.{ending}"
        cells = [{column: row.get(column) for column in columns} for row in rows]
        if ending == "parquet":
            types = [pa.field(column, pa.int64() if column == "id" else pa.string()) for column in columns]
            pq.write_table(pa.Table.from_pylist(cells, schema=pa.schema(types)), file)
        elif ending == "ndjson" and any(all(row[column] is None for row in cells) for column in columns):
            return self._file(rows, columns, rng)  # the column's type could not be read
        elif ending == "ndjson":
            file.write_text("".join(f"{json.dumps(row)}\n" for row in cells))
        else:
            with file.open("w", newline="") as opened:
                writer = csv.DictWriter(opened, columns)
                writer.writeheader()
                writer.writerows(cells)
        return file

    # tiering

    def tier(self, table: Table, by_client: bool) -> None:
        if by_client:
            self._tell(f"tier_table {table.path}", lambda client: client.tier_table(table.path, timeout_ms=TIER_MS))
        else:
            self.run("tier", str(table.path), "--timeout-ms", str(TIER_MS))

    def _tell(self, words: str, call: object) -> object:
        """By the Python client."""
        for _ in self._attempts():
            try:
                with LakewardClient(self.deployment.uri) as client:
                    result = call(client)  # type: ignore[operator]
            except ServiceUnreachable:
                continue
            except LakewardError as error:
                self.note(f"  {words}: {error.error_class}: {error.message} [{error.hint}]")
                if isinstance(error, PermanentTieringError) and not error.hint:
                    raise AssertionError(f"{words}: no hint: {error!r}") from error
                return error
            else:
                self.note(f"  {words}: {result}")
                return result
        raise AssertionError(f"{words}: no service ever answers")

    def steer(self, table: Table, action: str) -> None:
        """Pause, resume, retry and the like. Of a table whose lake is disabled most of it is refused."""
        path = str(table.path)
        match action:
            case "pause for a moment":
                until = datetime.now(UTC) + timedelta(seconds=4)
                self.run("pause", path, "--until", until.isoformat(), "--reason", "why not")
            case "pause" | "resume":
                self.run(action, path)
            case "cancel":
                rounds = [status.round_id for status in self.statuses() if status.round_id is not None]
                for round_id in rounds[:1]:
                    self.run("cancel", round_id, "--message", "why not")
            case "disable" | "enable":
                self.do("set-option", path, f"table.datalake.enabled={'true' if action == 'enable' else 'false'}")
            case "freshness":
                self.run("set-freshness", path, f"{1 + self.number() % 3} s")
            case "reset errors":
                self._tell("reset_errors", lambda client: client.reset_errors(table.path))
            case "take kv snapshot":
                if table.has_primary_key:
                    self._tell("take_kv_snapshot", lambda client: client.take_kv_snapshot(table.path))
            case "fence":
                tierer_id = TIERERS[self.number() % len(TIERERS)]
                self.run("fence", tierer_id)
                self.kill(tierer_id, FENCED_SECONDS)  # it gets no more tables; its next process does
            case "tier now":
                self.run("tier", path, "--no-wait")
            case "wait":
                self.run("wait", path, "--timeout-ms", str(TIER_MS // 2))
            case _:
                self.run(action, path)

    def reconcile(self, table: Table, action: str, dry_run: bool) -> None:
        key = f"key-{self.number()}"
        ended = self.run(
            "reconcile", str(table.path), action, "--format", "json", "--idempotency-key", key, *(("--dry-run",) if dry_run else ())
        )
        if ended.status == ExitStatus.DONE and not dry_run:
            self.reconciled(table, json.loads(ended.out)[0])

    def reconciled(self, table: Table, row: Row) -> None:
        """Takes note of what a reconciliation leaves out."""
        if row["outcome"] != "reconciled":
            return
        if table.left_out is None or row["records_left_out"] is None:
            table.left_out = None
        else:
            table.left_out += row["records_left_out"]

    def sweep(self, table: Table | None, dry_run: bool) -> None:
        """No file is too young: what rounds that run, sleep or died may still commit is not told by its age."""
        words = ["sweep", "--older-than", "0 s", *(("--dry-run",) if dry_run else ()), *(() if table is None else (str(table.path),))]
        self.run(*words)

    # the lake

    def change_lake(self, table: Table, action: str, number: int, in_quiet: bool) -> None:
        """Changes the lake table. In quiet: while none of it is tiered, as the docs tell users who write to a lake table."""
        in_quiet |= self.lake.needs_quiet(table, action)
        if in_quiet:
            self.run("pause", str(table.path), "--reason", action)
            wait_for(f"no round of {table.path} runs", lambda: not self._is_tiering(table), QUIET_SECONDS)
        self.note(f"  in the lake: {action} {table.path}: {self.lake.change(table, action, number)}")
        if in_quiet:
            self.run("resume", str(table.path))

    def _is_tiering(self, table: Table) -> bool:
        return any(status.table_name == table.path.table_name and status.status == "Tiering" for status in self.statuses())

    # looking

    def read(self, number: int) -> None:
        """Something of `sys`, on whatever way there is."""
        name = SYSTEM_TABLES[number % len(SYSTEM_TABLES)]
        if number % 3 == 0:
            self.do("sql", "--engine", "duckdb", f"SELECT * FROM sys.{name}", "--format", "json")
        elif number % 3 == 1:
            self.do("status", "--format", "json")
        else:
            self.do("tables", "sales", "--format", "json")

    def explain(self, table: Table) -> None:
        self.run("explain", str(table.path), "--format", "json")

    def validate(self, table: Table) -> None:
        """The proof holds whenever it is taken, unless a user did something to the lake."""
        ended = self.run("validate", str(table.path), "--level", "rows", "--format", "json")
        if table.is_harmed or table.removed or table.is_unsure or table.left_out != 0:
            return
        if ended.status == ExitStatus.DONE:
            return
        wrong = [row for row in json.loads(ended.out) if row["ok"] is False] if ended.out else []
        assert not wrong, f"validate {table.path}: {wrong}"
        assert error_class(ended) != "DataCorrupt", f"validate {table.path}: {ended.err}"

    # whom they kill

    def kill(self, name: str, after_seconds: float) -> None:
        self.note(f"  kills {name} in {after_seconds} s")
        self.deployment.kill(name, after_seconds)

    def arm(self, name: str, number: int) -> None:
        points = COORDINATOR_POINTS if name == COORDINATOR else TIERER_POINTS
        point = points[number % len(points)]
        place = point if point in REACHED_ONCE else f"{point}@{1 + number // len(points) % OFTEN_REACHED}"
        self.note(f"  kills {name}, which will die at {place}")
        self.deployment.arm(name, place)
        if point in crash_points.IN_SWEEP:  # only a user sweeps, and few do
            self.sweep(None, dry_run=False)

    def doze(self, name: str, seconds: float) -> None:
        self.note(f"  stops {name} for {seconds} s")
        self.deployment.doze(name, seconds)

    def ingest_killed(self, table: Table, rng: random.Random, after_seconds: float) -> None:
        """The command itself dies, and is typed again with its writer's id."""
        rows = table.new_rows(rng, self.number())
        file = self._file(rows, table.columns, rng)
        words = ("ingest", str(table.path), str(file), "--writer-id", file.stem)
        process = self.deployment._start(*words, "--uri", self.deployment.uri)
        time.sleep(after_seconds)  # the moment at which it is killed
        process.close()
        self.note(f"  kills lakeward {' '.join(words)} after {after_seconds} s")
        self.do(*words)
        table.write(rows)


def _line(printed: str) -> str:
    """Returns the output on one line, without the frames of tables."""
    return " ".join(printed.encode("ascii", "ignore").decode().split())[:LINE_LENGTH]
