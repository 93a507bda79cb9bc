"""A server that frames as Fluss does and answers as a test tells it: for what a real server does too seldom, or of another version."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from google.protobuf.message import Message

from tiering.cluster.fluss.wire.api import API_VERSIONS, APIS, METADATA
from tiering.cluster.fluss.wire.connection import ERROR, OK, SERVER_FAILED
from tiering.rpc.fluss import fluss_pb2 as pb

HANG_UP = b""
"""An answer that is none: the connection ends."""
EVERY_CALL = {api.key: (0, 0) for api in APIS}
_REQUEST = struct.Struct(">ihhi")

Answer = Callable[[Any], "Message | bytes"]
"""Returns the answer of a call: a message (an ErrorResponse as an error), or the bytes that come instead."""


class Refused(Exception):
    """An answer of a call that is an error with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ScriptedFluss:
    """One server, coordinator of its own cluster. `received` has the keys of all requests, `connections` how many there were.

    With `table_id` each table that it is asked about has that id and one bucket, which the server leads.
    """

    def __init__(
        self,
        versions: Mapping[int, tuple[int, int]] = EVERY_CALL,
        answers: Mapping[int, Answer] | None = None,
        table_id: int | None = None,
    ) -> None:
        self._table_id = table_id
        self.received: list[int] = []
        self.connections = 0
        self.versions = versions
        self._answers = {API_VERSIONS.key: self._api_versions, METADATA.key: self._metadata, **(answers or {})}
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.scripted = self
        self._open: list[Any] = []
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Ends every connection and takes no more."""
        self._server.shutdown()
        self._server.server_close()
        self.hang_up()

    def hang_up(self) -> None:
        """Ends every connection; new ones are taken."""
        for connection in self._open:
            _shut(connection)
        self._open.clear()

    def __enter__(self) -> ScriptedFluss:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _serve(self, connection: Any) -> None:
        self.connections += 1
        self._open.append(connection)
        with suppress(OSError):  # the connection was ended, by either side
            self._read_requests(connection)

    def _read_requests(self, connection: Any) -> None:
        stream = connection.makefile("rb")
        while head := stream.read(_REQUEST.size):
            length, key, _, request_id = _REQUEST.unpack(head)
            body = stream.read(length - _REQUEST.size + 4)
            self.received.append(key)
            threading.Thread(target=self._answer, args=(connection, key, request_id, body), daemon=True).start()

    def _answer(self, connection: Any, key: int, request_id: int, body: bytes) -> None:
        (api,) = (api for api in APIS if api.key == key)
        try:
            answer = self._answers[key](api.request.FromString(body))
        except Refused as refusal:
            answer = pb.ErrorResponse(error_code=refusal.code, error_message=str(refusal))
        if answer == HANG_UP:
            _shut(connection)
            return
        if not isinstance(answer, bytes):
            kind = ERROR if isinstance(answer, pb.ErrorResponse) else OK
            answer = frame(kind, request_id, answer.SerializeToString())
        with suppress(OSError):  # the connection was ended, by either side
            connection.sendall(answer)

    def _api_versions(self, request: Message) -> Message:
        versions = [pb.PbApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()]
        return pb.ApiVersionsResponse(api_versions=versions)

    def _metadata(self, request: pb.MetadataRequest) -> Message:
        host, port = self._server.server_address
        node = pb.PbServerNode(node_id=0, host=str(host), port=port)
        if self._table_id is None:
            return pb.MetadataResponse(coordinator_server=node)
        answer = pb.MetadataResponse(coordinator_server=node, tablet_servers=[node])
        for path in request.table_path:
            of_table = answer.table_metadata.add(
                table_path=path, table_id=self._table_id, schema_id=1, table_json=b"{}", created_time=0, modified_time=0
            )
            of_table.bucket_metadata.add(bucket_id=0, leader_id=0, replica_id=[0])
        return answer


def frame(kind: int, request_id: int, body: bytes) -> bytes:
    """An answer as it goes over the connection."""
    head = struct.pack(">b", kind) if kind == SERVER_FAILED else struct.pack(">bi", kind, request_id)
    return struct.pack(">i", len(head) + len(body)) + head + body


def _shut(connection: Any) -> None:
    try:
        connection.shutdown(2)
    except OSError:
        return  # it had ended already


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    scripted: ScriptedFluss


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.server.scripted._serve(self.request)  # type: ignore[attr-defined]
