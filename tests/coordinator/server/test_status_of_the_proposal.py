"""ListTieringStatuses answers a client that knows Fluss's proposal and nothing of ours: proto2, required fields, no pages."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from support.services.served import Served, error_of, many, over_grpc
from support.worlds.memory_coordinator import MemoryCoordinator, table_status
from tiering.coordinator.server import listings
from tiering.errors import InvalidArgument
from tiering.instants import to_milliseconds
from tiering.model.status import TableStatus
from tiering.redaction.redact import MESSAGE_LIMIT
from tiering.wire.model_codecs import status_to_pb

PROPOSAL = """
syntax = "proto2";
package proposal;

message PbTablePath { required string database_name = 1; required string table_name = 2; }
message ListTieringStatusesRequest { optional PbTablePath table_path = 1; }
message ListTieringStatusesResponse { repeated PbTableTieringStatus tiering_statuses = 1; }
message PbTableTieringStatus {
  required PbTablePath table_path = 1;
  required string status = 2;
  required int64 tiering_epoch = 3;
  optional int64 last_tiered_time = 4;
  optional string last_error = 5;
  optional int64 last_error_time = 6;
}
"""
METHOD = "/tiering.rpc.v1.TieringStatus/ListTieringStatuses"
TABLES = 3_000


@cache
def proposal(message: str) -> type[Message]:
    """A message class of the proposal, of a pool of its own."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "proposal.proto").write_text(PROPOSAL)
        descriptors = Path(folder) / "proposal.bin"
        assert protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={descriptors}", "proposal.proto"]) == 0
        [file] = FileDescriptorSet.FromString(descriptors.read_bytes()).file
    pool = DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call]
    return GetMessageClass(pool.FindMessageTypeByName(f"proposal.{message}"))  # type: ignore[no-untyped-call, no-any-return]


async def listed(served: Served, database_name: str | None = None, table_name: str | None = None) -> list[Any]:
    """Returns the answer for a client of the proposal, whose channel has gRPC's own limits."""
    request: Any = proposal("ListTieringStatusesRequest")()
    if database_name is not None:
        request.table_path.database_name, request.table_path.table_name = database_name, table_name
    response = proposal("ListTieringStatusesResponse")
    async with grpc.aio.insecure_channel(served.server.address) as channel:
        call = channel.unary_unary(
            METHOD, request_serializer=lambda message: message.SerializeToString(), response_deserializer=response.FromString
        )
        answer: Any = await call(request)
    assert answer.IsInitialized(), answer.FindInitializationErrors()[:3]
    return list(answer.tiering_statuses)


def test_a_client_of_the_proposal_reads_every_table_with_what_it_requires() -> None:
    world = many(TABLES)

    async def test(served: Served) -> None:
        failing, tiered = world.tables[1], world.tables[2]
        statuses = {status.table_path.table_name: status for status in await listed(served)}
        assert len(statuses) == TABLES
        assert {status.tiering_epoch for status in statuses.values()} == {0, 1}
        assert statuses["t001"].HasField("tiering_epoch")
        assert (statuses["t001"].tiering_epoch, statuses["t001"].status) == (0, "Scheduled")
        assert not statuses["t001"].HasField("last_tiered_time")
        assert not statuses["t001"].HasField("last_error")
        shown = {status.table_name: status for status in world.coordinator.view().table_statuses()}
        failed, done = statuses[failing.path.table_name], statuses[tiered.path.table_name]
        assert failed.last_error == "no disk left"
        assert failed.last_error_time == ms(shown[failing.path.table_name].last_error_time)
        assert done.last_tiered_time == ms(shown[tiered.path.table_name].last_tiered_time)
        assert done.last_tiered_time == ms(world.clock.now())
        [single] = await listed(served, "many", "t001")
        assert single == statuses["t001"]

    for table in world.tables[1:3]:
        world.append(table=table)
        world.call(table.path, wait=False)
    tierer = world.tierer()
    tierer.fail(tierer.get())
    tierer.run(tierer.get())
    over_grpc(test, world)


def ms(time: datetime | None) -> int:
    assert time is not None
    return to_milliseconds(time)


def test_without_page_size_too_many_tables_are_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = many(300)
    monkeypatch.setattr(listings, "PAGE_BYTES", 20_000)

    async def test(served: Served) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match="page_size") as refused:
            await listed(served)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        _, error = await error_of(served.page())
        assert isinstance(error, InvalidArgument)
        assert "page_size" in error.message
        assert "next_page_token" in error.hint
        assert len(await listed(served, "many", "t001")) == 1
        names, token = [], None
        while token != "":
            page = await served.page(page_size=200, **({} if token is None else {"page_token": token}))
            assert page.ByteSize() <= 20_000
            names += [status.table_path.table_name for status in page.tiering_statuses]
            token = page.next_page_token
        assert names == [table.path.table_name for table in world.tables]

    over_grpc(test, world)


@pytest.mark.parametrize(("excess", "fits"), [(0, True), (1, False)])
def test_what_fits_into_4_mib_comes_whole_and_one_table_more_is_an_error(excess: int, fits: bool) -> None:
    """The client's own gRPC would refuse a larger message, and say nothing of pages."""
    largest = status_to_pb(status(10_000)).ByteSize() + 5
    count = listings.PAGE_BYTES // largest + excess
    world = many(1)
    view = MemoryCoordinator(statuses=[status(10_000 + number) for number in range(count)]).view()
    world.coordinator.view = lambda: view  # type: ignore[assignment, method-assign, return-value]

    async def test(served: Served) -> None:
        if fits:
            assert len(await listed(served)) == count
        else:
            with pytest.raises(grpc.aio.AioRpcError, match=f"{count} entries .* page_size"):
                await listed(served)
        page = await served.page(page_size=1_000)
        assert len(page.tiering_statuses) == 1_000

    over_grpc(test, world)


def status(number: int) -> TableStatus:
    return table_status(f"many.t{number}", last_error="e" * MESSAGE_LIMIT)
