"""Messages between the console and the process of a statement: a length of four bytes, and a body.

The first byte of a body from the process says what it is: READ (a request for rows), ANSWER or ERROR.
"""

from __future__ import annotations

import struct
from typing import IO

READ, ANSWER, ERROR = b"R", b"A", b"E"
MAX_MESSAGE_BYTES = 300 << 20
_LENGTH = struct.Struct(">I")


def write_message(stream: IO[bytes], body: bytes) -> None:
    """Writes a message."""
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Returns the next message; None at the end of the stream, and for a message that is cut or too long."""
    head = stream.read(4)
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else MAX_MESSAGE_BYTES + 1
    body = stream.read(length) if length <= MAX_MESSAGE_BYTES else b""
    return body if len(body) == length else None
