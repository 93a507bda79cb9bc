"""Decodes values of a KV snapshot (`schema id i16 | row`) to rows of their table, for values of any schema id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tiering.cluster.fluss.log.schemas import LogLayout, log_layout, parse_schema_json
from tiering.cluster.fluss.rows.encoding import RowEncoding
from tiering.cluster.fluss.rows.packed_bytes import PADDING, PackedBytes
from tiering.cluster.fluss.rows.ranges import rows_within_range
from tiering.errors import SourceChanged
from tiering.model.tables import TablePath

_SCHEMA_ID_BYTES = 2


class ValueDecoder:
    """Decodes values of one table. `schemas`: the JSON of each schema id that the table had when it was looked up."""

    def __init__(self, path: TablePath, schema: pa.Schema, schemas: Mapping[int, bytes], encoding: RowEncoding) -> None:
        self._path = path
        self._schema = schema
        self._schemas = schemas
        self._encoding = encoding
        self._layouts: dict[int, LogLayout] = {}

    def decode(self, values: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """Yields rows with the table's columns, one batch for each schema id among the values, of which there is at least one.

        Raises SourceChanged for a schema id, or a column, that the table did not have yet; ValueError for bytes that are not valid values;
        UnwritableRow for a row with a value that the table's types cannot hold.
        """
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        if lengths.min() < _SCHEMA_ID_BYTES:
            raise ValueError("a value is shorter than its schema id")
        data = PackedBytes.joined(values)
        ends = len(PADDING) + np.cumsum(lengths)
        starts = ends - lengths
        schema_ids = data.read("<i2", starts)
        for schema_id in np.unique(schema_ids).tolist():
            layout = self._layout(schema_id)
            rows = np.flatnonzero(schema_ids == schema_id)
            columns = rows_within_range(data, starts[rows] + _SCHEMA_ID_BYTES, ends[rows], layout.written, self._encoding)
            yield layout.rows(pa.RecordBatch.from_arrays(columns, schema=layout.written))

    def _layout(self, schema_id: int) -> LogLayout:
        if schema_id not in self._layouts:
            schema_json = self._schemas.get(schema_id)
            if schema_json is None:
                raise SourceChanged(
                    f"the columns of {self._path} changed since it was looked up: a row of it has the schema id {schema_id}"
                )
            self._layouts[schema_id] = log_layout(parse_schema_json(schema_json), self._schema, str(self._path))
        return self._layouts[schema_id]
