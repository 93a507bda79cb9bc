"""Reads the footers of a clean log table's files without the rows that position deletes name: a later file may have their offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tiering.lake.file_lists import FileLists
from tiering.lake.proof.file_footer import FileFooter, Run, merged, without
from tiering.validate.clean.footers import FileFacts
from tiering.validate.engine import Engine
from tiering.validate.lake_view import text_literal


def living_footers(engine: Engine, files: FileLists, facts: Sequence[FileFacts]) -> list[FileFooter]:
    """Returns the footers of `facts` with the offsets of the rows that no position delete names. Raises duckdb.Error."""
    dead: defaultdict[str, list[int]] = defaultdict(list)
    if files.position_deletes:
        paths = ", ".join(text_literal(file.path) for file in files.position_deletes)
        wanted = ", ".join(text_literal(fact.file.location) for fact in facts) or "NULL"
        sql = f"SELECT DISTINCT file_path, pos FROM read_parquet([{paths}], hive_partitioning = false) WHERE file_path IN ({wanted})"
        for location, position in engine.rows(sql):
            dead[location].append(position)
    footers = ((fact.footer, dead[fact.file.location]) for fact in facts)
    return [replace(footer, runs=living_runs(footer.runs, positions)) for footer, positions in footers if footer is not None]


def living_runs(runs: Iterable[Run], dead: Sequence[int]) -> tuple[Run, ...]:
    """Returns `runs` without the rows at the positions `dead` of their file."""
    positions = merged((position, position + 1) for position in dead)
    left: list[Run] = []
    first = 0
    for start, stop in runs:
        shift, end = start - first, first + stop - start
        left += ((begin + shift, until + shift) for begin, until in without(first, end, positions))
        first = end
    return tuple(left)
