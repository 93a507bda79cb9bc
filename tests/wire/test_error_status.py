"""Errors of the service as a gRPC client that knows nothing of Lakeward reads them: `google.rpc.Status` with standard details."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo, Help, LocalizedMessage, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from support.services.served import Served, over_grpc
from tiering.errors import ServiceBusy, UnknownTable
from tiering.wire.error_status import error_from_rpc, error_in_status, error_status


def details(status: Status) -> dict[str, Any]:
    """The details of a status by the names of their messages."""
    unpacked = {}
    for kind in (ErrorInfo, LocalizedMessage, Help, RetryInfo):
        for detail in status.details:
            if detail.Is(kind.DESCRIPTOR):
                unpacked[kind.DESCRIPTOR.name] = message = kind()
                detail.Unpack(message)
    assert len(unpacked) == len(status.details)
    return unpacked


def test_a_generic_client_reads_class_ids_message_and_hint() -> None:
    async def test(served: Served) -> None:
        try:
            await served.page(table_path={"database_name": "sales", "table_name": "nowhere"})
        except grpc.RpcError as error:
            status: Status = rpc_status.from_call(error)  # type: ignore[arg-type]  # an AioRpcError has what it reads
            read = error_from_rpc(error, served.server.address)
        assert status.code == grpc.StatusCode.NOT_FOUND.value[0]
        sent = details(status)
        assert (sent["ErrorInfo"].reason, sent["ErrorInfo"].domain) == ("UnknownTable", "lakeward")
        assert "sales.nowhere" in sent["LocalizedMessage"].message
        assert isinstance(read, UnknownTable)
        assert (read.message, dict(sent["ErrorInfo"].metadata)) == (sent["LocalizedMessage"].message, read.ids)
        assert "RetryInfo" not in sent

    over_grpc(test)


def test_ids_hint_and_retry_are_details_of_their_own() -> None:
    sent = details(error_status(ServiceBusy("full", hint="Come back.", table="sales.orders", lake_snapshot_id=7)))
    assert dict(sent["ErrorInfo"].metadata) == {"table": "sales.orders", "lake_snapshot_id": "7"}
    assert sent["Help"].links[0].description == "Come back."
    assert sent["RetryInfo"].retry_delay.seconds == 1


def test_a_status_of_another_service_has_no_error_of_ours() -> None:
    status = error_status(UnknownTable("there is none"))
    assert error_in_status(status) is not None
    foreign = ErrorInfo(reason="UnknownTable", domain="example.com")
    del status.details[:]
    status.details.add().Pack(foreign)
    assert error_in_status(status) is None
