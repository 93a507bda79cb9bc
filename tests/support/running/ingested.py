"""Files for `lakeward ingest`, and what it makes of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tiering.ingest.files import Shape, parsed_file


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    """A file of that content."""
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def parse(file: Path, schema: pa.Schema | None = None, required: tuple[str, ...] = ()) -> pa.Table:
    """All of its rows, read by the ending of its name."""
    with parsed_file(file, None, Shape(schema, required)) as parsed:
        table = pa.Table.from_batches(parsed.batches(), schema=parsed.schema)
        assert parsed.rows == table.num_rows
        return table
