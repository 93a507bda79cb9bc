"""Files for `lakeward ingest`, and what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tiering.ingest.files import Shape, parsed_files
from tiering.ingest.formats import Reading


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    """A file of that content."""
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def parse(file: Path, schema: pa.Schema | None = None, required: tuple[str, ...] = (), reading: Reading | None = None) -> pa.Table:
    """All of its rows, read by the ending of its name."""
    return parse_all([file], Shape(schema, required), reading)


def parse_all(files: Sequence[Path | str], shape: Shape | None = None, reading: Reading | None = None) -> pa.Table:
    """All rows of the files."""
    with parsed_files([str(file) for file in files], reading, shape) as parsed:
        table = pa.Table.from_batches(parsed.batches(), schema=parsed.schema)
        assert parsed.rows == table.num_rows
        return table
