"""A whole deployment in one process over a real Iceberg lake: cluster, coordinator, and rounds that a test steps through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from support.background import tick
from support.lake_kinds.by_hand import LakeByHand, lake_by_hand
from support.lake_kinds.kinds import LakeKind
from support.lakes.lake_proof import assert_every_offset_once
from support.worlds.coordinator_world import HandClock
from support.worlds.leases import DirectLeaseCalls, keeper
from support.worlds.memory_store import MemoryStore
from tiering.clock import RandomIds
from tiering.cluster.base import ClusterOwner
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.store import Store
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.tierers.leases import Leases
from tiering.lake.base import LakeView
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.layouts import Layout
from tiering.lake.maintenance import SecondCatalog
from tiering.lake.marker import Marker
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.lake.table_options import LAYOUT
from tiering.model.rounds import Assignment, Phase
from tiering.model.tables import Offsets, TableInfo, TablePath
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.round.messages import RoundReport, ack_to_pb, plan_to_pb, progress_to_pb, proposed_commit_to_pb, report_answer, report_to_pb
from tiering.round.ports import HeartbeatCall, ProgressReport, ProposedCommit, ReportAnswer, TaskRunner
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps import actions as act
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.validate.results import Level
from tiering.validate.run import validate
from tiering.wire.errors import error_from_pb
from tiering.wire.model_codecs import ASSIGNMENT

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
PRIMARY_KEY_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
FRESHNESS_S = 60
TIERER = "tierer-1"


class DirectTransport(DirectLeaseCalls):
    """A `Transport` that calls the coordinator. `lose_acks`: the lake commits, the coordinator never hears of it."""

    def __init__(self, coordinator: Callable[[], Coordinator]) -> None:
        self._coordinator = coordinator
        self.lose_acks = False

    def lease_service(self) -> Leases:
        return self._coordinator().leases

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        raise AssertionError("a round sends no heartbeat")

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        self._coordinator().commits.record_plan(plan_to_pb(assignment, TIERER, lake_table_uuid, stops, splits, passed_head))

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        answer = self._coordinator().commits.begin_lake_commit(proposed_commit_to_pb(assignment, TIERER, proposed))
        if not answer.granted:
            raise error_from_pb(answer.error)
        return dict(answer.snapshot_properties)

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        if self.lose_acks:
            raise ConnectionError("the ack was lost")
        self._coordinator().commits.commit_lake_snapshot(ack_to_pb(assignment, TIERER, marker, lake_snapshot_id))

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        answered(report_answer(self._coordinator().progress.report(progress_to_pb(assignment, TIERER, phase, report))))


@dataclass
class SteppedRound:
    """One round of the one tierer."""

    world: InlineDeployment
    assignment: Assignment
    runner: RoundRunner

    def advance_to(self, action: type[act.Action]) -> SteppedRound:
        """Carries out everything before the first `action`."""
        while not isinstance(self.runner.next_action, action):
            assert self.runner.advance() is None
        return self

    def end(self) -> act.RoundOutcome:
        """To its end; the coordinator is told."""
        outcome = self.runner.run()
        report = RoundReport(self.assignment, outcome)
        reports = {"finished_tables": [report_to_pb(report)]} if report.finished else {"failed_tables": [report_to_pb(report)]}
        self.world.beat(**reports)
        return outcome


class InlineDeployment:
    """One coordinator over a cluster and a lake, and one tierer whose rounds a test steps through. A subclass says which cluster."""

    coordinator: Coordinator
    lake_format = "iceberg"
    """The lake format of the deployment."""
    second_catalog: SecondCatalog | None = None
    """The catalog in which coordinators that start later publish."""

    def __init__(self, lake_properties: Mapping[str, str], store: Store | None = None) -> None:
        self.clock = self.make_clock()
        self.lake_properties = dict(lake_properties)
        self.lake: IcebergLake = self._open_lake()
        self.store = store or MemoryStore()
        self.transport = DirectTransport(lambda: self.coordinator)
        self._sequence = 0
        self._epoch = 0
        self.spark: TaskRunner | None = None
        """Runs all rounds if it is given; else they run inline."""

    def make_clock(self) -> Any:
        """The clock of the cluster and the coordinator."""
        return HandClock()

    def _open_lake(self) -> Any:
        return IcebergLake(self.lake_properties)

    @property
    def owner(self) -> ClusterOwner:
        """The cluster, as it is now."""
        raise NotImplementedError

    def _start(self) -> Coordinator:
        coordinator = Coordinator(
            self.store,
            self.owner,
            lambda _: self.lake,
            CoordinatorOptions(lake_format=self.lake_format),
            clock=self.clock,
            ids=RandomIds(),
            jitter=lambda: 0.0,
            validator=lambda call, started: self.validate(call),
            second_catalog=self.second_catalog,
        )
        tick(coordinator)
        return coordinator

    def validate(self, call: ValidateTable) -> Sequence[CheckResult]:
        """Runs `CALL sys.validate_table` in this process."""
        level = Level[call.level.upper()]
        return list(validate(self.owner, self.lake, call.path, level, call.snapshot_id))

    def restart(self, down_s: float = 0) -> None:
        """The coordinator's process ends, and another one takes over after this time."""
        self.coordinator.close()
        if down_s:
            self.clock.advance(down_s)
        self.coordinator = self._start()

    def close(self) -> None:
        self.coordinator.close()
        self.owner.close()

    def beat(self, **fields: Any) -> pb.LakeTieringHeartbeatResponse:
        self._sequence += 1
        tierer = pb.PbTierer(tierer_id=TIERER, sequence=self._sequence, started_at_ms=1)
        answer, _ = self.coordinator.heartbeats.handle(pb.LakeTieringHeartbeatRequest(tierer=tierer, **fields))
        self._epoch = answer.coordinator_epoch
        return answer

    def due(self) -> None:
        """All freshness is over."""
        self.clock.advance(FRESHNESS_S + 1)
        tick(self.coordinator)

    def begin(self, table: TableInfo, **changes: Any) -> SteppedRound:
        """The table's next round, not begun yet: it must be due, and the only one. `changes` are made to its assignment."""
        answer = self._request_table(table)
        assert answer.HasField("tiering_table"), self.record(table).state
        assert answer.tiering_table.table_id == table.table_id
        return self._stepped(answer, **changes)

    def tier_all(self, **changes: Any) -> None:
        """A round of each table that is due, one after the other. `changes` are made to their assignments."""
        self.due()
        while (answer := self.beat(request_table=True)).HasField("tiering_table"):
            assert self._stepped(answer, **changes).end().error is None

    def _stepped(self, answer: pb.LakeTieringHeartbeatResponse, **changes: Any) -> SteppedRound:
        assignment = replace(ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch), **changes)
        inline, limit = InlineTaskRunner(), 1 << 40 if self.spark is None else 0
        runners = (inline, self.spark or inline)
        world = RoundEnvironment(
            self.transport, self.owner, lambda _: self.lake, *runners, self.clock, RandomIds(), limit, keeper(self.transport)
        )
        return SteppedRound(self, assignment, RoundRunner(world, assignment))

    def _request_table(self, table: TableInfo) -> pb.LakeTieringHeartbeatResponse:
        return self.beat(request_table=True)

    def tier(self, table: TableInfo) -> act.RoundOutcome:
        """A whole round, now."""
        self.due()
        return self.begin(table).end()

    def record(self, table: TableInfo) -> TableRecord:
        record = self.coordinator.table_records.get(table.table_id)
        assert record is not None
        return record

    def view(self, table: TableInfo) -> LakeView:
        view = self.lake.view(table.path)
        assert view is not None
        return view

    def iceberg(self, table: TableInfo) -> Table:
        """Loads the table as a user does, beside Lakeward."""
        return self.iceberg_catalog().load_table(str(table.path))

    def iceberg_catalog(self) -> Catalog:
        """The lake's catalog, as a user opens it."""
        return load_catalog("lake", **self.lake_properties)


class LakeWorld(InlineDeployment):
    """On the embedded cluster, with tables of SCHEMA. `kind`: of their lake tables, where that is what a test is about.
    `lake_properties`: of a lake elsewhere than in `folder`."""

    def __init__(
        self, folder: Path, store: Store | None = None, kind: LakeKind | None = None, lake_properties: Mapping[str, str] | None = None
    ) -> None:
        if kind is not None:
            self.lake_format = kind.format
        self.lake_options: Mapping[str, str] = {LAYOUT.name: Layout.SYSTEM_COLUMNS} if kind is None else kind.options
        super().__init__(local_lake_properties(folder) if lake_properties is None else lake_properties, store)
        self.storage = self._open_cluster(folder / "cluster")
        self.coordinator = self._start()

    def _open_lake(self) -> Any:
        return open_lake(self.lake_format, self.lake_properties)

    @property
    def by_hand(self) -> LakeByHand:
        """The lake, as a user's other programs see and change it."""
        return lake_by_hand(self.lake_format, self.lake_properties)

    def _open_cluster(self, folder: Path) -> EmbeddedStorage:
        return EmbeddedStorage(folder, self.clock, RandomIds(), self.lake.check_schema)

    @property
    def owner(self) -> ClusterOwner:
        return self.storage

    def reopen(self) -> None:
        """After `close`: cluster and coordinator start again."""
        self.storage = EmbeddedStorage(self.storage.root, self.clock, RandomIds())
        self.coordinator = self._start()

    def table(
        self,
        name: str,
        buckets: int = 2,
        partition_keys: tuple[str, ...] = (),
        schema: pa.Schema = SCHEMA,
        bucket_keys: tuple[str, ...] = (),
        **options: str,
    ) -> TableInfo:
        """A new lake-enabled log table. An option `log_ttl` is `table.log.ttl`."""
        path = TablePath("sales", name)
        self.storage.create_database(path.database_name, ignore_if_exists=True)
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{FRESHNESS_S} s", **self.lake_options}
        properties |= {f"table.{name.replace('_', '.')}": value for name, value in options.items()}
        more: dict[str, Any] = {"partition_keys": partition_keys} if partition_keys else {}
        table = self.storage.create_table(path, TableSpec(schema, buckets, bucket_keys, properties=properties, **more))
        tick(self.coordinator)
        return table

    def primary_key_table(
        self,
        name: str,
        buckets: int = 2,
        schema: pa.Schema = PRIMARY_KEY_SCHEMA,
        key: tuple[str, ...] = ("id",),
        partition_keys: tuple[str, ...] = (),
        **options: str,
    ) -> TableInfo:
        """A new lake-enabled primary-key table. An option `log_ttl` is `table.log.ttl`."""
        path = TablePath("sales", name)
        self.storage.create_database(path.database_name, ignore_if_exists=True)
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{FRESHNESS_S} s", **self.lake_options}
        properties |= {f"table.{name.replace('_', '.')}": value for name, value in options.items()}
        more: dict[str, Any] = {"partition_keys": partition_keys} if partition_keys else {}
        table = self.storage.create_table(path, TableSpec(schema, buckets, properties=properties, primary_key=key, **more))
        tick(self.coordinator)
        return table

    def append(self, table: TableInfo, start: int, count: int) -> None:
        """Rows `start .. start+count-1`, half of them to each of two buckets."""
        writer = LogWriter(self.storage, table.path, f"test-{start}")
        for first, last in ((start, start + count // 2), (start + count // 2, start + count)):
            writer.append(pa.table({"id": range(first, last), "text": [f"row {number}" for number in range(first, last)]}, schema=SCHEMA))

    def ends(self, table: TableInfo) -> dict[int, int]:
        return {bucket.bucket_id: log.log_end for bucket, log in self.storage.offsets(table).items()}

    def assert_exact(self, table: TableInfo) -> pa.Table:
        """The lake has every offset of the log once."""
        return assert_every_offset_once(self.lake_properties, table.path, self.ends(table), self.lake_format)
