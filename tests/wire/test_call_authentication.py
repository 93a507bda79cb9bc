"""The service authenticates the caller before it reads a request: real gRPC, with tokens of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from support.services.served import at_uri
from support.worlds.coordinator_world import HandTierer, World
from tiering.access.audit import LINES, LINES_OF_A_HOST, REFUSED, AuditTrail, RefusedCallers
from tiering.access.authentication import OwnerToken, TokenAuthenticator
from tiering.access.client_access import ClientAccess, keep_user_token
from tiering.access.identity import Authentication, Identity
from tiering.access.line_limit import WINDOW_SECONDS
from tiering.access.tokens import TokenFile, add_token, new_token, revoke_token
from tiering.client import AsyncLakewardClient, LakewardClient
from tiering.errors import Fenced, Unauthenticated
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.rpc.v1.status_pb2 import ListTieringStatusesRequest
from tiering.rpc.v1.status_pb2_grpc import TieringStatusStub
from tiering.wire.channel import Connection
from tiering.wire.security.call_authentication import CallAuthentication

NOW = datetime(2026, 11, 24, tzinfo=UTC)


class Protected:
    """A world behind tokens: `ann`, `bob` and the service's owner."""

    def __init__(self, folder: Path) -> None:
        self.world = World(rows=1)
        self.file = folder / "tokens.json"
        self.folder = folder
        self.owner, _ = new_token("olga", NOW)
        owner = Identity("olga", Authentication.TOKEN, is_owner=True)
        self.interceptor = CallAuthentication(OwnerToken(self.owner, owner, TokenAuthenticator(TokenFile(self.file))))

    def token(self, principal: str) -> ClientAccess:
        token, stored = new_token(principal, NOW)
        add_token(self.file, stored)
        return self.shown(token)

    def shown(self, token: str) -> ClientAccess:
        file = self.folder / f"{abs(hash(token))}.token"
        file.write_text(token)
        return ClientAccess(token_file=file)

    @contextmanager
    def serving(self) -> Iterator[str]:
        with at_uri(self.world, self.interceptor) as uri:
            yield uri


@pytest.fixture
def protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protected:
    monkeypatch.setenv("LAKEWARD_HOME", str(tmp_path / "home"))
    return Protected(tmp_path)


def statuses(connection: Connection) -> int:
    with connection.calling():
        return len(TieringStatusStub(connection.channel).ListTieringStatuses(ListTieringStatusesRequest(), timeout=60).tiering_statuses)


def beat(connection: Connection, tierer: HandTierer, **fields: object) -> pb.LakeTieringHeartbeatResponse:
    with connection.calling():
        answer = TieringCoordinatorStub(connection.channel).LakeTieringHeartbeat(tierer.message(**fields), timeout=60)  # type: ignore[arg-type]
    tierer.epoch = answer.coordinator_epoch
    return answer


def test_a_call_without_a_token_is_refused_and_health_is_free(protected: Protected) -> None:
    with protected.serving() as uri, Connection(uri) as connection, grpc.insecure_channel(uri) as channel:
        with pytest.raises(Unauthenticated, match="has no token"):
            statuses(connection)
        assert HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60).status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("header", ["lw_a_b", "Basic YTpi", "Bearer ", "Bearer lw_a_b", "Bearer " + "x" * 7_000])
def test_headers_that_prove_nothing_are_refused(protected: Protected, header: str) -> None:
    with protected.serving() as uri, grpc.insecure_channel(uri) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            TieringStatusStub(channel).ListTieringStatuses(ListTieringStatusesRequest(), timeout=10, metadata=(("authorization", header),))
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
        assert "lw_a_b" not in str(raised.value)


def test_a_token_opens_and_its_revocation_closes_an_open_connection(protected: Protected) -> None:
    ann = protected.token("ann")
    assert ann.token_file is not None
    with protected.serving() as uri, Connection(uri, ann) as connection:
        assert statuses(connection) == 1
        revoke_token(protected.file, ann.token_file.read_text().split("_")[1], NOW)
        with pytest.raises(Unauthenticated, match="was revoked"):
            statuses(connection)
        ann.token_file.write_text((protected.token("ann").token_file or Path()).read_text())
        assert statuses(connection) == 1  # the client reads a replaced file with the next call


def test_clients_of_the_owner_find_its_token_by_themselves(protected: Protected) -> None:
    with protected.serving() as uri:
        keep_user_token(uri, protected.owner)
        with LakewardClient(uri) as client:
            assert len(client.list_tiering_statuses()) == 1
        with LakewardClient(uri.replace("127.0.0.1", "localhost")) as client:
            assert len(client.list_tiering_statuses()) == 1


def test_the_asyncio_client_shows_its_token(protected: Protected) -> None:
    import asyncio

    async def listed(uri: str, access: ClientAccess) -> int:
        async with AsyncLakewardClient(uri, access) as client:
            return len(await client.list_tiering_statuses())

    with protected.serving() as uri:
        assert asyncio.run(listed(uri, protected.token("ann"))) == 1
        with pytest.raises(Unauthenticated):
            asyncio.run(listed(uri, ClientAccess()))


def test_who_paused_a_table_is_who_proved_it_and_not_whom_the_message_names(protected: Protected) -> None:
    with protected.serving() as uri, LakewardClient(uri, protected.token("ann")) as client:
        client.pause_tiering("sales.orders", caller="olga")
        assert client.list_tiering_statuses()[0].paused_by == "ann"


def test_a_tierer_is_bound_to_its_identity(protected: Protected) -> None:
    world = protected.world
    ann, eve = protected.token("ann"), protected.token("eve")
    tierer = HandTierer(world, "t1", incarnation="process-1")
    thief = HandTierer(world, "t1", incarnation="process-1")  # knows even what only the process knows
    with protected.serving() as uri, Connection(uri, ann) as of_ann, Connection(uri, eve) as of_eve:
        world.append()
        world.due()
        assigned = assigned_table(of_ann, tierer)
        beat(of_eve, thief)
        assert {known.tierer_id for known in world.coordinator.heartbeats.tierers.all()} == {"ann/t1", "eve/t1"}
        thief.epoch = tierer.epoch
        stolen = beat(of_eve, thief, finished=(thief.about(assigned),))
        assert stolen.finished_table_resp[0].error.error_class == Fenced.__name__
        stolen = beat(of_eve, thief, failed=(thief.about(assigned, error_message="broken"),))
        assert stolen.failed_table_resp[0].error.error_class == Fenced.__name__
        round_of_ann = pb.PbRound(
            table_id=assigned.table_id,
            coordinator_epoch=tierer.epoch,
            tiering_epoch=assigned.tiering_epoch,
            round_id=assigned.round_id,
            tierer_id="t1",
            incarnation="process-1",
        )
        with of_eve.calling():
            begun = TieringCoordinatorStub(of_eve.channel).BeginLakeCommit(pb.BeginLakeCommitRequest(round=round_of_ann), timeout=60)
        assert not begun.granted
        assert begun.error.error_class == Fenced.__name__
        record = world.coordinator.table_records.get(assigned.table_id)
        assert record is not None
        assert record.running is not None
        assert record.running.tierer_id == "ann/t1"


def assigned_table(connection: Connection, tierer: HandTierer) -> pb.PbLakeTieringTableInfo:
    answer = beat(connection, tierer, request=True)
    assert answer.HasField("tiering_table")
    info = answer.tiering_table
    tierer.running[info.round_id] = info
    return info


class Minute:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_call_that_proves_nothing_leaves_a_refused_line(protected: Protected, tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    protected.interceptor = CallAuthentication(TokenAuthenticator(TokenFile(protected.file)), RefusedCallers(trail))
    ann = protected.token("ann")
    assert ann.token_file is not None
    secret = ann.token_file.read_text()
    token_id = secret.split("_")[1]
    revoke_token(protected.file, token_id, NOW)
    made_up = f"lw_{'a' * 12}_mine"
    with protected.serving() as uri:
        for access in (ClientAccess(), ann, protected.shown(made_up), protected.shown("lw_hunter2_x")):
            with Connection(uri, access) as connection, pytest.raises(Unauthenticated):
                statuses(connection)
    entries = list(trail.entries())[::-1]
    assert [entry.message for entry in entries] == [
        "the service requires authentication, and the call has no token",
        f"the token {token_id} was revoked at 2026-11-24 00:00:00 UTC",
        f"the service does not know the token of this call (token {'a' * 12})",
        "the service does not know the token of this call",
    ]
    for entry in entries:
        assert (entry.outcome, entry.allowed, entry.principal, entry.authentication) == (REFUSED, False, "", "none")
        assert (entry.action, entry.error_class) == ("TieringStatus.ListTieringStatuses", "Unauthenticated")
        assert entry.peer.startswith("ipv4:127.0.0.1:")
    assert secret.split("_", 2)[2] not in trail.refused_file.read_text()


def test_a_caller_that_is_refused_again_and_again_fills_no_disk_and_hides_no_other_caller(tmp_path: Path) -> None:
    minute, trail = Minute(), AuditTrail(tmp_path / "audit.jsonl")
    refused = RefusedCallers(trail, minute)
    for port in range(1_000):
        refused.add("/tiering.rpc.v1.TieringStatus/ListTieringStatuses", f"ipv4:10.0.0.1:{port}", None, Unauthenticated("nobody"))
    refused.add("/tiering.rpc.v1.TieringStatus/ListTieringStatuses", "ipv4:10.0.0.2:7", None, Unauthenticated("somebody else"))
    assert [entry.message for entry in trail.entries()] == ["somebody else", *["nobody"] * LINES_OF_A_HOST]
    minute.seconds = WINDOW_SECONDS
    refused.add("/tiering.rpc.v1.TieringStatus/ListTieringStatuses", "ipv4:10.0.0.1:7", None, Unauthenticated("again"))
    newest = list(trail.entries())[:2]
    assert [entry.message for entry in newest] == ["again", "990 more calls of the 60 s before were refused, and have no line of their own"]
    for address in range(1_000):
        refused.add(
            "/tiering.rpc.v1.TieringStatus/ListTieringStatuses", f"ipv6:%5B2001:db8:{address:x}::1%5D:7", None, Unauthenticated("many")
        )
    assert sum(entry.message == "many" for entry in trail.entries()) == LINES - 1


def test_a_call_is_refused_also_where_its_line_cannot_be_written(protected: Protected, tmp_path: Path) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl", file_bytes=1)
    (tmp_path / "audit-refused.jsonl.next").mkdir()
    protected.interceptor = CallAuthentication(TokenAuthenticator(TokenFile(protected.file)), RefusedCallers(trail))
    with protected.serving() as uri, Connection(uri) as connection, pytest.raises(Unauthenticated):
        statuses(connection)
    assert list(trail.entries()) == []
