"""The codec of `TieringControl.CallProcedure`, by the declarations in `tiering/procedures`: arguments, progress and whole results."""

from __future__ import annotations

import dataclasses
import getpass
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypedDict

import pyarrow as pa

from tiering.access.request_bounds import ANONYMOUS
from tiering.errors import InvalidAnswer, InvalidArgument, ServiceUnreachable
from tiering.model.declare import SCALARS, parameters_of
from tiering.model.names import check_length, parse_table_path, table_path
from tiering.model.sql_types import ArgumentValue, Day, Instant
from tiering.model.tables import TablePath
from tiering.procedures.arguments import ProcedureInput, SessionNames
from tiering.procedures.base import CallRequest, Mutation, OnProgress, Progress, ResultT
from tiering.redaction.redact import outside_text
from tiering.rpc.v1.common_pb2 import Literal, NumbersByText
from tiering.rpc.v1.control_pb2 import Argument, CallProcedureRequest, CallProcedureResponse, PbProgress
from tiering.wire.codec import Codec

TableName = TablePath | str
"""A path, or `database.table` as SQL has it."""

MAX_ARGUMENTS = 1_000
"""Upper bound of arguments of one call."""

RESULT = "result"
"""Name of the only column of a whole result."""

PROGRESS = Codec(Progress, PbProgress)

ROUND_GOES_ON_HINT = "Call again: the round continues meanwhile."
NO_RESULT_HINT = "Call again, with an idempotency key if it changes something: the first call may have had its effect."


class CallOptions(TypedDict, total=False):
    """The options of every call that changes something. Without a caller it is the user of this process."""

    on_progress: OnProgress | None
    dry_run: bool
    idempotency_key: str | None
    caller: str


def path_of(table: TableName) -> TablePath:
    """Returns the path of a table that a caller names. Raises InvalidName."""
    return parse_table_path(table) if isinstance(table, str) else table


def literal_to_pb(value: Any, name: str = "a value") -> Literal | None:
    """Returns the literal of a value; None for NULL. Raises InvalidArgument, which says `name`, for a time without a zone, InvalidName."""
    match value:
        case None:
            return None
        case bool():
            return Literal(truth=value)
        case int():
            return Literal(number=value)
        case float():
            return Literal(real=value)
        case datetime():
            if value.tzinfo is None:
                raise InvalidArgument(f"{name} has no time zone", hint="Such as datetime.now(UTC).")
            return Literal(timestamp_us=Instant.of(value).microseconds)
        case TablePath():
            # Checked before it is a text: with a dot in a name it would be the path of another table.
            return Literal(text=str(table_path(value.database_name, value.table_name)))
        case Mapping():
            return Literal(numbers=NumbersByText(numbers={str(key): number for key, number in value.items()}))
        case _:
            return Literal(text=str(value))


def literal_from_pb(literal: Literal) -> ArgumentValue:
    """Returns the value of a literal; None for NULL."""
    match literal.WhichOneof("value"):
        case None:
            return None
        case "timestamp_us":
            return Instant(literal.timestamp_us)
        case "numbers":
            return dict(literal.numbers.numbers)
        case "number" if literal.is_date:
            return Day(literal.number)
        case kind:
            value: ArgumentValue = getattr(literal, kind)
            return value


def request_to_pb(request: CallRequest[Any]) -> CallProcedureRequest:
    """Returns the message with which a program asks for the whole result. Raises InvalidArgument for a time without a zone, InvalidName."""
    parameters = parameters_of(type(request), with_hidden=True)
    return CallProcedureRequest(
        name=request.procedure,
        arguments=[Argument(name=p.name, value=literal_to_pb(getattr(request, p.attribute), p.name)) for p in parameters],
        caller=getpass.getuser() if request.caller == ANONYMOUS else request.caller,
        whole_result=True,
    )


def request_from_pb(message: CallProcedureRequest, request_class: type[CallRequest[Any]]) -> CallRequest[Any]:
    """Returns the request that a message has. Raises InvalidArgument, InvalidName."""
    if len(message.arguments) > MAX_ARGUMENTS:
        raise InvalidArgument(f"{len(message.arguments)} arguments are asked for at once: at most {MAX_ARGUMENTS} can be")
    names = SessionNames(check_length(message.catalog, "catalog"), check_length(message.database, "database"))
    arguments = [(check_length(argument.name, "argument"), literal_from_pb(argument.value)) for argument in message.arguments]
    parameters = parameters_of(request_class, with_hidden=message.whole_result)
    request = ProcedureInput(request_class.procedure, parameters, arguments, names).read(request_class)
    if message.whole_result and (database_name := getattr(request, "database_name", None)) is not None:
        check_length(database_name, "database")
    request = dataclasses.replace(request, caller=message.caller)
    if isinstance(request, Mutation) and request.idempotency_key is None and message.HasField("idempotency_key"):
        return dataclasses.replace(request, idempotency_key=message.idempotency_key)
    return request


def timeout_seconds(request: CallRequest[Any]) -> float:
    """Returns the time limit of a call: that of its procedure, and the time that it waits."""
    return request.answer_seconds + float(getattr(request, "timeout_ms", 0)) / 1_000


def progress_to_pb(progress: Progress) -> CallProcedureResponse:
    """Returns a step of an answer that has progress."""
    return CallProcedureResponse(progress=PROGRESS.to_pb(dataclasses.replace(progress, message=outside_text(progress.message))))


def pieces_of(step: CallProcedureResponse, on_progress: OnProgress | None) -> tuple[bytes, ...]:
    """Returns the piece of the result that a step of the answer has. `on_progress` gets the progress of any other step."""
    if not step.HasField("progress"):
        return (step.arrow,)
    if on_progress is not None and step.progress.message:
        on_progress(PROGRESS.from_pb(step.progress))
    return ()


def result_schema(request_class: type[CallRequest[Any]]) -> pa.Schema:
    """Returns the Arrow schema of a whole result."""
    return pa.schema([pa.field(RESULT, _arrow_type(request_class.result_class), nullable=False)])


def result_from_pieces(request: CallRequest[ResultT], pieces: Sequence[bytes], uri: str) -> ResultT:
    """Returns the whole result in the pieces of an answer. Raises InvalidAnswer, and ServiceUnreachable if there are no pieces."""
    if not pieces:
        hint = ROUND_GOES_ON_HINT if hasattr(request, "timeout_ms") else NO_RESULT_HINT
        raise ServiceUnreachable(f"the service at {uri} ended the call without a result", hint=hint)
    try:
        [row] = pa.ipc.open_stream(b"".join(pieces)).read_all().to_pylist()
        result: ResultT = _value(request.result_class, row[RESULT])
    except (pa.ArrowException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidAnswer(f"the answer to {request.procedure} cannot be read") from error
    return result


@cache
def _arrow_type(annotation: Any) -> pa.DataType:
    """Returns the Arrow type of a value of a result. A dataclass is a struct of all its fields, also of those that SQL does not see."""
    arguments = typing.get_args(annotation)
    if types.NoneType in arguments:
        return _arrow_type(next(argument for argument in arguments if argument is not types.NoneType))
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation)
        return pa.struct([(field.name, _arrow_type(hints[field.name])) for field in dataclasses.fields(annotation)])
    if annotation in SCALARS:
        return SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return pa.string()
    if typing.get_origin(annotation) is tuple:
        return pa.list_(_arrow_type(arguments[0]))
    return pa.map_(*map(_arrow_type, arguments))


def _value(annotation: Any, value: Any) -> Any:
    """Returns a value of a result as its class has it. Raises ValueError, TypeError, KeyError or AttributeError for another value."""
    arguments = typing.get_args(annotation)
    if value is None:
        return None
    if types.NoneType in arguments:
        return _value(next(argument for argument in arguments if argument is not types.NoneType), value)
    if dataclasses.is_dataclass(annotation):
        hints = typing.get_type_hints(annotation)
        return annotation(**{name: _value(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return annotation(value)
    if typing.get_origin(annotation) is tuple:
        return tuple(_value(arguments[0], item) for item in value)
    return dict(value) if arguments else value
