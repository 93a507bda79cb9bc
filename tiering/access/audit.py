"""The audit: who did what, from where, to what object, with what outcome.

It is JSON lines in a file that only grows; `sys.audit` reads it.

A call that changes something writes a line when it is allowed (STARTED), so that there is a trace even if the process dies, and another
line when it ends. Both have its `call_id`. A refused call writes one line to a separate file, up to a number per minute. Full files are
kept under numbers; the newest is `.1`.

A failed write leaves no partial line in front of the next one. If a new file cannot be opened, the former file stays in use.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from heapq import merge
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import structlog

from tiering.access.identity import UNCHECKED, Identity, address_of
from tiering.access.line_limit import LineLimit
from tiering.access.tokens import public_id
from tiering.errors import LakewardError, SetupError, StoreError, Unauthenticated
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text

FILE_BYTES = 64 << 20
"""Size of one file: some 150,000 lines."""
KEPT_FILES = 10
"""Number of full files that are kept. To keep older lines, ship them elsewhere."""
KEPT_REFUSED_FILES = 3
"""Number of full files of refused calls that are kept."""
REFUSALS = 60
"""Upper bound of lines per minute for one principal's refused calls."""
MOST_REFUSALS = 600
"""Upper bound of lines per minute for all refused calls."""
LINES_OF_A_HOST = 10
"""Upper bound of lines per minute and host."""
LINES = 100
"""Upper bound of lines per minute for all hosts. At this rate, one day fills one file of refused calls."""
_OBJECT_LENGTH = 500
_BLOCK_BYTES = 64 << 10
"""Block size for reading a file from its end: some 150 lines."""

STARTED, ANSWERED, FAILED, REFUSED, GIVEN_UP = "STARTED", "ANSWERED", "FAILED", "REFUSED", "GIVEN_UP"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AuditEntry:
    """One line. Times are ISO 8601, UTC."""

    call_id: str
    occurred_at: str
    principal: str
    authentication: str
    on_behalf_of: str | None
    peer: str
    action: str
    object: str | None
    allowed: bool
    outcome: str
    error_class: str | None
    message: str | None
    idempotency_key: str | None


class AuditTrail:
    """The audit file, and a separate one for refused calls, so that refused calls cannot displace other lines. It is thread-safe."""

    def __init__(self, file: Path, file_bytes: int = FILE_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        """Opens the files. Raises SetupError for a file that cannot be written."""
        self.file = file
        self.refused_file = file.with_name(f"{file.stem}-refused{file.suffix}")
        self._limit = LineLimit(REFUSALS, MOST_REFUSALS, clock)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._done = _NumberedFiles(file, file_bytes, KEPT_FILES)
            self._refused = _NumberedFiles(self.refused_file, file_bytes, KEPT_REFUSED_FILES)
        except OSError as error:
            raise SetupError(f"the audit log {file} cannot be written: {error}", hint="Name another with --audit-log.") from error

    def add(self, entry: AuditEntry) -> None:
        """Appends an entry. Refused calls of one principal are limited, then only counted.

        Raises StoreError, so that nothing is done that cannot be audited.
        """
        if entry.outcome != REFUSED:
            self._write(self._done, entry)
            return
        if (summary := self._limit.summary()) is not None:
            counted = replace(entry, call_id=uuid4().hex, principal="", on_behalf_of=None, peer="", action="*", object=None)
            self._write(self._refused, replace(counted, message=summary, idempotency_key=None))
        if not entry.principal or self._limit.admits(entry.principal):  # calls of unknown callers were limited before
            self._write(self._refused, entry)

    def entries(self) -> Iterator[AuditEntry]:
        """Yields the entries of all kept files, the newest first. It reads only as far as the caller iterates."""
        yield from merge(self._done.entries(), self._refused.entries(), key=lambda entry: entry.occurred_at or "", reverse=True)

    def close(self) -> None:
        """Closes the files."""
        self._done.close()
        self._refused.close()

    def _write(self, files: _NumberedFiles, entry: AuditEntry) -> None:
        try:
            files.add((json.dumps(asdict(entry), ensure_ascii=False) + "\n").encode(errors="replace"))
        except OSError as error:
            raise StoreError(
                f"the audit log {files.file} cannot be written: {error}",
                hint="Check its disk. Without an audit, calls are refused.",
            ) from error


class _NumberedFiles:
    """An append-only file, and full ones under numbers. It is thread-safe. Every method may raise OSError."""

    def __init__(self, file: Path, file_bytes: int, kept: int) -> None:
        self.file = file
        self._file_bytes = file_bytes
        self._kept = kept
        self._lock = threading.Lock()
        self._descriptor = _opened(file)

    def add(self, line: bytes) -> None:
        with self._lock:
            if os.fstat(self._descriptor).st_size + len(line) > self._file_bytes:
                self._rotate()
            _append(self._descriptor, line)

    def entries(self) -> Iterator[AuditEntry]:
        with ExitStack() as stack:
            with self._lock:  # open all at once: a file that fills up meanwhile would be read under two names
                files = [stack.enter_context(open_file) for file in self._files() if (open_file := _to_read(file)) is not None]
            for file in files:
                for line in _lines_backwards(file):
                    if (entry := _entry(line)) is not None:
                        yield entry

    def close(self) -> None:
        os.close(self._descriptor)

    def _files(self) -> list[Path]:
        return [self.file, *(self._numbered(number) for number in range(1, self._kept + 1))]

    def _numbered(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")

    def _rotate(self) -> None:
        """Continues in a new file. Raises OSError; then the former file stays in use, and the next line tries again."""
        successor = self.file.with_name(f"{self.file.name}.next")
        descriptor = _opened(successor)
        try:
            if self.file.exists():  # false if the last rotation failed after this step
                self._make_room()
                self.file.replace(self._numbered(1))
            successor.replace(self.file)
        except OSError:
            os.close(descriptor)
            raise
        former, self._descriptor = self._descriptor, descriptor
        os.close(former)

    def _make_room(self) -> None:
        """Frees the number 1. Files that a failed rotation moved are not moved again: only files before the first gap are moved."""
        gap = next((number for number in range(1, self._kept) if not self._numbered(number).exists()), self._kept)
        for number in range(gap, 1, -1):
            self._numbered(number - 1).replace(self._numbered(number))


class AuditedCall:
    """One call between its first and last message. Its attributes are set as they become known."""

    def __init__(
        self, trail: AuditTrail | None, identity: Identity, action: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.object: str | None = None
        self.on_behalf_of: str | None = None
        self.idempotency_key: str | None = None
        self.is_started = False
        self._trail = trail
        self._identity = identity
        self._action = action
        self._now = now
        self._call_id = uuid4().hex

    def start(self) -> None:
        """Writes the line of an allowed call that changes something. Raises StoreError; then the call must not be performed."""
        if not self.is_started:
            self.is_started = True
            self._add(allowed=True, outcome=STARTED)

    def end(self, outcome: str, error_class: str | None = None, message: str | None = None) -> None:
        """Writes the line of an ended call. If the file cannot be written, that is only logged, because the call has ended."""
        try:
            self._add(allowed=outcome != REFUSED, outcome=outcome, error_class=error_class, message=message)
        except StoreError as error:
            _log.error("the end of a call could not be audited", action=self._action, error=error.message)

    def _add(self, *, allowed: bool, outcome: str, error_class: str | None = None, message: str | None = None) -> None:
        if self._trail is None:
            return
        about = None if self.object is None else outside_text(self.object, _OBJECT_LENGTH)
        self._trail.add(
            AuditEntry(
                call_id=self._call_id,
                occurred_at=self._now().isoformat(),
                principal=self._identity.principal,
                authentication=self._identity.authentication.value,
                on_behalf_of=self.on_behalf_of,
                peer=self._identity.peer,
                action=self._action,
                object=about,
                allowed=allowed,
                outcome=outcome,
                error_class=error_class,
                message=message,
                idempotency_key=self.idempotency_key,
            )
        )


_current: ContextVar[AuditedCall | None] = ContextVar("audited_call", default=None)


def current_audited_call() -> AuditedCall | None:
    """Returns the audited call of this task; None outside of one."""
    return _current.get()


def task_belongs_to(call: AuditedCall) -> None:
    """Sets the audited call for the remaining work of this asyncio task, and for tasks that it starts."""
    _current.set(call)


def _entry(line: bytes) -> AuditEntry | None:
    """Returns the entry of a line; None for a line that was cut by a crash of the machine."""
    try:
        values: Any = json.loads(line.decode(errors="replace"))
        return AuditEntry(**{field.name: values.get(field.name) for field in fields(AuditEntry)})
    except (ValueError, AttributeError):
        return None


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a file, the last first. Reads blocks from the end."""
    position = file.seek(0, os.SEEK_END)
    pieces: list[bytes] = []  # pieces of the line whose beginning was not read yet, the last first
    while position > 0:
        size = min(_BLOCK_BYTES, position)
        position -= size
        file.seek(position)
        first, *lines = file.read(size).split(b"\n")
        if lines:
            yield b"".join([lines.pop(), *reversed(pieces)])
            yield from reversed(lines)
            pieces = []
        pieces.append(first)
    yield b"".join(reversed(pieces))


def _to_read(file: Path) -> BinaryIO | None:
    try:
        return file.open("rb")
    except FileNotFoundError:
        return None


def _opened(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _append(descriptor: int, line: bytes) -> None:
    """Appends a whole line or nothing. A partial line from a crash is ended first. Raises OSError."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        line = b"\n" + line
    written = 0
    try:
        while written < len(line):
            written += os.write(descriptor, line[written:])
    except OSError:
        if os.fstat(descriptor).st_size == end + written:  # otherwise another process has written after it
            with suppress(OSError):  # for an append-only file; the next line then begins with a line end
                os.ftruncate(descriptor, end)
        raise


def rpc_name(method: str) -> str:
    """Returns the name of an RPC in the audit, such as `TieringStatus.ListTieringStatuses`."""
    service, _, name = method.rpartition("/")
    return f"{service.rpartition('.')[2]}.{name}"


class RefusedCallers:
    """Audit lines for calls without a valid authentication. It belongs to the service's event loop.

    Any program that reaches the port can cause them, so they are limited: further calls are counted, and one line has their number.
    """

    def __init__(
        self, trail: AuditTrail, clock: Callable[[], float] = time.monotonic, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._trail = trail
        self._limit = LineLimit(LINES_OF_A_HOST, LINES, clock)
        self._now = now

    def add(self, method: str, peer: str, token: str | None, error: LakewardError) -> None:
        """Adds a line for a call that was refused with `error`. If the file cannot be written, that is only logged."""
        if (summary := self._limit.summary()) is not None:
            self._write("*", "", Unauthenticated.__name__, summary)
        if not self._limit.admits(address_of(peer)):
            return
        token_id = None if token is None else public_id(token)
        shown = error.message if token_id is None or token_id in error.message else f"{error.message} (token {token_id})"
        self._write(rpc_name(method), peer, error.error_class, shown)

    def _write(self, action: str, peer: str, error_class: str, message: str) -> None:
        caller = replace(UNCHECKED, peer=outside_text(peer, NAME_TEXT_LIMIT))
        AuditedCall(self._trail, caller, action, self._now).end(REFUSED, error_class, outside_text(message))
