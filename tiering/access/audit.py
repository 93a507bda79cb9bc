"""Who did what, from where, on what, and what became of it: JSON lines in a file that only grows, and that `sys.audit` reads.

A call that changes something leaves a line when it is allowed (STARTED), so that there is a trace also if the process dies under it, and
another when it ends; both have its `call_id`. A refused call leaves one line. Full files are kept under numbers, the newest is `.1`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from tiering.access.identity import Identity
from tiering.errors import SetupError, StoreError
from tiering.redaction.redact import outside_text

FILE_BYTES = 64 << 20
"""Of one file: some 150,000 lines."""
KEPT_FILES = 10
"""Full ones. What is older has to be kept by whoever ships the lines elsewhere."""
_OBJECT_LENGTH = 500

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
    """The file. Thread-safe."""

    def __init__(self, file: Path, file_bytes: int = FILE_BYTES) -> None:
        """Raises SetupError for a file that cannot be written."""
        self.file = file
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._open()
        except OSError as error:
            raise SetupError(f"the audit log {file} cannot be written: {error}", hint="Name another with --audit-log.") from error

    def add(self, entry: AuditEntry) -> None:
        """Appends it. Raises StoreError: what cannot be audited is not done."""
        line = (json.dumps(asdict(entry), ensure_ascii=False) + "\n").encode(errors="replace")
        try:
            with self._lock:
                if os.fstat(self._descriptor).st_size + len(line) > self._file_bytes:
                    self._rotate()
                _write_all(self._descriptor, line)
        except OSError as error:
            raise StoreError(
                f"the audit log {self.file} cannot be written: {error}", hint="Look at its disk: nothing is done unaudited."
            ) from error

    def entries(self) -> Iterator[AuditEntry]:
        """The newest first, of all files that are kept."""
        for file in (self.file, *(self._numbered(number) for number in range(1, KEPT_FILES + 1))):
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except FileNotFoundError:
                continue
            for line in reversed(lines):
                if (entry := _entry(line)) is not None:
                    yield entry

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._descriptor)

    def _open(self) -> int:
        return os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _numbered(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")

    def _rotate(self) -> None:
        for number in range(KEPT_FILES, 1, -1):
            if self._numbered(number - 1).exists():
                self._numbered(number - 1).replace(self._numbered(number))
        self.file.replace(self._numbered(1))
        os.close(self._descriptor)
        self._descriptor = self._open()


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


def _entry(line: str) -> AuditEntry | None:
    """None for a line that was cut by a crash of the machine."""
    try:
        values: Any = json.loads(line)
        return AuditEntry(**{field.name: values.get(field.name) for field in fields(AuditEntry)})
    except (ValueError, AttributeError):
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
