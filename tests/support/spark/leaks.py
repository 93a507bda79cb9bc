"""Finds secrets in what Spark shows, logs and keeps: as they are, in base64, in hexadecimal, escaped, or as a list of numbers.

Tickets of reads and tasks of reads are found by their form, because a test does not know those of other processes.
"""

from __future__ import annotations

import json
import re
import urllib.request
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from tiering.coordinator.readers.tickets import TICKET_VERSION

SECONDS = 60
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}")
_HEX = re.compile(rb"[0-9A-Fa-f]{32,}")
_ESCAPED = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|u00([0-9a-fA-F]{2})|([0-3][0-7]{2})|([nrt\\\"']))")
_NUMBERS = re.compile(rb"-?\d{1,3}(?:, ?-?\d{1,3}){15,}")
_CONTROL = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_TICKET = re.compile(re.escape(TICKET_VERSION) + rb".{32}(?=x\x01)", re.DOTALL)
"""The version, the digest, and the first bytes of a compressed content (`coordinator.readers.tickets`)."""
_TICKET_CONTENT = b'{"read":'
_TASK = b"LWRT\x00"
"""The first bytes of a task (`union_read.task_codec`)."""


def leaks(content: bytes, secrets: Mapping[str, bytes]) -> set[str]:
    """Returns the names of the secrets in `content`, and "ticket" and "task" if it has one of a read."""
    names = set()
    for decoded in _decodings(content):
        names |= {name for name, secret in secrets.items() if secret in decoded}
        names |= {"ticket" for match in _TICKET.finditer(decoded) if _is_ticket(decoded[match.end() :])}
        names |= {"task"} if _TASK in decoded else set()
    return names


def _decodings(content: bytes) -> Iterator[bytes]:
    """Yields the content, and what its parts are in the forms in which texts show bytes."""
    yield content
    yield _ESCAPED.sub(_unescaped, content)
    for match in _BASE64.finditer(content):
        text = match[0].translate(bytes.maketrans(b"-_", b"+/"))
        for start in range(4):  # the value may begin within a longer text
            part = text[start:]
            part = part[: len(part) - (len(part) % 4 == 1)]  # no value has such a length
            yield b64decode(part + b"=" * (-len(part) % 4))
    for match in _HEX.finditer(content):
        for start in range(2):
            part = match[0][start:]
            yield bytes.fromhex(part[: len(part) - len(part) % 2].decode())
    for match in _NUMBERS.finditer(content):
        yield bytes(int(number) % 256 for number in match[0].split(b","))


def _unescaped(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, control = match[1] or match[2], match[3], match[4]
    if hexadecimal:
        return bytes.fromhex(hexadecimal.decode())
    return bytes([int(octal, 8)]) if octal else _CONTROL.get(control, control)


def _is_ticket(compressed: bytes) -> bool:
    with suppress(zlib.error):
        return zlib.decompressobj().decompress(compressed, len(_TICKET_CONTENT)) == _TICKET_CONTENT
    return False


def shown_by_ui(spark: SparkSession) -> dict[str, bytes]:
    """Returns what Spark's UI and its REST API show about the whole application, and the logs of its executors, by address."""
    root = str(spark.sparkContext.uiWebUrl)
    api = f"{root}/api/v1/applications/{spark.sparkContext.applicationId}"
    statements = f"{api}/sql?details=true&planDescription=true&length=10000"
    executions = [execution["id"] for execution in json.loads(_fetched(statements))]
    executors = json.loads(_fetched(f"{api}/executors"))
    logs = [f"{url}&byteLength=100000000" for executor in executors for url in executor.get("executorLogs", {}).values()]
    pages = [f"{root}/{page}/" for page in ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")]
    pages += [f"{root}/SQL/execution/?id={number}" for number in executions]
    interface = [f"{api}/{name}" for name in ("jobs", "stages?details=true", "environment", "executors", "storage/rdd")]
    return {url: _fetched(url) for url in (statements, *interface, *pages, *logs)}


def _fetched(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=SECONDS) as answer:
        content: bytes = answer.read()
    return content
