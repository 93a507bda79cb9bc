"""Turns errors of pyiceberg, the storage and the catalog's database into LakeUnavailable, redacted, with the cause kept."""

from __future__ import annotations

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
    except _DAMAGED as error:
        raise LakeUnavailable(f"cannot {action}: its metadata cannot be read: {describe(error)}", hint=_DAMAGED_HINT, **ids) from error
    except _OUTSIDE as error:
        hint = _GONE_HINT if isinstance(error, FileNotFoundError) else _HINT
        raise LakeUnavailable(f"cannot {action}: {describe(error)}", hint=hint, **ids) from error
