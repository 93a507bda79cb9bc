"""Frames of requests and answers (Fluss 0.9), big-endian.

request   int32 length | int16 api key | int16 api version | int32 request id | message
answer    int32 length | int8 type | int32 request id | message      type 0 ok, 1 error
         int32 length | int8 2 | message                            the server failed, and with it every open request
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import cast

from google.protobuf.message import Message

from tiering.cluster.fluss.wire.api import VERSION, Api

OK, ERROR, SERVER_FAILED = 0, 1, 2
MAX_ANSWER_BYTES = 1 << 30
"""Maximum size of an answer. FetchLog answers with the requested bytes and at most one record batch more."""
_REQUEST_HEAD = struct.Struct(">ihhi")
_ANSWER_HEAD = struct.Struct(">ib")
_REQUEST_ID = struct.Struct(">i")
_REPORTED_BYTES = 60
_HTTP2_SETTINGS = b"\x04\x00\x00\x00\x00\x00"
"""Follows three bytes of length: type SETTINGS, no flags, stream 0 (RFC 9113, section 6.5)."""


class NotFluss(Exception):
    """The bytes from a connection are not an answer of a Fluss server; the message describes the server."""


@dataclass(frozen=True)
class Answer:
    """An answer. `request_id` is None for SERVER_FAILED; `body` is an ErrorResponse unless the type is OK."""

    kind: int
    request_id: int | None
    body: bytes


def request_frame(api: Api, request_id: int, request: Message) -> bytes:
    """Returns the bytes of a request."""
    body = request.SerializeToString()
    return _REQUEST_HEAD.pack(_REQUEST_HEAD.size - 4 + len(body), api.key, VERSION, request_id) + body


def read_answer(connection: socket.socket, limit: int = MAX_ANSWER_BYTES) -> Answer:
    """Returns the next answer. Raises NotFluss, EOFError if the connection ended, OSError."""
    head = bytes(_received(connection, _ANSWER_HEAD.size))
    length, kind = _ANSWER_HEAD.unpack(head)
    head_bytes = 1 if kind == SERVER_FAILED else 1 + _REQUEST_ID.size
    if kind not in (OK, ERROR, SERVER_FAILED) or not head_bytes <= length <= limit:
        raise NotFluss(described(head + _available(connection)))
    request_id = None
    if kind != SERVER_FAILED:
        id_bytes = bytes(_received(connection, _REQUEST_ID.size))
        (request_id,) = _REQUEST_ID.unpack(id_bytes)
        if request_id <= 0:  # this client's request ids start at 1
            raise NotFluss(described(head + id_bytes + _available(connection)))
    # protobuf reads any buffer, although its stubs require bytes; a copy of 16 MiB is avoided
    return Answer(kind, request_id, cast(bytes, _received(connection, length - head_bytes)))


def described(start: bytes) -> str:
    """Returns a description of a server whose answer begins like this."""
    if start.startswith(b"HTTP/"):
        return f"an HTTP server ({_line(start)!r})"
    if start[3:9] == _HTTP2_SETTINGS:
        return "an HTTP/2 server, such as a gRPC service"
    if start[:1] in (b"\x15", b"\x16") and start[1:2] == b"\x03":
        return "a server that speaks TLS"
    return f"a server whose answer begins with {_line(start)!r}"


def _line(start: bytes) -> str:
    return start.splitlines()[0].decode("latin-1") if start.strip() else start.hex(" ")


def _received(connection: socket.socket, length: int) -> memoryview:
    whole = memoryview(bytearray(length))
    position = 0
    while position < length:
        received = connection.recv_into(whole[position:])
        if received == 0:
            raise EOFError
        position += received
    return whole


def _available(connection: socket.socket) -> bytes:
    """Returns further bytes of the answer that have already arrived."""
    try:
        return connection.recv(_REPORTED_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        return b""
