"""Reads of system tables by gRPC, for the Python client, the commands and the console: the request, and the rows of the answer.

This module alone of `tiering` imports messages of `sys_tables`: they are generated from the contract, and import nothing else of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiering.errors import InvalidAnswer, InvalidData, UnsupportedType
from tiering.model.names import SYSTEM_DATABASE
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.common_pb2 import Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from sys_tables.rpc.v1 import sys_catalog_pb2 as pb

MAX_BYTES = 256 << 20
"""Largest size of one system table in an answer: some hundred bytes per row. The service may be broken, or may be another program."""
MAX_ROWS = 1_000_000
"""Most rows of one system table: about ten for each table of the largest supported service."""


def read_request(
    table: str, columns: Sequence[str], newest_by: str | None, limit: int | None, equal: Mapping[str, str | None]
) -> pb.ReadTableRequest:
    """Returns the request for rows of `sys.<table>` with the named columns, or with all columns.

    `equal` filters by equality of text columns; None does not filter. `newest_by` sorts by this column, largest value first. `limit` is the
    largest number of rows.
    """
    from sys_tables.rpc.v1 import sys_catalog_pb2 as pb  # imported late: a program that reads no system table does not need it

    filters = [
        common_pb2.Filter(column=name, operator=common_pb2.Filter.EQUAL, values=[Literal(text=value)])
        for name, value in sorted(equal.items())
        if value is not None
    ]
    order = [] if newest_by is None else [pb.Order(column=newest_by, descending=True)]
    return pb.ReadTableRequest(namespace=SYSTEM_DATABASE, name=table, columns=columns, filters=filters, order=order, limit=limit)


def system_tables_stub(channel: Any) -> Any:
    """Returns the stub that reads system tables over a channel: a stream, for asyncio an asynchronous one."""
    from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub

    return SysCatalogStub(channel)


class Pieces:
    """The pieces of a stream that have arrived."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0

    def add(self, piece: bytes) -> None:
        """Adds a piece. Raises InvalidAnswer for a stream that is too long."""
        self._bytes += len(piece)
        if self._bytes > MAX_BYTES:
            raise InvalidAnswer(f"the service's answer has more than {MAX_BYTES} bytes", hint="Ask for fewer rows or columns.")
        self._pieces.append(piece)

    def joined(self) -> bytes:
        """Returns the stream."""
        return b"".join(self._pieces)


def collected(pieces: Iterable[bytes]) -> bytes:
    """Returns the joined pieces of a stream. Raises InvalidAnswer for a stream that is too long."""
    arrived = Pieces()
    for piece in pieces:
        arrived.add(piece)
    return arrived.joined()


def decoded(stream: bytes) -> pa.Table:
    """Returns the rows of an Arrow stream. Raises InvalidAnswer for another format, or for more rows than a system table can have."""
    from tiering.library_guards.arrow_ipc import ArrowLimits, read_rows  # imported late: the import takes longer than a short call

    try:
        return read_rows(stream, ArrowLimits(MAX_ROWS, null_columns=True))
    except (InvalidData, UnsupportedType) as error:
        raise InvalidAnswer(f"the service's answer cannot be read: {error.message}") from error
