"""Turns errors of pyiceberg, the storage and the catalog's database into LakeUnavailable, redacted, with the cause kept."""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pydantic import ValidationError as MetadataInvalid
from pyiceberg import exceptions
from sqlalchemy.exc import SQLAlchemyError

from tiering.errors import LakeUnavailable
from tiering.lake.outside_errors import describe

_DAMAGED: tuple[type[Exception], ...] = (
    MetadataInvalid,
    exceptions.ValidationError,
    UnicodeDecodeError,
    EOFError,
    SystemError,
    OverflowError,
    zlib.error,
)
"""Errors of pyiceberg's readers for bytes that are not metadata. The last four come from its Avro decoder, which expects whole files."""
_OF_AVRO: tuple[type[Exception], ...] = (ValueError, TypeError, LookupError)
"""Errors of its Avro reader for other bytes, such as a schema without a type. Elsewhere they have other causes."""
_OUTSIDE: tuple[type[Exception], ...] = (
    OSError,  # also those of requests and pyarrow
    pa.ArrowException,
    SQLAlchemyError,
    ValueError,  # pyiceberg's error for wrong properties, unknown schemes and metadata it cannot read
    *(
        kind
        for kind in vars(exceptions).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == exceptions.__name__
    ),
)
_HINT = "Is the lake's catalog up, and may this user read and write its warehouse folder? Is its disk full?"
_GONE_HINT = (
    "Does the warehouse folder exist, is it the right one, and is it mounted? If it is, a file of the lake table was removed: restore it "
    "from a backup of the warehouse; the next round then continues. If metadata is lost, remove the table from the lake's catalog: "
    "sys.lake_tiering_status then names the call that creates a new one, or the number of rows that this leaves out."
)
_DAMAGED_HINT = (
    "A metadata file of the lake table is damaged: the .metadata.json that the catalog names, a snapshot's list of manifests, or one "
    "of these. Restore it from a backup of the warehouse; the next round then continues."
)


@contextmanager
def lake_errors(action: str, **ids: object) -> Iterator[None]:
    """Raises LakeUnavailable ("cannot <action>: ...") for errors of catalog or storage inside the block. Other errors pass."""
    try:
        yield
    except _DAMAGED + _OUTSIDE + _OF_AVRO as error:
        if isinstance(error, _DAMAGED) or _is_of_avro(error):
            raise LakeUnavailable(f"cannot {action}: its metadata cannot be read: {describe(error)}", hint=_DAMAGED_HINT, **ids) from error
        if not isinstance(error, _OUTSIDE):
            raise
        hint = _GONE_HINT if isinstance(error, FileNotFoundError) else _HINT
        raise LakeUnavailable(f"cannot {action}: {describe(error)}", hint=hint, **ids) from error


def _is_of_avro(error: Exception) -> bool:
    """Returns whether pyiceberg's Avro reader raised the error over the bytes of a file."""
    modules = (frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, _OF_AVRO) and any(module.startswith("pyiceberg.avro") for module in modules)
