"""What may be asked that changes something: one frozen dataclass a procedure, and how such a request names its operation.

`IdempotentOperations` binds an idempotency key to the caller, the procedure and the `arguments` (DESIGN 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

from tiering.errors import InvalidArgument
from tiering.model.tables import TablePath
from tiering.redaction.redact import MESSAGE_LIMIT, outside_text
from tiering.wire.request_bounds import caller_name

ResultT = TypeVar("ResultT")


class CallOptions(TypedDict):
    """How any of them is asked for, as keyword arguments."""

    caller: str
    dry_run: bool
    idempotency_key: str | None


@dataclass(frozen=True, kw_only=True)
class Mutation(Generic[ResultT]):
    """The base of all of them; `ResultT` is what is answered.

    `procedure` is its name in SQL. Fields in `unnamed` say how it is asked, not what: a repeat may have others.
    Those in `free_words` are for people to read.
    """

    procedure: ClassVar[str]
    result_class: ClassVar[type]
    unnamed: ClassVar[frozenset[str]] = frozenset(CallOptions.__annotations__)
    free_words: ClassVar[tuple[str, ...]] = ()
    caller: str
    dry_run: bool = False
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        """Words of the caller are stored in events and with an idempotency key, as errors are, and shown: no longer than one, and clean."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and field.name not in self.unnamed and len(value) > MESSAGE_LIMIT:
                raise InvalidArgument(f"{field.name} has at most {MESSAGE_LIMIT} characters; this one has {len(value)}")
        object.__setattr__(self, "caller", caller_name(self.caller))
        for name in self.free_words:
            if (words := getattr(self, name)) is not None:
                object.__setattr__(self, name, outside_text(words))

    @property
    def arguments(self) -> dict[str, Any]:
        """What is asked, as JSON has it. The table is called `table`, as in SQL."""
        named = [field.name for field in fields(self) if field.name not in self.unnamed]
        return {"table" if name == "path" else name: _plain(getattr(self, name)) for name in named}


def _plain(value: Any) -> Any:
    if isinstance(value, TablePath):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class RetryResult:
    """The table's state afterwards, and when it is tried next if that is not at once."""

    path: TablePath
    status: str
    next_retry_time: datetime | None


@dataclass(frozen=True)
class RetryTiering(Mutation[RetryResult]):
    """Arguments of `CALL sys.retry_tiering` (SYS.md)."""

    procedure = "retry_tiering"
    result_class = RetryResult
    path: TablePath


@dataclass(frozen=True)
class PauseResult:
    """Whether the table was paused before and is now, and its state."""

    path: TablePath
    previous_paused: bool
    paused: bool
    status: str


@dataclass(frozen=True)
class PauseTiering(Mutation[PauseResult]):
    """Arguments of `CALL sys.pause_tiering` (SYS.md). `until` None = until somebody resumes it."""

    procedure = "pause_tiering"
    result_class = PauseResult
    free_words = ("reason",)
    path: TablePath
    reason: str | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class ResumeTiering(Mutation[PauseResult]):
    """Arguments of `CALL sys.resume_tiering` (SYS.md)."""

    procedure = "resume_tiering"
    result_class = PauseResult
    free_words = ("reason",)
    path: TablePath
    reason: str | None = None


class CancelOutcome(StrEnum):
    """What became of a cancellation (SYS.md)."""

    CANCELLED = "cancelled"
    TOO_LATE = "too_late"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CancelResult:
    """`state` of the round afterwards; None for an unknown one."""

    round_id: str
    state: str | None
    outcome: CancelOutcome


@dataclass(frozen=True)
class CancelTiering(Mutation[CancelResult]):
    """Arguments of `CALL sys.cancel_tiering` (SYS.md)."""

    procedure = "cancel_tiering"
    result_class = CancelResult
    free_words = ("message",)
    round_id: str
    message: str | None = None


@dataclass(frozen=True)
class ResetResult:
    """How many errors the table had counted."""

    path: TablePath
    cleared: int


@dataclass(frozen=True)
class ResetErrors(Mutation[ResetResult]):
    """Arguments of `CALL sys.reset_errors` (SYS.md)."""

    procedure = "reset_errors"
    result_class = ResetResult
    path: TablePath
