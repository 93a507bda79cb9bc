"""Client of `SysCatalog` for commands and the console: reads system tables and calls procedures of a running service, without Spark."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering.access.client_access import ClientAccess
from tiering.client.system_tables import collected, decoded, read_request
from tiering.errors import InvalidAnswer, LakewardError, PeerTooOld
from tiering.model.names import CATALOG
from tiering.rpc.v1.common_pb2 import PbError
from tiering.rpc.v1.control_pb2 import Argument, CallProcedureRequest
from tiering.rpc.v1.control_pb2_grpc import TieringControlStub
from tiering.wire.channel import Connection
from tiering.wire.errors import error_from_pb
from tiering.wire.pages import readable
from tiering.wire.procedure_calls import literal_to_pb, pieces_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tiering.model.sql_types import ArgumentValue

OBSERVED_TIME_KEY = "observed_time"
"""Key in the metadata of a schema. A copy from `sys_tables.query.reading`, whose imports take longer than a whole command."""
READ_SECONDS = 30.0
READ_ALL_SECONDS = 300.0


@dataclass(frozen=True)
class SystemTableRead:
    """The rows of one system table at `observed_time`, or the `error` that prevented the read."""

    name: str
    rows: pa.Table | None = None
    observed_time: str | None = None
    error: LakewardError | None = None


class SystemCatalog:
    """A client that connects on first use. Raises ServiceUnreachable, InvalidArgument for a bad uri, and the errors of the service.

    `access`: the token and the TLS files; None = from the environment. `token` returns the token of a call, instead of the file's.
    """

    def __init__(
        self,
        uri: str,
        timeout_seconds: float = READ_SECONDS,
        access: ClientAccess | None = None,
        token: Callable[[], str | None] | None = None,
    ) -> None:
        self._uri = uri
        self._timeout = timeout_seconds
        self._connect(access, token)

    def _connect(self, access: ClientAccess | None, token: Callable[[], str | None] | None) -> None:
        self._connection = Connection(self._uri, access, token)
        self._stub = SysCatalogStub(self._connection.channel)

    def describe(self) -> pb.DescribeResponse:
        """Returns the namespaces, system tables and procedures of the service."""
        with self._connection.calling():
            return self._stub.Describe(pb.DescribeRequest(), timeout=self._timeout)

    def read(
        self, table: str, columns: Sequence[str] = (), *, newest_by: str | None = None, limit: int | None = None, **equal: str | None
    ) -> list[dict[str, Any]]:
        """Returns the rows of `read_request`."""
        return self.rows(read_request(table, columns, newest_by, limit, equal))

    def rows(self, request: pb.ReadTableRequest) -> list[dict[str, Any]]:
        """Returns the rows of any read."""
        stream = self.stream(request)
        with readable(self._uri):
            rows: list[dict[str, Any]] = decoded(stream).to_pylist()
        return rows

    def stream(self, request: pb.ReadTableRequest) -> bytes:
        """Returns the rows of any read as an Arrow stream that is not checked. A column without values may have the type null."""
        with self._connection.calling():
            return collected(piece.arrow for piece in self._stub.ReadTable(request, timeout=self._timeout))

    def call(
        self, procedure: str, *, on_progress: Callable[[str], None] | None = None, **arguments: ArgumentValue | datetime
    ) -> list[dict[str, Any]]:
        """Calls `sys.<procedure>`, waits until it ends, and returns its rows. None as an argument is NULL.

        `on_progress` gets the progress lines of the procedure. Raises the errors of the procedure.
        """
        request = CallProcedureRequest(
            name=procedure,
            arguments=[Argument(name=name, value=literal_to_pb(value)) for name, value in arguments.items()],
            caller=self._caller(),
            catalog=CATALOG,
        )
        pieces: list[bytes] = []
        with self._connection.calling():
            for step in TieringControlStub(self._connection.channel).CallProcedure(request):
                pieces += pieces_of(step, None if on_progress is None else lambda progress: on_progress(progress.message))
        with readable(self._uri):
            rows: list[dict[str, Any]] = decoded(collected(pieces)).to_pylist()
        return rows

    def console_link(self) -> str | None:
        """Returns a one-time link that signs a browser in to the service's own console, as this caller; None if the service has none."""
        try:
            with self._connection.calling():
                link: str = self._stub.OpenConsole(pb.OpenConsoleRequest(caller=self._caller()), timeout=self._timeout).link
        except PeerTooOld:
            return None
        if link and not link.startswith(("http://", "https://")):
            raise InvalidAnswer("the service's answer is not the link of a console", hint="Another program may answer at this address.")
        return link or None

    def _caller(self) -> str:
        """Returns the name that a service without authentication believes."""
        return getpass.getuser()

    def read_all(self) -> Iterator[SystemTableRead]:
        """Yields every system table as of one moment, or its error.

        Raises ServiceUnreachable before the first table, and the errors of `describe`.
        """
        left = {table.name: None for table in self.describe().system_tables}
        try:
            with self._connection.calling():
                for name, messages in groupby(self._stub.ReadAllTables(pb.ReadAllTablesRequest(), timeout=READ_ALL_SECONDS), _name):
                    read = _read(name, messages)
                    left.pop(name, None)
                    yield read
        except LakewardError as error:
            yield from (SystemTableRead(name, error=error) for name in left)

    def close(self) -> None:
        """Closes the connection. A second call does nothing."""
        self._connection.close()

    def __enter__(self) -> SystemCatalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _name(message: pb.ReadAllTablesResponse) -> str:
    return message.name


def _read(name: str, messages: Iterator[pb.ReadAllTablesResponse]) -> SystemTableRead:
    failures: list[PbError] = []
    stream = collected(message.arrow for message in _without_failure(messages, failures))
    if failures:
        with readable(name):
            return SystemTableRead(name, error=error_from_pb(failures[0]))
    rows = decoded(stream)
    observed = (rows.schema.metadata or {}).get(OBSERVED_TIME_KEY.encode())
    return SystemTableRead(name, rows, None if observed is None else observed.decode(errors="replace"))


def _without_failure(messages: Iterator[pb.ReadAllTablesResponse], failures: list[PbError]) -> Iterator[pb.ReadAllTablesResponse]:
    """Yields the messages before a failure, and adds the failure to `failures`."""
    for message in messages:
        if message.HasField("error"):
            failures.append(message.error)
            return
        yield message
