"""Calls of procedures by name: arguments and results as JSON (`TieringControl.CallProcedure`), for clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from tiering.errors import InvalidAnswer, InvalidArgument
from tiering.rpc.v1.control_pb2 import CallProcedureRequest
from tiering.wire.calls import call_options

ResultT = TypeVar("ResultT")


class CallOptions(TypedDict, total=False):
    """What every call that changes something takes beside its arguments; without a caller it is the user of this process."""

    dry_run: bool
    idempotency_key: str | None
    caller: str | None


@dataclass(frozen=True)
class ProcedureCall(Generic[ResultT]):
    """A procedure with its arguments by their names in SQL; those that are None are left out. `timeout`: seconds that it may take."""

    procedure: str
    result_class: type[ResultT]
    arguments: Mapping[str, object]
    timeout: float

    def request(self, options: CallOptions) -> CallProcedureRequest:
        """The message. Raises InvalidArgument for a time without a zone."""
        plain = {name: _plain(name, value) for name, value in self.arguments.items() if value is not None}
        pb_options = call_options(options.get("dry_run", False), options.get("idempotency_key"), options.get("caller"))
        return CallProcedureRequest(procedure=self.procedure, arguments_json=json.dumps(plain), options=pb_options)

    def result(self, text: bytes) -> ResultT:
        """What the pieces of the answer say, put together. Raises InvalidAnswer."""
        # A client that makes no such call does without: its import takes longer than a call.
        from pydantic import TypeAdapter, ValidationError

        try:
            adapter: TypeAdapter[ResultT] = TypeAdapter(self.result_class)
            return adapter.validate_json(text)
        except ValidationError as error:
            raise InvalidAnswer(f"the answer to {self.procedure} cannot be read") from error


def _plain(name: str, value: object) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidArgument(f"{name} has no time zone", hint="Such as datetime.now(UTC).")
        return value.isoformat()
    return value if isinstance(value, str | int | bool) else str(value)
