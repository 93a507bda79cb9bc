"""Requests, their retries, and the errors of calls without an answer: against servers that a test controls."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from support.clusters.scripted_fluss import EVERY_CALL, HANG_UP, ScriptedFluss, frame
from tiering.cluster.fluss.settings import PASSWORD_VARIABLE, FlussConnection
from tiering.cluster.fluss.wire.api import LEASES
from tiering.cluster.fluss.wire.connection import SERVER_FAILED
from tiering.cluster.fluss.wire.errors import error_code, error_of
from tiering.errors import (
    ClusterAccessDenied,
    ClusterUnavailable,
    Fenced,
    InvalidAnswer,
    InvalidArgument,
    KvSnapshotGone,
    PeerTooOld,
    UnknownPartition,
    UnknownTable,
)
from tiering.rpc.fluss import fluss_pb2 as pb

from .conftest import Opened

LIST_DATABASES, GET_TABLE_INFO, COMMIT, GET_LAKE_SNAPSHOT, HEARTBEAT, PREPARE, ACQUIRE = 1003, 1007, 1030, 1032, 1042, 1052, 1056
PATH = pb.PbTablePath(database_name="sales", table_name="orders")
LAKE_SNAPSHOT = pb.GetLakeSnapshotResponse(table_id=7, snapshot_id=9)


def in_turn(*answers: Message | bytes) -> Callable[[object], Message | bytes]:
    """The first answer to the first call, and so on; the last one from then on."""
    left = list(answers)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def without(*keys: int) -> dict[int, tuple[int, int]]:
    return {key: versions for key, versions in EVERY_CALL.items() if key not in keys}


def connected_to(server: ScriptedFluss, request_timeout_s: float = 30) -> FlussConnection:
    return FlussConnection((server.address,), request_timeout_s=request_timeout_s)


def test_a_server_that_is_too_old_is_told_what_it_lacks(opened: Opened) -> None:
    with ScriptedFluss(without(PREPARE, COMMIT)) as server, pytest.raises(PeerTooOld) as raised:
        opened(connected_to(server)).coordinator(pb.ListDatabasesRequest())
    assert "does not support CommitLakeTableSnapshot (1030), PrepareLakeTableSnapshot (1052)" in raised.value.message
    assert server.address in raised.value.message
    assert LIST_DATABASES not in server.received


def test_a_server_that_is_too_new_is_told_what_it_has_instead(opened: Opened) -> None:
    with ScriptedFluss({**EVERY_CALL, HEARTBEAT: (1, 2)}) as server, pytest.raises(PeerTooOld) as raised:
        opened(connected_to(server)).coordinator(pb.LakeTieringHeartbeatRequest())
    assert "version 0 of LakeTieringHeartbeat (1042) (it supports 1 to 2)" in raised.value.message
    assert HEARTBEAT not in server.received


def test_a_call_that_a_server_does_not_know_is_never_sent(opened: Opened) -> None:
    """The server would not answer the call. Calls that do not need it still work."""
    with ScriptedFluss(without(ACQUIRE), {LIST_DATABASES: lambda request: pb.ListDatabasesResponse()}) as server:
        client = opened(connected_to(server))

        assert not client.offers(*LEASES)
        with pytest.raises(PeerTooOld, match=r"does not support AcquireKvSnapshotLease \(1056\)"):
            client.coordinator(pb.AcquireKvSnapshotLeaseRequest(lease_id="l", lease_duration_ms=1))
        client.coordinator(pb.ListDatabasesRequest())
    assert ACQUIRE not in server.received


@pytest.mark.parametrize(
    ("key", "request_message"), [(COMMIT, pb.CommitLakeTableSnapshotRequest()), (HEARTBEAT, pb.LakeTieringHeartbeatRequest())]
)
def test_what_may_not_be_repeated_is_sent_once_though_its_answer_is_lost(opened: Opened, key: int, request_message: Message) -> None:
    with ScriptedFluss(answers={key: lambda request: HANG_UP}) as server:
        client = opened(connected_to(server))

        with pytest.raises(ClusterUnavailable, match="it closed the connection"):
            client.coordinator(request_message)
    assert server.received.count(key) == 1


def test_a_question_is_asked_again_when_its_answer_was_lost(opened: Opened) -> None:
    with ScriptedFluss(answers={GET_LAKE_SNAPSHOT: in_turn(HANG_UP, LAKE_SNAPSHOT)}) as server:
        answer = opened(connected_to(server)).coordinator(pb.GetLakeSnapshotRequest(table_path=PATH))
    assert answer == LAKE_SNAPSHOT
    assert server.received.count(GET_LAKE_SNAPSHOT) == 2


def test_an_answer_that_breaks_off_is_no_answer(opened: Opened) -> None:
    half = frame(0, 2, LAKE_SNAPSHOT.SerializeToString())[:-3]
    hanging_up = threading.Event()

    with ScriptedFluss(answers={COMMIT: lambda request: half if not hanging_up.is_set() else HANG_UP}) as server:
        client = opened(connected_to(server, request_timeout_s=1))

        with pytest.raises(ClusterUnavailable, match=r"did not answer CommitLakeTableSnapshot \(1030\) within 1 s"):
            client.coordinator(pb.CommitLakeTableSnapshotRequest())
    assert server.received.count(COMMIT) == 1


def test_after_silence_the_next_call_goes_over_a_new_connection(opened: Opened) -> None:
    never = threading.Event()
    answers = {HEARTBEAT: lambda request: never.wait() and b"", LIST_DATABASES: lambda request: pb.ListDatabasesResponse()}

    with ScriptedFluss(answers=answers) as server:
        client = opened(connected_to(server, request_timeout_s=0.5))
        with pytest.raises(ClusterUnavailable, match=r"within 0\.5 s"):
            client.coordinator(pb.LakeTieringHeartbeatRequest())
        client.coordinator(pb.ListDatabasesRequest())
        assert server.connections == 2
        never.set()


def test_a_slow_answer_delays_no_other_caller(opened: Opened) -> None:
    """Both calls share a connection: the second is answered while the first waits."""
    answered = threading.Event()

    def slow(request: object) -> Message:
        assert answered.wait(30)
        return LAKE_SNAPSHOT

    with ScriptedFluss(answers={GET_LAKE_SNAPSHOT: slow, LIST_DATABASES: lambda request: pb.ListDatabasesResponse()}) as server:
        client = opened(connected_to(server))
        client.coordinator(pb.ListDatabasesRequest())
        answers: list[Message] = []
        waiting = threading.Thread(target=lambda: answers.append(client.coordinator(pb.GetLakeSnapshotRequest(table_path=PATH))))
        waiting.start()
        client.coordinator(pb.ListDatabasesRequest())
        answered.set()
        waiting.join(30)
        assert answers == [LAKE_SNAPSHOT]
        assert server.connections == 1


def test_a_server_that_fails_fails_what_waits_for_it(opened: Opened) -> None:
    failure = frame(SERVER_FAILED, 0, pb.ErrorResponse(error_code=-1, error_message="out of memory").SerializeToString())

    with (
        ScriptedFluss(answers={COMMIT: lambda request: failure}) as server,
        pytest.raises(ClusterUnavailable, match="failed: out of memory"),
    ):
        opened(connected_to(server)).coordinator(pb.CommitLakeTableSnapshotRequest())


def test_an_answer_that_lacks_something_is_no_answer(opened: Opened) -> None:
    """Zero is a table's id, and must not come from an answer that has none."""
    lacking = pb.ListTablesResponse(table_name=["orders"])

    with ScriptedFluss(answers={GET_TABLE_INFO: lambda request: lacking}) as server, pytest.raises(InvalidAnswer) as raised:
        opened(connected_to(server)).coordinator(pb.GetTableInfoRequest(table_path=PATH))
    assert "answered GetTableInfo (1007) with a message without table_id, schema_id" in raised.value.message


def test_an_answer_that_cannot_be_read_is_said(opened: Opened) -> None:
    garbled = in_turn(frame(0, 2, b"\x0a\xff"))  # ApiVersions is request 1 of every connection

    with (
        ScriptedFluss(answers={1012: garbled}) as server,
        pytest.raises(InvalidAnswer, match=r"answered Metadata \(1012\) with a message that cannot"),
    ):
        opened(connected_to(server)).coordinator(pb.GetTableInfoRequest(table_path=PATH))


def test_a_cluster_without_a_coordinator_says_so(opened: Opened) -> None:
    with ScriptedFluss(answers={1012: lambda request: pb.MetadataResponse()}) as server:
        client = opened(FlussConnection((server.address,), patience_s=0.3))

        with pytest.raises(ClusterUnavailable, match="has no coordinator server now"):
            client.coordinator(pb.ListDatabasesRequest())


def test_a_coordinator_that_moved_is_found(opened: Opened) -> None:
    answers = {LIST_DATABASES: lambda request: pb.ListDatabasesResponse(), COMMIT: lambda request: pb.CommitLakeTableSnapshotResponse()}

    with ScriptedFluss(answers=answers) as first, ScriptedFluss(answers=answers) as second:
        client = opened(FlussConnection((first.address, second.address)))
        client.coordinator(pb.ListDatabasesRequest())
        first.close()
        client.coordinator(pb.ListDatabasesRequest())
        client.coordinator(pb.CommitLakeTableSnapshotRequest())
    assert second.received.count(COMMIT) == 1


def test_who_waits_hears_that_the_client_was_closed(opened: Opened) -> None:
    begun, never = threading.Event(), threading.Event()

    def hang(request: object) -> bytes:
        begun.set()
        never.wait(30)
        return HANG_UP

    errors: list[BaseException] = []
    with ScriptedFluss(answers={COMMIT: hang}) as server:
        client = opened(connected_to(server))

        def commit() -> None:
            with pytest.raises(ClusterUnavailable, match="was closed") as raised:
                client.coordinator(pb.CommitLakeTableSnapshotRequest())
            errors.append(raised.value)

        waiting = threading.Thread(target=commit)
        waiting.start()
        assert begun.wait(30)
        client.close()
        waiting.join(30)
        never.set()
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (7, UnknownTable),
        (36, UnknownPartition),
        (41, KvSnapshotGone),
        (46, ClusterAccessDenied),
        (50, Fenced),
        (23, Fenced),
        (39, InvalidArgument),
    ],
)
def test_a_code_has_its_class(code: int, kind: type) -> None:
    error = error_of(code, "because", table_id=3)

    assert type(error) is kind
    assert error.message == f"because (Fluss error {code})"
    assert error_code(error) == code
    assert error.ids["table_id"] == "3"


def test_a_code_of_a_later_version_is_tried_again() -> None:
    assert isinstance(error_of(999, "something new"), ClusterUnavailable)
    assert error_code(ClusterUnavailable("no server answers")) is None


def test_what_a_server_cannot_do_is_not_tried_again_and_a_lake_table_in_the_way_is_named() -> None:
    unsupported = error_of(-1, "java.lang.UnsupportedOperationException: Only one bucket key is supported for Iceberg at the moment")
    assert type(unsupported) is InvalidArgument
    assert "lake plugin" in str(unsupported.hint)
    assert type(error_of(-1, "java.lang.IllegalStateException: not now")) is ClusterUnavailable
    assert "rename or drop it" in str(error_of(54, "Table sales.orders already exists.").hint)


def test_a_server_that_never_heard_of_a_bucket_passes_or_is_helped_by_a_restart() -> None:
    error = error_of(12, "server 0 is not leader or follower for TableBucket{tableId=76, partitionId=15, bucket=0}")
    assert type(error) is ClusterUnavailable  # leaders move
    assert "restart Fluss's coordinator" in str(error.hint)


def test_a_java_stack_trace_is_cut_to_what_it_says() -> None:
    trace = "a.b.Failed: cannot\n\tat a.b.C.d(C.java:3)\n\tat java.base/x.Y.<init>(Y.java)\nCaused by: a.Gone: no file\n\t... 3 more\n"

    assert error_of(-1, trace).message == "a.b.Failed: cannot Caused by: a.Gone: no file (Fluss error -1)"


def test_a_connection_travels_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "Xq7-secret")
    connection = FlussConnection.parse("127.0.0.1:9123", "ada")

    pickled = pickle.dumps(connection)

    assert pickle.loads(pickled) == connection
    assert b"Xq7" not in pickled
    assert connection.password(os.environ) == "Xq7-secret"
