"""Calls of procedures by name: arguments and results as JSON (`TieringControl.CallProcedure`), for clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from tiering.errors import InvalidAnswer, InvalidArgument, ServiceUnreachable
from tiering.model.call_results import Progress
from tiering.model.names import table_path
from tiering.model.tables import TablePath
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse
from tiering.wire.calls import call_options

ResultT = TypeVar("ResultT")
OnProgress = Callable[[Progress], None]

NO_RESULT_HINT = "Call again, with an idempotency key if it changes something: it may have had its effect."


class CallOptions(TypedDict, total=False):
    """What every call that changes something takes beside its arguments; without a caller it is the user of this process."""

    dry_run: bool
    idempotency_key: str | None
    caller: str | None


@dataclass(frozen=True)
class ProcedureCall(Generic[ResultT]):
    """A procedure with its arguments by their names in SQL; those that are None are left out. `timeout`: seconds that it may take.

    `no_result_hint`: what to do when the call ends without a result.
    """

    procedure: str
    result_class: type[ResultT]
    arguments: Mapping[str, object]
    timeout: float
    no_result_hint: str = NO_RESULT_HINT

    def request(self, options: CallOptions) -> CallProcedureRequest:
        """The message. Raises InvalidArgument for a time without a zone, InvalidName."""
        plain = {name: _plain(name, value) for name, value in self.arguments.items() if value is not None}
        pb_options = call_options(options.get("dry_run", False), options.get("idempotency_key"), options.get("caller"))
        return CallProcedureRequest(procedure=self.procedure, arguments_json=json.dumps(plain), options=pb_options)

    def result(self, pieces: Sequence[bytes], uri: str) -> ResultT:
        """What the pieces of the answer say, put together. Raises InvalidAnswer, and ServiceUnreachable if there are none."""
        if not pieces:
            raise ServiceUnreachable(f"the service at {uri} ended the call without a result", hint=self.no_result_hint)
        # A client that makes no such call does without: its import takes longer than a call.
        from pydantic import TypeAdapter, ValidationError

        try:
            adapter: TypeAdapter[ResultT] = TypeAdapter(self.result_class)
            return adapter.validate_json(b"".join(pieces))
        except ValidationError as error:
            raise InvalidAnswer(f"the answer to {self.procedure} cannot be read") from error


def pieces_of(step: CallProcedureResponse, on_progress: OnProgress | None) -> tuple[bytes, ...]:
    """The piece of the result that a step of the answer has; `on_progress` hears one that is progress."""
    if step.HasField("result_piece"):
        return (step.result_piece,)
    if on_progress is not None and step.progress:
        on_progress(Progress(step.progress))
    return ()


def check_zone(time: datetime, name: str) -> None:
    """Raises InvalidArgument, which says `name`, for a time without a zone."""
    if time.tzinfo is None:
        raise InvalidArgument(f"{name} has no time zone", hint="Such as datetime.now(UTC).")


def _plain(name: str, value: object) -> Any:
    if isinstance(value, datetime):
        check_zone(value, name)
        return value.isoformat()
    if isinstance(value, TablePath):
        # Checked before it is a text: a dot in a name would make it the path of another table.
        return str(table_path(value.database_name, value.table_name))
    if isinstance(value, Mapping):
        return {str(key): _plain(name, item) for key, item in value.items()}
    return value if isinstance(value, str | int | bool) else str(value)
