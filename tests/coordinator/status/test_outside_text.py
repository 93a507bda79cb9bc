"""Text of peers and callers, where it enters the coordinator: cut, redacted, without control characters, and in no time."""

from __future__ import annotations

import time

import pytest

from support.services.procedure_arguments import call_fields
from support.services.served import Served, error_of, over_grpc
from support.worlds.coordinator_world import World
from tiering.access.request_bounds import ID_LIMIT, caller_name, check_id
from tiering.cluster.lease_rules import check_lease
from tiering.errors import InvalidArgument, LakeUnavailable, RoundFailed
from tiering.model.tables import TablePath
from tiering.procedures.cancel_tiering import CancelTiering
from tiering.procedures.pause_tiering import PauseTiering
from tiering.redaction.redact import MESSAGE_LIMIT
from tiering.rpc.v1 import coordinator_pb2
from tiering.rpc.v1.control_pb2 import CallProcedureRequest
from tiering.wire import error_status
from tiering.wire.errors import error_to_pb

SECRET = "hunter2Xq9"
HOSTILE = f"password={SECRET} \x1b[2J\u202e"
STEERING = set("\x1b\u202e")
PATH = TablePath("sales", "orders")


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("unit", ["a.", "pwd_", "-----BEGIN PRIVATE KEY-----", "a://", "token."])
def test_a_message_of_megabytes_costs_no_time(world: World, unit: str) -> None:
    tierer, assignment = world.assigned()
    message = unit * (3_000_000 // len(unit))
    begun = time.process_time()
    tierer.fail(assignment, error_message=message, error_hint=message, error_class=message)
    assert time.process_time() - begun < 0.5
    error = world.record().error
    assert error is not None
    assert len(error.message) <= MESSAGE_LIMIT
    assert len(error.hint) <= MESSAGE_LIMIT
    assert len(error.error_class) <= 200


def test_what_a_tierer_says_is_stored_clean(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_message=HOSTILE, error_hint=HOSTILE, error_class=HOSTILE, error_phase=HOSTILE)
    error = world.record().error
    assert error is not None
    for text in (error.message, error.hint, error.error_class, str(error.phase)):
        assert SECRET not in text
        assert not STEERING & set(text)


@pytest.mark.parametrize(
    "error", [LakeUnavailable(HOSTILE * 1_000, hint=HOSTILE * 1_000, path=HOSTILE * 1_000), ValueError(HOSTILE * 1_000)]
)
def test_every_error_is_clean_wherever_it_goes(error: Exception) -> None:
    pb = error_to_pb(error)
    texts = [pb.message, pb.hint, error_status.error_status(error).message, *pb.ids.values()]
    if isinstance(error, LakeUnavailable):
        texts += [error.message, error.hint, str(error)]
    for text in texts:
        assert SECRET not in text
        assert not STEERING & set(text)
        assert len(text) <= MESSAGE_LIMIT + 100
    assert error_status.error_status(error).ByteSize() < 4_096


def test_a_class_from_outside_is_clean() -> None:
    assert not STEERING & set(RoundFailed("x", cause_class=HOSTILE).error_class)


def test_words_of_a_caller_are_cut_and_clean() -> None:
    pause = PauseTiering(path=PATH, caller="x" * 3_000_000, reason=HOSTILE)
    cancel = CancelTiering(round_id="1", caller=HOSTILE + "\n", message=HOSTILE * 10)
    with pytest.raises(InvalidArgument, match="message has at most"):
        CancelTiering(round_id="1", caller="alice", message=HOSTILE * 1_000)
    assert len(pause.caller) <= 200
    assert len(cancel.message or "") <= MESSAGE_LIMIT
    for text in (str(pause.reason), str(cancel.message), cancel.caller):
        assert SECRET not in text
        assert not STEERING & set(text)
    assert "\n" not in cancel.caller
    assert caller_name("") == "anonymous"


@pytest.mark.parametrize("text", ["", "k" * (ID_LIMIT + 1), "a\x1b", "a\nb", "a\u202e", "a\ud800"])
def test_an_id_that_cannot_be_is_refused(text: str) -> None:
    for check in (lambda: check_id(text, "an id"), lambda: check_lease(text, 1_000)):
        with pytest.raises(InvalidArgument):
            check()


def test_ids_and_callers_are_checked_where_requests_enter() -> None:
    async def test(served: Served) -> None:
        for tierer_id in ("t" * 3_000_000, "t\x1b"):
            tierer = coordinator_pb2.PbTierer(tierer_id=tierer_id, sequence=1)
            _, error = await error_of(served.tierers.LakeTieringHeartbeat(coordinator_pb2.LakeTieringHeartbeatRequest(tierer=tierer)))
            assert isinstance(error, InvalidArgument)
        tierer = coordinator_pb2.PbTierer(tierer_id="t", sequence=1, host=HOSTILE, application_id="a" * 100_000, version="\x1b")
        await served.tierers.LakeTieringHeartbeat(coordinator_pb2.LakeTieringHeartbeatRequest(tierer=tierer))  # type: ignore[misc]
        [known] = served.world.coordinator.heartbeats.tierers.all()
        assert SECRET not in known.host
        assert len(known.application_id) <= 200
        assert not STEERING & set(known.host + known.version)
        call = served.control.CallProcedure(
            CallProcedureRequest(**call_fields("tier_table", table="sales.orders"), caller=HOSTILE, idempotency_key="k\x1b")
        )
        _, error = await error_of(call.read())
        assert isinstance(error, InvalidArgument)
        assert not STEERING & set(error.message)

    over_grpc(test)
