"""What SQL sees, for commands that need no Spark: the system tables of a running service, over `SysCatalog`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import grpc

from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering.names import SYSTEM_DATABASE
from tiering.rpc_channel import open_channel
from tiering.rpc_errors import from_rpc_error

READ_SECONDS = 30.0


class SystemCatalog:
    """A client. Connects on first use; raises ServiceUnreachable, InvalidArgument (the uri) and what the service says."""

    def __init__(self, uri: str, timeout_seconds: float = READ_SECONDS) -> None:
        self._uri = uri
        self._timeout = timeout_seconds
        self._channel = open_channel(uri)
        self._stub = SysCatalogStub(self._channel)

    def describe(self) -> pb.DescribeResponse:
        """Namespaces, system tables, procedures."""
        with self._border():
            return self._stub.Describe(pb.DescribeRequest(), timeout=self._timeout)

    def read(self, table: str, columns: Sequence[str] = (), **equal: str) -> list[dict[str, Any]]:
        """Rows of `sys.<table>`, all columns if none are named, those whose columns equal the texts `equal`."""
        filters = [
            pb.Filter(column=name, operator=pb.Filter.EQUAL, values=[pb.Literal(text=value)]) for name, value in sorted(equal.items())
        ]
        request = pb.ReadTableRequest(namespace=SYSTEM_DATABASE, name=table, columns=columns, filters=filters)
        with self._border():
            stream = b"".join(piece.arrow for piece in self._stub.ReadTable(request, timeout=self._timeout))
        import pyarrow as pa  # takes longer than the answer of a describe()
        from pyarrow import ipc

        rows: list[dict[str, Any]] = ipc.open_stream(pa.py_buffer(stream)).read_all().to_pylist()
        return rows

    def close(self) -> None:
        """Ends the connection; harmless to repeat."""
        self._channel.close()

    def __enter__(self) -> SystemCatalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise from_rpc_error(error, self._uri) from error
