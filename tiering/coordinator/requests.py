"""The base of the request classes in `calls/`, one frozen dataclass per procedure.

A request class states its procedure, the class of its answer, and which of its fields an idempotency key is bound to (DESIGN 5;
`memory/idempotency.py` stores the keys).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from tiering.errors import InvalidArgument
from tiering.model.tables import TablePath
from tiering.redaction.redact import MESSAGE_LIMIT, outside_text
from tiering.wire.request_bounds import caller_name

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, kw_only=True)
class CallRequest(Generic[ResultT]):
    """The arguments of one procedure and its caller. `ResultT` is the type of the answer.

    `procedure` is its name in SQL. `result_class` is `ResultT` at run time, with which answers are stored and sent. Fields in `free_words`
    are texts for people, and are redacted like error messages.
    """

    procedure: ClassVar[str]
    result_class: ClassVar[Any]
    free_words: ClassVar[tuple[str, ...]] = ()
    unnamed: ClassVar[frozenset[str]] = frozenset({"caller"})
    caller: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for a text that is longer than an error message, because it would be stored, logged and displayed."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and field.name not in self.unnamed and len(value) > MESSAGE_LIMIT:
                raise InvalidArgument(f"{field.name} has at most {MESSAGE_LIMIT} characters; this one has {len(value)}")
        object.__setattr__(self, "caller", caller_name(self.caller))
        for name in self.free_words:
            if (words := getattr(self, name)) is not None:
                object.__setattr__(self, name, outside_text(words))


@dataclass(frozen=True, kw_only=True)
class Mutation(CallRequest[ResultT]):
    """A request that changes something. It can be tried with `dry_run`, and repeated under an idempotency key.

    Fields in `unnamed` describe how the request is made and not what it asks for, so that they may differ in a repeat.
    """

    unnamed: ClassVar[frozenset[str]] = CallRequest.unnamed | {"dry_run", "idempotency_key"}
    dry_run: bool = False
    idempotency_key: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values. The table is called `table`, as in SQL."""
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
