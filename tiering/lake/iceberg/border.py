"""The border to pyiceberg, storage and the catalog's database: their errors become ours, redacted, with the cause kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pydantic import ValidationError as MetadataInvalid
from pyiceberg import exceptions
from sqlalchemy.exc import SQLAlchemyError

from tiering.errors import LakeUnavailable, cut_message
from tiering.redact import redact

_OUTSIDE: tuple[type[Exception], ...] = (
    OSError,  # also of requests and pyarrow
    pa.ArrowException,
    SQLAlchemyError,
    MetadataInvalid,
    ValueError,  # pyiceberg's for wrong properties, unknown schemes and metadata it cannot read
    *(
        kind
        for kind in vars(exceptions).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == exceptions.__name__
    ),
)
_HINT = "Is the lake's catalog up, and may this user read and write its warehouse folder? Is its disk full?"


@contextmanager
def lake_border(action: str, **ids: object) -> Iterator[None]:
    """Raises LakeUnavailable ("cannot <action>: ...") for what catalog or storage raise inside; other errors pass."""
    try:
        yield
    except _OUTSIDE as error:
        raise LakeUnavailable(f"cannot {action}: {describe(error)}", hint=_HINT, **ids) from error


def describe(error: BaseException) -> str:
    """Class and text of an outside error, without secrets, on one line."""
    text = " ".join(str(error).split())
    return cut_message(redact(f"{type(error).__name__}: {text}"), 1_000)
