"""HTTP/2 frames by hand (RFC 9113), right and wrong: what no client library would send."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterable, Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
SOCKET_SECONDS = 5.0


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"", length: int | None = None) -> bytes:
    """One frame; `length` lies about its payload."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", name, value) for name, value in pairs))


def header(name: bytes, value: bytes) -> bytes:
    """A literal without indexing and without Huffman (RFC 7541, 6.2.2)."""
    return b"\x00" + _length(len(name)) + name + _length(len(value)) + value


def _length(size: int) -> bytes:
    if size < 127:
        return bytes([size])
    encoded, size = bytearray([127]), size - 127
    while size >= 128:
        encoded.append(size % 128 + 128)
        size //= 128
    return bytes(encoded + bytes([size]))


def grpc_headers(path: bytes, *more: tuple[bytes, bytes]) -> bytes:
    plain = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"localhost"))
    ours = ((b"content-type", b"application/grpc"), (b"te", b"trailers"))
    return b"".join(header(name, value) for name, value in (*plain, *ours, *more))


def opening(path: bytes, stream: int = 1, *more: tuple[bytes, bytes]) -> bytes:
    """The headers of a call, in one frame."""
    return frame(HEADERS, END_HEADERS, stream, grpc_headers(path, *more))


def message(body: bytes, *, flag: int = 0, length: int | None = None) -> bytes:
    """gRPC's own frame."""
    return struct.pack(">BI", flag, len(body) if length is None else length) + body


BEGUN = PREFACE + settings()
DESCRIBE = b"/sys_tables.rpc.v1.SysCatalog/Describe"
READ = b"/sys_tables.rpc.v1.SysCatalog/ReadTable"


def conversations(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yields the bytes of a client, with a name: first each kind of error, then noise after a correct beginning."""
    yield from _wrong_bytes()
    yield from _wrong_frames()
    yield from _wrong_calls()
    yield from _floods()
    chance = random.Random(seed)
    for number in range(count):
        kind, flags, stream = chance.randrange(12), chance.randrange(256), chance.choice([0, 1, 2, 3, 2**31 - 1])
        payload = chance.randbytes(chance.choice([0, 1, 4, 8, 100, 5_000]))
        length = chance.choice([None, None, 0, 5, 2**24 - 1])
        yield f"noise {number}", BEGUN + opening(DESCRIBE) + frame(kind, flags, stream, payload, length)


def _wrong_bytes() -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "zeros", bytes(100_000)
    yield "TLS", bytes.fromhex("16030102000100") + bytes(512)
    yield "HTTP/1.1", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100
    yield "an endless line", b"GET /" + b"a" * 1_000_000
    yield "half a preface", PREFACE[:10]
    yield "a preface alone", PREFACE
    yield "two prefaces", PREFACE + PREFACE


def _wrong_frames() -> Iterator[tuple[str, bytes]]:
    yield "a frame of 16 MB", PREFACE + frame(SETTINGS, length=2**24 - 1)
    yield "settings of five bytes", PREFACE + frame(SETTINGS, payload=b"12345")
    yield "settings of a stream", PREFACE + frame(SETTINGS, stream=1)
    yield "an acknowledgement with a payload", PREFACE + frame(SETTINGS, ACK, payload=b"123456")
    yield "huge settings", PREFACE + settings(*[(number, 2**32 - 1) for number in range(1, 7)])
    yield "frames of 1 byte", PREFACE + settings((5, 1))
    yield "a window of 0", PREFACE + settings((4, 0)) + opening(DESCRIBE) + frame(DATA, END_STREAM, 1, message(b""))
    yield "data of no stream", BEGUN + frame(DATA, stream=0, payload=b"x")
    yield "data of an idle stream", BEGUN + frame(DATA, stream=7, payload=b"x")
    yield "a reset of an idle stream", BEGUN + frame(RST_STREAM, stream=9, payload=bytes(4))
    yield "a short reset", BEGUN + frame(RST_STREAM, stream=1, payload=b"x")
    yield "a window grown by 0", BEGUN + frame(WINDOW_UPDATE, payload=bytes(4))
    yield "a window grown beyond its limit", BEGUN + frame(WINDOW_UPDATE, payload=b"\x7f\xff\xff\xff") * 3
    yield "a ping of seven bytes", BEGUN + frame(PING, payload=b"1234567")
    yield "a promise", BEGUN + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4) + grpc_headers(DESCRIBE))
    yield "a stream on itself", BEGUN + frame(PRIORITY, stream=1, payload=b"\x00\x00\x00\x01\x00")
    yield "goodbye", BEGUN + frame(GOAWAY, payload=bytes(8) + b"x" * 10_000)
    yield "a frame of an unknown type", BEGUN + frame(200, 255, 2**31 - 1, b"x" * 10_000)


def _wrong_calls() -> Iterator[tuple[str, bytes]]:
    call = BEGUN + opening(DESCRIBE)
    yield "an even stream", BEGUN + opening(DESCRIBE, 2) + frame(DATA, END_STREAM, 2, message(b""))
    yield "a stream that falls back", BEGUN + opening(DESCRIBE, 5) + opening(DESCRIBE, 3)
    yield "headers of the wrong table", BEGUN + frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\x0f")
    yield "headers cut off", BEGUN + frame(HEADERS, END_HEADERS, 1, grpc_headers(DESCRIBE)[:-3])
    yield "no headers", BEGUN + frame(HEADERS, END_HEADERS, 1, b"")
    yield "no path", BEGUN + frame(HEADERS, END_HEADERS, 1, header(b":method", b"POST"))
    for name, path in {
        "not text": b"/\xff\xfe\x80",
        "empty": b"",
        "long": b"/" + b"a" * 7_000,
        "of no service": b"/a/b",
        "odd": b"//\x00",
    }.items():
        yield f"a path that is {name}", BEGUN + opening(path) + frame(DATA, END_STREAM, 1, message(b""))
    yield "a header that is not text", BEGUN + opening(DESCRIBE, 1, (b"x", b"\xff\x00")) + frame(DATA, END_STREAM, 1, message(b""))
    yield (
        "a deadline that is none",
        BEGUN + opening(DESCRIBE, 1, (b"grpc-timeout", b"99999999999999H")) + frame(DATA, END_STREAM, 1, message(b"")),
    )
    yield "a deadline that is over", BEGUN + opening(DESCRIBE, 1, (b"grpc-timeout", b"0n")) + frame(DATA, END_STREAM, 1, message(b""))
    yield "a content type of others", BEGUN + opening(DESCRIBE, 1, (b"content-type", b"text/html"))
    yield "a header of 1 MB", BEGUN + _in_pieces(grpc_headers(DESCRIBE, (b"x", b"y" * 1_000_000)))
    yield "100,000 headers", BEGUN + _in_pieces(grpc_headers(DESCRIBE, *[(b"x", b"y")] * 100_000))
    yield "no message", call + frame(DATA, END_STREAM, 1)
    yield "a message of 4 GB", call + frame(DATA, 0, 1, message(b"x" * 100, length=2**32 - 1))
    yield "a message cut off", call + frame(DATA, END_STREAM, 1, message(b"x", length=100))
    yield "two messages", call + frame(DATA, END_STREAM, 1, message(b"") * 2)
    yield "a message packed without a word", call + frame(DATA, END_STREAM, 1, message(b"x", flag=1))
    yield "a message packed in an unknown way", call + frame(DATA, END_STREAM, 1, message(b"x", flag=200))
    yield "a call left open", call
    yield "padding beyond the frame", call + frame(DATA, 0x8, 1, b"\xff" + b"x")


def _in_pieces(block: bytes, size: int = 16_000) -> bytes:
    pieces = [block[start : start + size] for start in range(0, len(block), size)]
    return frame(HEADERS, 0, 1, pieces[0]) + b"".join(frame(CONTINUATION, 0, 1, piece) for piece in pieces[1:])


def _floods() -> Iterator[tuple[str, bytes]]:
    yield "a flood of pings", BEGUN + frame(PING, payload=bytes(8)) * 20_000
    yield "a flood of settings", BEGUN + settings((4, 65_535)) * 20_000
    yield "a flood of continuations", BEGUN + frame(HEADERS, 0, 1, grpc_headers(DESCRIBE)) + frame(CONTINUATION, 0, 1) * 50_000
    streams = range(1, 4_001, 2)
    yield "a flood of resets", BEGUN + b"".join(opening(DESCRIBE, n) + frame(RST_STREAM, 0, n, b"\0\0\0\x08") for n in streams)
    yield "a flood of open calls", BEGUN + b"".join(opening(READ, n) for n in streams)
    yield "a flood of empty data", BEGUN + opening(DESCRIBE) + frame(DATA, 0, 1) * 50_000
    yield "a flood of windows", BEGUN + frame(WINDOW_UPDATE, payload=b"\0\0\0\x01") * 50_000


def say(address: tuple[str, int], words: bytes, *, stay: bool = False) -> socket.socket | None:
    """Says it and listens until the other side has nothing more for a moment. With `stay` the connection is left open."""
    connection = socket.create_connection(address, SOCKET_SECONDS)
    try:
        connection.sendall(words)
        connection.settimeout(0.02)
        while connection.recv(65_536):
            pass
    except OSError:
        pass  # refused in the middle, or silent: both are answers
    if stay:
        return connection
    connection.close()
    return None


def close_all(connections: Iterable[socket.socket | None]) -> None:
    for connection in connections:
        if connection is not None:
            connection.close()
