"""Who did what, from where, on what, and what became of it: JSON lines in a file that only grows, and that `sys.audit` reads.

A call that changes something leaves a line when it is allowed (STARTED), so that there is a trace also if the process dies under it, and
another when it ends; both have its `call_id`. A refused call leaves one line, in a file of its own, up to a number a minute. Full files are
kept under numbers, the newest is `.1`.

A write that failed half-way leaves no half line that the next could stick to, and a file that cannot be begun leaves the one before in use.
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

from tiering.access.identity import Identity
from tiering.access.refusals.line_limit import LineLimit
from tiering.errors import SetupError, StoreError
from tiering.redaction.redact import outside_text

FILE_BYTES = 64 << 20
"""Of one file: some 150,000 lines."""
KEPT_FILES = 10
"""Full ones. What is older has to be kept by whoever ships the lines elsewhere."""
KEPT_REFUSED_FILES = 3
"""Full ones of refused calls."""
REFUSALS = 60
"""Lines of one principal's refused calls in a minute."""
MOST_REFUSALS = 600
"""Lines of all refused calls in a minute."""
_OBJECT_LENGTH = 500
_BLOCK_BYTES = 64 << 10
"""Of a file that is read from its end: some 150 lines."""

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
    """The file, and the one of refused calls beside it: however many these are, they push out no line of what was done. Thread-safe."""

    def __init__(self, file: Path, file_bytes: int = FILE_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises SetupError for a file that cannot be written."""
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
        """Appends it; of a principal's refused calls only so many, and then their number. Raises StoreError: what cannot be audited is not
        done.
        """
        if entry.outcome != REFUSED:
            self._write(self._done, entry)
            return
        if (summary := self._limit.summary()) is not None:
            counted = replace(entry, call_id=uuid4().hex, principal="", on_behalf_of=None, peer="", action="*", object=None)
            self._write(self._refused, replace(counted, message=summary, idempotency_key=None))
        if not entry.principal or self._limit.admits(entry.principal):  # those of unknown callers were counted before
            self._write(self._refused, entry)

    def entries(self) -> Iterator[AuditEntry]:
        """The newest first, of all files that are kept; of them no more is read than is asked for."""
        yield from merge(self._done.entries(), self._refused.entries(), key=lambda entry: entry.occurred_at or "", reverse=True)

    def close(self) -> None:
        """Lets go of the files."""
        self._done.close()
        self._refused.close()

    def _write(self, files: _NumberedFiles, entry: AuditEntry) -> None:
        try:
            files.add((json.dumps(asdict(entry), ensure_ascii=False) + "\n").encode(errors="replace"))
        except OSError as error:
            raise StoreError(
                f"the audit log {files.file} cannot be written: {error}", hint="Look at its disk: nothing is done unaudited."
            ) from error


class _NumberedFiles:
    """A file that lines are appended to, and full ones under numbers. Thread-safe. Everything may raise OSError."""

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
            with self._lock:  # all at once: a file that fills up meanwhile would be read under two names
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
        """Goes on in a new file. Raises OSError: then the one before is still in use, and the next line tries again."""
        successor = self.file.with_name(f"{self.file.name}.next")
        descriptor = _opened(successor)
        try:
            if self.file.exists():  # not if the last rotation failed behind this
                self._make_room()
                self.file.replace(self._numbered(1))
            successor.replace(self.file)
        except OSError:
            os.close(descriptor)
            raise
        former, self._descriptor = self._descriptor, descriptor
        os.close(former)

    def _make_room(self) -> None:
        """Frees the number 1. Whatever a rotation that failed has moved is not moved again: only files before the first gap are."""
        gap = next((number for number in range(1, self._kept) if not self._numbered(number).exists()), self._kept)
        for number in range(gap, 1, -1):
            self._numbered(number - 1).replace(self._numbered(number))


class AuditedCall:
    """One call between its first message and its last; what is known of it grows."""

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
        """It is allowed, and changes something. Raises StoreError: then it must not."""
        if not self.is_started:
            self.is_started = True
            self._add(allowed=True, outcome=STARTED)

    def end(self, outcome: str, error_class: str | None = None, message: str | None = None) -> None:
        """A line for how it ended. It has ended: a file that cannot be written is logged alone."""
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
    """Of the call that this task works for; None outside of one."""
    return _current.get()


def task_belongs_to(call: AuditedCall) -> None:
    """The rest of this asyncio task, which is one call, and what it starts."""
    _current.set(call)


def _entry(line: bytes) -> AuditEntry | None:
    """None for a line that was cut by a crash of the machine."""
    try:
        values: Any = json.loads(line.decode(errors="replace"))
        return AuditEntry(**{field.name: values.get(field.name) for field in fields(AuditEntry)})
    except (ValueError, AttributeError):
        return None


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    """Lines of a file, the last first. Reads block by block, from the end."""
    position = file.seek(0, os.SEEK_END)
    pieces: list[bytes] = []  # of the line whose beginning is not read yet, the last first
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
    """Appends a line, or nothing of it, behind a half line that was left by a crash. Raises OSError."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        line = b"\n" + line
    written = 0
    try:
        while written < len(line):
            written += os.write(descriptor, line[written:])
    except OSError:
        if os.fstat(descriptor).st_size == end + written:  # else somebody else has written behind it
            with suppress(OSError):  # a file that may only grow: the next line begins with a line end
                os.ftruncate(descriptor, end)
        raise
