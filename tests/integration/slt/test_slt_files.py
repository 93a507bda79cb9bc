"""Each `.slt` file of this folder has the answers that it says, on Spark and on DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.slt.slt_files import faults, read_records
from tiering.cli.sql.engine import Engine

FILES = sorted(Path(__file__).parent.glob("*.slt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_both_engines_have_the_answers_of_a_file(file: Path, engines: Mapping[str, Engine]) -> None:
    assert [
        f"{file.name}:{record.line}: {name} {fault}"
        for record in read_records(file, tuple(engines))
        for name in record.engines
        for fault in faults(record, engines[name])
    ] == []
