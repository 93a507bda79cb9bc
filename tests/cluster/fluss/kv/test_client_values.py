"""Values of KV snapshots that the client of Fluss 1.0 encoded with its own classes: Lakeward reads exactly their rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clusters.fluss_log import schema_json
from support.fluss_client.client_jar import FlussFormats
from support.values.any_values import bits
from support.values.fluss_values import ROW_TYPES, fluss_rows
from tiering.cluster.fluss.kv.snapshot_reader import ValueDecoder, ValueFormat
from tiering.cluster.fluss.log.packed_rows import RowEncoding
from tiering.model.tables import TablePath


@pytest.mark.parametrize("layout_version", [1, 2])
@pytest.mark.parametrize("encoding", list(RowEncoding))
@given(data=st.data())
def test_values_of_both_layouts_are_read(formats: FlussFormats, encoding: RowEncoding, layout_version: int, data: st.DataObject) -> None:
    """The tag of a value of layout 2 is -1 for the first row and grows."""
    rows = data.draw(fluss_rows(ROW_TYPES, least=1))
    value_format = ValueFormat.of({"table.kv.format": encoding.name, "table.kv.value-layout-version": str(layout_version)})
    assert value_format is not None
    decoder = ValueDecoder(TablePath("sales", "orders"), rows.schema, {1: schema_json(rows.schema)}, value_format)
    decoded = pa.Table.from_batches(decoder.decode(formats.values(rows, encoding, layout_version)))
    for name in rows.schema.names:
        # The client stores one NaN for all NaNs within lists.
        assert bits(decoded[name].combine_chunks(), one_nan=True) == bits(rows.column(name), one_nan=True), name
