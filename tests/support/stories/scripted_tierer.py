"""A tierer that moves nothing, over the service's own port: it takes a table, says what a test lets it say, and falls silent."""

from __future__ import annotations

import threading
from typing import Any

from support.running.processes import wait_for
from tiering.model.tables import Offsets
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.wire.channel import Connection
from tiering.wire.model_codecs import OFFSETS

CALL_SECONDS = 10
BEAT_SECONDS = 0.5


class ScriptedTierer:
    """One table at a time. `close` leaves its round alone, as a process that is killed does."""

    def __init__(self, uri: str, tierer_id: str) -> None:
        self.tierer_id = tierer_id
        self.assignment = pb.PbLakeTieringTableInfo()
        self._connection = Connection(uri)
        self._stub = TieringCoordinatorStub(self._connection.channel)
        self._sequence = 0
        self._epoch = 0
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat_on, name=f"heart of {tierer_id}", daemon=True)

    def take(self, table_id: int) -> None:
        """Waits until it is given this table; there must be no other that is due."""

        def is_given() -> bool:
            self.assignment.CopyFrom(self.beat(request_table=True).tiering_table)
            return self.assignment.table_id == table_id

        wait_for(f"{self.tierer_id} is given table {table_id}", is_given)

    def plan(self, stops: Offsets) -> None:
        """Says that the round will read each bucket up to there."""
        request = pb.RecordPlanRequest(round=self._round(), splits=len(stops))
        request.planned_stops.extend(OFFSETS.to_pb(stops))
        self._stub.RecordPlan(request, timeout=CALL_SECONDS)

    def report(self, records_done: int, records_total: int) -> None:
        """Says how far the round is."""
        progress = {"splits_total": 1, "records_done": records_done, "records_total": records_total}
        self._stub.ReportProgress(pb.ReportProgressRequest(round=self._round(), phase="READ", **progress), timeout=CALL_SECONDS)

    def live_on(self) -> None:
        """Sends heartbeats until the tierer is closed."""
        self._heart.start()

    def beat(self, **fields: Any) -> pb.LakeTieringHeartbeatResponse:
        """The next heartbeat."""
        self._sequence += 1
        tierer = pb.PbTierer(tierer_id=self.tierer_id, sequence=self._sequence, started_at_ms=1, host="worker", incarnation="scripted")
        running = [self._about()] if self.assignment.round_id else []
        message = pb.LakeTieringHeartbeatRequest(tierer=tierer, tiering_tables=running, **fields)
        answer: pb.LakeTieringHeartbeatResponse = self._stub.LakeTieringHeartbeat(message, timeout=CALL_SECONDS)
        self._epoch = answer.coordinator_epoch
        return answer

    def close(self) -> None:
        """Falls silent."""
        self._ended.set()
        if self._heart.is_alive():
            self._heart.join(CALL_SECONDS)
        self._connection.close()

    def _beat_on(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.beat()

    def _about(self) -> pb.PbHeartbeatReqForTable:
        known = self.assignment
        return pb.PbHeartbeatReqForTable(
            table_id=known.table_id, coordinator_epoch=self._epoch, tiering_epoch=known.tiering_epoch, round_id=known.round_id
        )

    def _round(self) -> pb.PbRound:
        known = self.assignment
        return pb.PbRound(
            table_id=known.table_id,
            coordinator_epoch=self._epoch,
            tiering_epoch=known.tiering_epoch,
            round_id=known.round_id,
            tierer_id=self.tierer_id,
            incarnation="scripted",
        )
