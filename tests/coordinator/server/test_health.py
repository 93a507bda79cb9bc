"""gRPC's own tools see health and reflection of the coordinator, through their own clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from support.services.served import Served, at_uri, over_grpc
from support.worlds.coordinator_world import FRESHNESS, World
from tiering.wire import server_guard
from tiering.wire.server_guard import WATCHES

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def next_status(statuses: AsyncIterator[Any]) -> Any:
    return (await anext(statuses)).status


async def collect(call: AsyncIterator[Any], answers: list[Any]) -> None:
    async for answer in call:
        answers.append(answer)  # noqa: PERF401  # those before an error count


def test_health_is_serving_until_the_server_stops_and_watchers_hear_of_it() -> None:
    async def test(served: Served) -> None:
        async with grpc.aio.insecure_channel(served.server.address) as channel:
            health = HealthStub(channel)
            for service in ("", "tiering.rpc.v1.TieringStatus", "tiering.rpc.v1.TieringCoordinator"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
                assert answer.status == SERVING
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await health.Check(health_pb2.HealthCheckRequest(service="no.such.Service"))
            assert raised.value.code() is grpc.StatusCode.NOT_FOUND
            listed = await health.List(health_pb2.HealthListRequest())
            assert {status.status for status in listed.statuses.values()} == {SERVING}
            watched = aiter(health.Watch(health_pb2.HealthCheckRequest()))
            assert await next_status(watched) == SERVING
            stopping = asyncio.create_task(served.server.stop())
            async with asyncio.timeout(60):
                assert await next_status(watched) == NOT_SERVING
                with pytest.raises(StopAsyncIteration):
                    await anext(watched)
                await stopping

    over_grpc(test)


def test_a_coordinator_that_lost_its_store_serves_no_more() -> None:
    async def test(served: Served) -> None:
        async with grpc.aio.insecure_channel(served.server.address) as channel:
            watched = aiter(HealthStub(channel).Watch(health_pb2.HealthCheckRequest()))
            assert await next_status(watched) == SERVING
            served.world.another()
            served.world.clock.advance(FRESHNESS)
            async with asyncio.timeout(60):
                assert await next_status(watched) == NOT_SERVING

    over_grpc(test)


def test_reflection_tells_every_service_and_every_message() -> None:
    with at_uri(World()) as uri, grpc.insecure_channel(uri) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert services >= {
            "tiering.rpc.v1.TieringStatus",
            "tiering.rpc.v1.TieringCoordinator",
            "tiering.rpc.v1.TieringControl",
            "tiering.rpc.v1.TableReads",
            "tiering.rpc.v1.TableDefinitions",
            "tiering.rpc.v1.TableWrites",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
            "grpc.reflection.v1.ServerReflection",
        }
        pool = DescriptorPool(database)
        status = pool.FindServiceByName("tiering.rpc.v1.TieringStatus")
        assert "ListTieringStatuses" in {method.name for method in status.methods}
        assert "lag_ms" in pool.FindMessageTypeByName("tiering.rpc.v1.PbTableTieringStatus").fields_by_name


def test_watches_take_no_place_of_health_checks() -> None:
    """Watches need no authentication: 256 watches once refused every check."""

    async def test(served: Served) -> None:
        channels = [
            grpc.aio.insecure_channel(served.server.address, options=[("grpc.use_local_subchannel_pool", 1)])
            for _ in range(WATCHES.caller // WATCHES.connection + 1)
        ]
        *watching, other = channels
        request = health_pb2.HealthCheckRequest()
        watches = [HealthStub(channel).Watch(request) for channel in watching for _ in range(WATCHES.connection)]
        for watch in watches:
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await collect(HealthStub(other).Watch(request), [])
        assert "watches of the health are open from" in str(raised.value.details())
        assert (await HealthStub(other).Check(request)).status == health_pb2.HealthCheckResponse.SERVING
        for watch in watches:
            watch.cancel()
        for channel in channels:
            await channel.close()

    over_grpc(test)


def test_the_newer_reflection_answers_as_the_older_one_does() -> None:
    """grpcurl calls the newer one first."""
    with at_uri(World()) as uri, grpc.insecure_channel(uri) as channel:
        ask = channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        questions = [reflection_pb2.ServerReflectionRequest(list_services="")]
        [newer], [older] = (list(call(iter(questions))) for call in (ask, ServerReflectionStub(channel).ServerReflectionInfo))
        assert newer == older
        assert len(newer.list_services_response.service) > 3


def test_a_call_of_many_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_guard, "MAX_REQUESTS", 3)

    async def test(served: Served) -> None:
        async with grpc.aio.insecure_channel(served.server.address) as channel:
            question = reflection_pb2.ServerReflectionRequest(list_services="")
            call = ServerReflectionStub(channel).ServerReflectionInfo(question for _ in range(5))
            answers: list[Any] = []
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await collect(call, answers)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert len(answers) == 3
            large = reflection_pb2.ServerReflectionRequest(file_by_filename="x" * server_guard.REQUEST_BYTES)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await collect(ServerReflectionStub(channel).ServerReflectionInfo(iter([large])), [])
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    over_grpc(test)
