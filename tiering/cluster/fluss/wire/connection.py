"""One connection to one Fluss server, for any number of threads: requests are sent as they come, and answers arrive in any order.

ApiVersions is the first request of each connection, because a server never answers a call that it does not know; with a user the login
follows (SASL/PLAIN). A thread reads the answers and passes each to the waiting caller.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import struct
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from google.protobuf.message import DecodeError, Message

from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import API_VERSIONS, AUTHENTICATE, VERSION, Api, SupportedApis
from tiering.cluster.fluss.wire.errors import error_of
from tiering.errors import ClusterUnavailable, InvalidAnswer, LakewardError, PeerTooOld
from tiering.rpc.fluss import fluss_pb2 as pb

SOFTWARE_NAME, SOFTWARE_VERSION = "lakeward", "1"
FIRST_ANSWER_BYTES = 1 << 20
"""Maximum size of the first answer. ApiVersions of 0.9.1 takes less than 1 KiB."""
NOT_A_FLUSS_SERVER = "Give the port of a Fluss server's client listener (`bind.listeners` in its server.yaml)."


class ConnectionBroken(Exception):
    """No answer came over a connection. `error` is for the user; `sent`: the server may have carried out the request."""

    def __init__(self, error: ClusterUnavailable, *, sent: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.sent = sent


class ServerConnection:
    """Open from its creation until it breaks or is closed. Raises ConnectionBroken, and the errors of its handshake."""

    def __init__(self, address: ServerAddress, options: FlussConnection) -> None:
        """Connects, requests the server's calls and logs in.

        Raises ConnectionBroken, also for a server that is not a Fluss server; ClusterAccessDenied, SetupError (no password).
        """
        self.address = address
        self._options = options
        self._send_lock = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Answer]] = {}
        self._request_ids = itertools.count(1)
        self._last_answer = time.monotonic()
        self._end: str | None = None
        """Why requests are not sent any more; None while the connection is open."""
        self._socket = self._connected()
        try:
            request = pb.ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
            self.offered = SupportedApis.of(self._first_answer(API_VERSIONS, request))
            if options.username is not None:
                self._log_in(options.username)
            self._socket.settimeout(None)
            self._limit_sending(options.request_timeout_s)
        except BaseException:
            self._socket.close()
            raise
        threading.Thread(target=self._read_answers, name=f"fluss-{address}", daemon=True).start()

    @property
    def is_open(self) -> bool:
        return self._end is None

    def call(self, api: Api, request: Message) -> Any:
        """Returns the message of the answer.

        Raises ConnectionBroken, PeerTooOld for a call that the server does not support, InvalidAnswer, and the error of an error code in
        the answer.
        """
        missing = self.offered.missing([api])
        if missing:
            raise PeerTooOld(f"the Fluss server at {self.address} does not support {missing[0]}", hint="Fluss 0.9.1 has it.")
        answer: Future[Answer] = Future()
        request_id = self._begin(answer)
        sent_at = time.monotonic()
        try:
            with self._send_lock:
                self._socket.sendall(request_frame(api, request_id, request))
        except OSError as error:
            self._break(f"the connection to the Fluss server at {self.address} broke: {error.strerror or error}")
        try:
            return self._message(api, answer.result(self._options.request_timeout_s))
        except TimeoutError:
            self._give_up(api, request_id, sent_at)

    def close(self) -> None:
        """Closes the connection; a caller that waits for an answer gets ConnectionBroken."""
        self._break(f"the connection to the Fluss server at {self.address} was closed")

    def _begin(self, answer: Future[Answer]) -> int:
        with self._lock:
            if self._end is not None:
                raise ConnectionBroken(ClusterUnavailable(self._end), sent=False)
            request_id = next(self._request_ids)
            self._waiting[request_id] = answer
            return request_id

    def _give_up(self, api: Api, request_id: int, sent_at: float) -> NoReturn:
        with self._lock:
            self._waiting.pop(request_id, None)
        text = f"the Fluss server at {self.address} did not answer {api} within {self._options.request_timeout_s:g} s"
        if self._last_answer < sent_at:  # no other answer came either: the connection may be dead without having ended
            self._break(text)
        raise ConnectionBroken(ClusterUnavailable(text), sent=True)

    def _message(self, api: Api, answer: Answer) -> Any:
        try:
            if answer.kind == ERROR:
                refusal = pb.ErrorResponse.FromString(answer.body)
                raise error_of(refusal.error_code, refusal.error_message, call=api.name, server=self.address)
            message: Any = api.response.FromString(answer.body)
        except DecodeError as error:
            raise self._invalid(api, "a message that cannot be read") from error
        if not message.IsInitialized():  # Python's protobuf accepts the message nevertheless, with 0 for missing fields
            raise self._invalid(api, f"a message without {', '.join(message.FindInitializationErrors())}")
        return message

    def _invalid(self, api: Api, content: str) -> InvalidAnswer:
        return InvalidAnswer(
            f"the Fluss server at {self.address} answered {api} with {content}", hint="This client is written for Fluss 0.9.1."
        )

    # ---- The thread that reads ----

    def _read_answers(self) -> None:
        try:
            while True:
                answer = read_answer(self._socket)
                self._last_answer = time.monotonic()
                if answer.kind == SERVER_FAILED:
                    refusal = pb.ErrorResponse.FromString(answer.body)
                    self._break(f"the Fluss server at {self.address} failed: {refusal.error_message} (Fluss error {refusal.error_code})")
                    return
                with self._lock:
                    waiting = self._waiting.pop(answer.request_id or 0, None)
                if waiting is not None:  # otherwise the caller has given up
                    waiting.set_result(answer)
        except (EOFError, OSError, NotFluss, DecodeError, MemoryError) as error:
            self._break(f"the connection to the Fluss server at {self.address} broke: {_reason(error)}")

    def _break(self, reason: str) -> None:
        with self._lock:
            if self._end is None:
                self._end = reason
            waiting, self._waiting = self._waiting, {}
            error = self._end
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reading thread
        self._socket.close()
        for answer in waiting.values():
            answer.set_exception(ConnectionBroken(ClusterUnavailable(error), sent=True))

    # ---- The handshake ----

    def _connected(self) -> socket.socket:
        try:
            connected = socket.create_connection((self.address.host, self.address.port), self._options.connect_timeout_s)
        except OSError as error:
            raise ConnectionBroken(
                ClusterUnavailable(
                    f"no Fluss server answers at {self.address}: {_reason(error)}",
                    hint="Check host and port, and that the server runs and can be reached from this machine.",
                ),
                sent=False,
            ) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connected

    def _limit_sending(self, seconds: float) -> None:
        """Sets a timeout for sending, so that a server that stops reading does not hold a thread for ever; reading has no timeout."""
        fraction, whole = math.modf(seconds)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(whole), int(fraction * 1_000_000)))

    def _first_answer(self, api: Api, request: Message) -> Any:
        """Returns an answer that is awaited in the caller's thread, because no other request is outstanding yet."""
        try:
            self._socket.sendall(request_frame(api, next(self._request_ids), request))
            answer = read_answer(self._socket, FIRST_ANSWER_BYTES)
        except NotFluss as error:
            foreign = ClusterUnavailable(f"{self.address} is not a Fluss server but {error}", hint=NOT_A_FLUSS_SERVER)
            raise ConnectionBroken(foreign, sent=False) from error
        except (EOFError, OSError) as error:
            text = f"{self.address} accepts connections, but does not answer like a Fluss server: {_reason(error)}"
            raise ConnectionBroken(ClusterUnavailable(text, hint=NOT_A_FLUSS_SERVER), sent=True) from error
        if answer.kind == SERVER_FAILED:
            refusal = pb.ErrorResponse.FromString(answer.body)
            raise error_of(refusal.error_code, refusal.error_message, call=api.name, server=self.address)
        return self._message(api, answer)

    def _log_in(self, username: str) -> None:
        token = f"\0{username}\0{self._options.password()}".encode()
        try:
            self._first_answer(AUTHENTICATE, pb.AuthenticateRequest(protocol="PLAIN", token=token))
        except LakewardError as error:
            error.ids.setdefault("user", username)
            raise


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer came in time"
    if isinstance(error, EOFError | ConnectionResetError):
        return "it closed the connection"
    return str(getattr(error, "strerror", None) or error)


OK, ERROR, SERVER_FAILED = 0, 1, 2
MAX_ANSWER_BYTES = 1 << 30
"""Maximum size of an answer. FetchLog answers with the requested bytes and at most one record batch more."""
_REQUEST_HEAD = struct.Struct(">ihhi")
_ANSWER_HEAD = struct.Struct(">ib")
_REQUEST_ID = struct.Struct(">i")
_REPORTED_BYTES = 60
_HTTP2_SETTINGS = b"\x04\x00\x00\x00\x00\x00"
"""Follows three bytes of length: type SETTINGS, no flags, stream 0 (RFC 9113, section 6.5)."""


# Frames of requests and answers (Fluss 0.9), big-endian:
#    request   int32 length | int16 api key | int16 api version | int32 request id | message
#    answer    int32 length | int8 type | int32 request id | message      type 0 ok, 1 error
#              int32 length | int8 2 | message                            the server failed, and with it every open request
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


class ConnectionPool:
    """Safe to use from several threads; a server that does not answer blocks only its own callers."""

    def __init__(self, options: FlussConnection) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._opening: defaultdict[ServerAddress, threading.Lock] = defaultdict(threading.Lock)
        self._connections: dict[ServerAddress, ServerConnection] = {}
        self._closed = False

    def connection(self, address: ServerAddress) -> ServerConnection:
        """Returns an open connection. Raises the errors of `ServerConnection`, ClusterUnavailable after `close`."""
        with self._lock:
            opening = self._opening[address]
        with opening:
            with self._lock:
                existing = self._connections.get(address)
            if existing is not None and existing.is_open:
                return existing
            fresh = ServerConnection(address, self._options)
            with self._lock:
                if not self._closed:
                    self._connections[address] = fresh
                    return fresh
            fresh.close()
            raise ClusterUnavailable("the client of the Fluss cluster was closed")

    def close(self) -> None:
        """Closes all connections; a caller that waits for an answer gets ClusterUnavailable."""
        with self._lock:
            self._closed = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
