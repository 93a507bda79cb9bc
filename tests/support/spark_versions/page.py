"""Writes the section of docs/versions.md about versions of Spark: `PYTHONPATH=.:tests .venv/bin/python -m support.spark_versions.page`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from support.repository import ROOT
from support.spark_versions.installations import OTHERS, REFERENCE, Installation
from support.spark_versions.matrix import Cell, answers, cells
from support.spark_versions.scene import scene
from support.spark_versions.statements import STATEMENTS, Limit
from tiering.cli.spark.jars import ICEBERG_RUNTIMES

PAGE = ROOT / "docs" / "versions.md"
HEADING = "## What is tested for each version of Spark\n"
INTRODUCTION = f"""{HEADING}
One jar of the plugin works on all versions of Spark 4 in this table, and [another one](connect.md#spark-35) on Spark 3.5. Each version
executes the same statements against one service, in a process of its own. `equal` means that each answer and each error equals that of
Spark {REFERENCE.version}, the version of all other tests. `limit N` means that some answers differ in a known way, which is named below the
table. A test runs the statements, and fails if a result differs from this page.
"""


def section(by_version: Mapping[str, Sequence[Cell]]) -> str:
    """Returns the section. `by_version`: the cells of each other version."""
    return "\n".join(_lines(by_version))


def _lines(by_version: Mapping[str, Sequence[Cell]]) -> Iterator[str]:
    installations = sorted((REFERENCE, *OTHERS), key=lambda installation: installation.version)
    limits = list(dict.fromkeys(limit for statement in STATEMENTS for limit in statement.limits.values()))
    yield INTRODUCTION
    yield f"| statements | {' | '.join(installation.version for installation in installations)} |"
    yield "|---" * (1 + len(installations)) + "|"
    runtimes = (_iceberg(installation) for installation in installations)
    yield f"| Iceberg's runtime (`iceberg-spark-runtime-*`) | {' | '.join(runtimes)} |"
    for topic in dict.fromkeys(statement.topic for statement in STATEMENTS):
        number = sum(statement.topic == topic for statement in STATEMENTS)
        results = (_result(topic, by_version.get(installation.version, ()), limits) for installation in installations)
        yield f"| {topic} ({number}) | {' | '.join(results)} |"
    yield ""
    for number, limit in enumerate(limits, start=1):
        yield f"- **limit {number}**: {limit.text}"
    yield ""


def _iceberg(installation: Installation) -> str:
    return ICEBERG_RUNTIMES[installation.spark].version if installation.has_iceberg else "none"


def _result(topic: str, of_version: Sequence[Cell], limits: Sequence[Limit]) -> str:
    different = [cell.limit for cell in of_version if cell.statement.topic == topic and cell.difference is not None]
    if None in different:
        return "different"
    numbers = sorted({limits.index(limit) + 1 for limit in different if limit is not None})
    return ", ".join(f"limit {number}" for number in numbers) or "equal"


def section_of(page: str) -> str:
    """Returns the section as a page has it."""
    _, heading, text = page.partition(HEADING)
    return heading + text.partition("\n## ")[0]


def main() -> None:
    """Asks all versions, and writes the section into the page."""
    statements = [statement.sql for statement in STATEMENTS]
    with TemporaryDirectory() as name, scene(Path(name)) as service:
        right = answers(service, REFERENCE, Path(name), statements)
        by_version = {}
        for installation in OTHERS:
            installation.fetch()
            by_version[installation.version] = cells(installation, answers(service, installation, Path(name), statements), right)
    page = PAGE.read_text()
    PAGE.write_text(page.replace(section_of(page), section(by_version)))
    for cell in (cell for of_version in by_version.values() for cell in of_version if not cell.is_explained):
        print(cell.installation.version, cell.statement.sql, cell.difference, sep="\n  ")


if __name__ == "__main__":
    main()
