"""The columns of a Parquet file of a lake table by field id. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tiering.model.schema.field_ids import FIELD_ID, with_inner, with_metadata

FIELD_ID_KEY = b"PARQUET:field_id"
"""Key by which pyarrow names the field id in a field's metadata."""


def stored_columns(schema: pa.Schema) -> pa.Schema:
    """Returns the columns of a Parquet file with the field ids of the file as ids of the fields. A field may have none."""
    return pa.schema([_stored_field(field) for field in schema])


def _stored_field(field: pa.Field[Any]) -> pa.Field[Any]:
    number = (field.metadata or {}).get(FIELD_ID_KEY)
    return with_metadata(with_inner(field, _stored_field), {FIELD_ID: None if number is None else number.decode()})
