"""The base of all declarations of procedures: one frozen dataclass per procedure, which is its declaration and its request.

    @dataclass(frozen=True)
    class ResetErrors(Mutation[ResetErrorsResult]):
        procedure = "reset_errors"
        comment = "Resets the count of a table's errors."
        requirement = OPERATE_TABLE
        pool = Pool.STORE
        path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")

The fields declared with `parameter()` are the arguments in SQL, of programs and of the Python client. The class in brackets is the
result; its fields declared with `column()` are the columns in SQL.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from tiering.access.privileges import Privilege
from tiering.access.request_bounds import caller_name
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.errors import InvalidArgument
from tiering.model.declare import attached, column, declared, hidden, parameter
from tiering.model.rounds import RoundProgress
from tiering.model.tables import TablePath
from tiering.model.upkeep import UpkeepStats
from tiering.redaction.redact import MESSAGE_LIMIT, outside_text

ResultT = TypeVar("ResultT")

DESCRIBE_TABLE = Requirement(Privilege.DESCRIBE, PrivilegeTarget.TABLE)
TIER_TABLE = Requirement(Privilege.TIER, PrivilegeTarget.TABLE, audited=True)
OPERATE_TABLE = Requirement(Privilege.OPERATE, PrivilegeTarget.TABLE, audited=True)
OPERATE_SERVICE = Requirement(Privilege.OPERATE, PrivilegeTarget.SERVICE, audited=True)

ANSWER_SECONDS = 30
"""Time limit of a call that waits only for the store, beyond the time that it waits for its table."""

LOOK_SECONDS = 300
"""Time limit of a call that reads or changes the lake or the cluster."""

SWEEP_SECONDS = 3_600
"""Time limit of a sweep, which lists and reads the metadata of whole tables."""

VALIDATION_SECONDS = 24 * 3_600
"""Time limit of a validation, which reads whole tables."""


class Pool(StrEnum):
    """Threads, separated by what their work may wait for: a lake or a cluster that hangs must not keep users from pausing a table."""

    STORE = "store-call"
    LAKE_LOOK = "lake-look"
    EXPLANATION = "explanation"
    REPAIR = "repair"
    LEASE = "lease-call"
    VALIDATION = "validation"


@dataclass(frozen=True)
class Progress:
    """The progress of a waiting call: a line for people, and the progress of its round once the round reads."""

    message: str
    round: RoundProgress | None = None


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class CallRequest(Generic[ResultT]):
    """The arguments of one call of a procedure, and its caller. `on_progress` gets its progress; only the request of a client has it.

    `procedure` is its name in SQL. `pool` has the threads of its effect; None for an effect that reports progress, which chooses a pool for
    each of its steps. `answer_seconds` is a client's time limit, to which the client adds the argument `timeout_ms`. `row_class` has the
    columns in SQL; it is the class of the result, or of a tuple's items, unless `rows` returns other rows. `in_sql` False: only programs
    can call it.
    """

    procedure: ClassVar[str]
    comment: ClassVar[str]
    requirement: ClassVar[Requirement]
    pool: ClassVar[Pool | None] = None
    answer_seconds: ClassVar[int] = ANSWER_SECONDS
    result_class: ClassVar[Any]
    row_class: ClassVar[type]
    in_sql: ClassVar[bool] = True
    caller: str = attached(default="")
    on_progress: OnProgress | None = attached(default=None)

    def __init_subclass__(cls) -> None:
        """Takes the class of the result from the base class: `CallRequest[PauseTieringResult]`."""
        super().__init_subclass__()
        for base in cls.__dict__.get("__orig_bases__", ()):
            for argument in typing.get_args(base):
                if not isinstance(argument, TypeVar):
                    cls.result_class = argument
                    item = typing.get_args(argument)[0] if typing.get_origin(argument) is tuple else argument
                    cls.row_class = cls.__dict__.get("row_class", item)

    def __post_init__(self) -> None:
        """Redacts texts for people. Raises InvalidArgument for a negative time, and for a text that is longer than an error message.

        The limit exists because texts are stored, logged and displayed.
        """
        if (timeout_ms := getattr(self, "timeout_ms", 0)) < 0:
            raise InvalidArgument(f"timeout_ms must not be negative, but is {timeout_ms}")
        for argument in fields(self):
            value, declaration = getattr(self, argument.name), declared(type(self), argument)
            if not isinstance(value, str) or not declaration.identifies:
                continue
            if len(value) > MESSAGE_LIMIT:
                raise InvalidArgument(f"{argument.name} has at most {MESSAGE_LIMIT} characters; this one has {len(value)}")
            if declaration.is_free_text:
                object.__setattr__(self, argument.name, outside_text(value))
        object.__setattr__(self, "caller", caller_name(self.caller))

    def rows(self, result: ResultT) -> Iterable[object]:
        """Returns the rows of `row_class` for a result: a tuple's items, or the result itself. A text among rows is a line of progress."""
        return result if isinstance(result, tuple) else (result,)


@dataclass(frozen=True, kw_only=True)
class Mutation(CallRequest[ResultT]):
    """A request that changes something. It can be tried with `dry_run`, and repeated under an idempotency key."""

    dry_run: bool = parameter("Whether to only show what would be done.", default=False, identifies=False)
    idempotency_key: str | None = parameter(
        "Names the operation. A repeat with the same key and arguments gets the result of the first call, and has no effect.",
        default=None,
        identifies=False,
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments to which an idempotency key is bound, as JSON values. The table is called `table`, as in SQL."""
        named = [argument.name for argument in fields(self) if declared(type(self), argument).identifies]
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
class PauseResult:
    """The result of the procedures that pause or resume tiering or upkeep. `status` is the table's state."""

    path: TablePath = column("Full name of the table, as it is stored.", name="table")
    previous_paused: bool = column("Whether the table was paused before the call.")
    paused: bool = column("Whether the table is paused now.")
    status: str = column("State of the table's tiering.")


@dataclass(frozen=True)
class LeaseResult:
    """A lease after the call. `buckets`: number of buckets of the call; `unavailable`: number of these without the snapshot."""

    lease_id: str = column("Id of the lease.")
    state: str = hidden()
    buckets: int = hidden()
    unavailable: int = hidden()
    expires_at: datetime | None = column("When the lease ends unless it is renewed; NULL if it has ended.")


class UpkeepCallOutcome(StrEnum):
    """The state of a call for upkeep at the time of its answer."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    """There was nothing to do."""
    DROPPED = "DROPPED"
    """Other commits changed the files of all rewritten buckets, or preceded every attempt to commit an expiry."""
    WAITING = "WAITING"
    """The upkeep round has not begun. It will run although the call has ended."""
    RUNNING = "RUNNING"
    """The upkeep round runs. It continues although the call has ended."""
    PLANNED = "PLANNED"
    """A dry run, which ordered no upkeep."""
    UNKNOWN = "UNKNOWN"
    """The upkeep ended so long ago that only sys.lake_upkeep may have the result."""


@dataclass(frozen=True)
class UpkeepResult:
    """The result of a procedure that orders upkeep rounds. `reason`: why the upkeep is not done.

    `round_id` is the last of its rounds, and `rounds` is their number. `stats` are the sums of the rounds that ended, or for a dry run the
    numbers of the planned upkeep. `kept`: number of snapshots that stay after an expiry, by reason as text.
    """

    path: TablePath
    outcome: UpkeepCallOutcome
    reason: str | None = None
    round_id: str | None = None
    rounds: int = 0
    stats: UpkeepStats = field(default_factory=UpkeepStats)
    kept: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class UpkeepCall(Mutation[UpkeepResult]):
    """The part of a request that all procedures have which order upkeep rounds.

    An idempotency key is bound to the work, not to how long the caller waits. `wait_for_tierer`: whether the wait continues while no tierer
    is connected.
    """

    answer_seconds = LOOK_SECONDS
    wait_for_tierer: bool = hidden(default=False)
