"""Calls of procedures by name: arguments and results as JSON (`TieringControl.CallProcedure`), for clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, TypedDict

from tiering.access.request_bounds import ANONYMOUS
from tiering.errors import InvalidAnswer, InvalidArgument, ServiceUnreachable
from tiering.model.declare import names_in_sql
from tiering.model.names import table_path
from tiering.model.tables import TablePath
from tiering.procedures.base import CallRequest, Progress, ResultT
from tiering.rpc.v1.control_pb2 import CallProcedureRequest, CallProcedureResponse
from tiering.wire.calls import call_options

_OPTIONS = ("dry_run", "idempotency_key", "caller")

OnProgress = Callable[[Progress], None]

ROUND_GOES_ON_HINT = "Call again: the round continues meanwhile."
NO_RESULT_HINT = "Call again, with an idempotency key if it changes something: the first call may have had its effect."


class CallOptions(TypedDict, total=False):
    """The options of every call that changes something. Without a caller it is the user of this process."""

    dry_run: bool
    idempotency_key: str | None
    caller: str


def request_to_pb(request: CallRequest[Any]) -> CallProcedureRequest:
    """Returns the message; it omits arguments that are None. Raises InvalidArgument for a time without a zone, InvalidName."""
    names = {attribute: name for name, attribute in names_in_sql(type(request)).items()}
    values = {names.get(field.name, field.name): getattr(request, field.name) for field in fields(request) if field.name not in _OPTIONS}
    plain = {name: _plain(name, value) for name, value in values.items() if value is not None}
    caller = None if request.caller == ANONYMOUS else request.caller
    pb_options = call_options(getattr(request, "dry_run", False), getattr(request, "idempotency_key", None), caller)
    return CallProcedureRequest(procedure=request.procedure, arguments_json=json.dumps(plain), options=pb_options)


def timeout_seconds(request: CallRequest[Any]) -> float:
    """Returns the time limit of a call: that of its procedure, and the time that it waits."""
    return request.answer_seconds + float(getattr(request, "timeout_ms", 0)) / 1_000


def result_from_pieces(request: CallRequest[ResultT], pieces: Sequence[bytes], uri: str) -> ResultT:
    """Returns the result in the pieces of an answer. Raises InvalidAnswer, and ServiceUnreachable if there are no pieces."""
    if not pieces:
        hint = ROUND_GOES_ON_HINT if hasattr(request, "timeout_ms") else NO_RESULT_HINT
        raise ServiceUnreachable(f"the service at {uri} ended the call without a result", hint=hint)
    # Imported here because the import takes longer than a call, and not every client makes such a call.
    from pydantic import TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[ResultT] = TypeAdapter(request.result_class)
        return adapter.validate_json(b"".join(pieces))
    except ValidationError as error:
        raise InvalidAnswer(f"the answer to {request.procedure} cannot be read") from error


def pieces_of(step: CallProcedureResponse, on_progress: OnProgress | None) -> tuple[bytes, ...]:
    """Returns the piece of the result in a step of the answer. `on_progress` gets a step that is progress."""
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
