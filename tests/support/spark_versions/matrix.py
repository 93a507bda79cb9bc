"""The answers of a version of Spark to all statements, and how they differ from those of the locked version."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import SMALL_SPARK
from support.spark_versions import run_statements
from support.spark_versions.installations import REFERENCE, Installation
from support.spark_versions.statements import DATABASE, STATEMENTS, Limit, Statement
from tiering.cli.spark.properties import CATALOG_CLASS, EXTENSIONS, catalog_lake_properties, catalog_properties, plugin_jar, with_call

SECONDS = 600
"""For all statements of one version, on a machine with other work."""
WRONG_LAKE = "wrong_lake"
"""A catalog whose option `lake` names an Iceberg catalog that is made for another version of Spark."""
READ_WITH_WRONG_LAKE = f"SELECT min(text) FROM {WRONG_LAKE}.demo.flights"

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One statement and one Spark: `difference` from the locked version, None if the answers are equal."""

    statement: Statement
    installation: Installation
    difference: str | None

    @property
    def limit(self) -> Limit | None:
        return self.statement.limits.get(self.installation.spark)

    @property
    def is_explained(self) -> bool:
        """Whether the answers differ just where a limit says so."""
        return (self.difference is None) == (self.limit is None)


def properties(service: Deployment, installation: Installation, folder: Path) -> dict[str, str]:
    """Returns the properties of a Spark for `service`: what `lakeward spark-conf --lake` prints for this Spark."""
    spark = installation.spark if installation.has_iceberg else REFERENCE.spark
    lake = catalog_lake_properties(service.lake_properties, spark=spark)
    if not installation.has_iceberg:
        del lake[EXTENSIONS]
        name = lake.pop("spark.sql.catalog.fluss.lake")
        prefix = f"spark.sql.catalog.{WRONG_LAKE}"
        lake |= {prefix: CATALOG_CLASS, f"{prefix}.uri": service.uri, f"{prefix}.lake": name}
    catalog = catalog_properties(service.uri, plugin_jar(spark))
    return with_call({**SMALL_SPARK, "spark.sql.warehouse.dir": str(folder / "warehouse"), **catalog, **lake}, spark)


def answers(service: Deployment, installation: Installation, folder: Path, statements: Sequence[str]) -> list[Answer]:
    """Runs the statements on a Spark in a process of its own. The names of the version's database are replaced in the answers."""
    database = f"of_{installation.spark.replace('.', '_')}"
    named = [statement.replace(DATABASE, database) for statement in statements]
    ended = executed(installation, properties(service, installation, folder), folder, named)
    assert ended.returncode == 0, ended.stderr[-3_000:]
    of_version: list[Answer] = json.loads(ended.stdout.splitlines()[-1].replace(database, DATABASE))
    return of_version


def executed(
    installation: Installation, spark_properties: Mapping[str, str], folder: Path, statements: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Returns the ended process of a Spark that executed the statements."""
    # -P: the program's folder is not on the path of its modules.
    return subprocess.run(
        (sys.executable, "-P", run_statements.__file__),
        input=json.dumps({"properties": dict(spark_properties), "statements": list(statements)}),
        capture_output=True,
        text=True,
        env=installation.environment,
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )


def cells(installation: Installation, of_version: Sequence[Answer], of_reference: Sequence[Answer]) -> list[Cell]:
    """Returns a cell for each statement."""
    compared = zip(STATEMENTS, of_version, of_reference, strict=True)
    return [
        Cell(statement, installation, difference(_stable(statement, answer), _stable(statement, right)))
        for statement, answer, right in compared
    ]


def difference(answer: Answer, right: Answer) -> str | None:
    """The first difference of an answer from the right one; None if they are equal."""
    return next(
        (
            f"{key}: {answer.get(key)} for {right.get(key)}"
            for key in ("error", "columns", "types", "rows")
            if answer.get(key) != right.get(key)
        ),
        None,
    )


def _stable(statement: Statement, answer: Answer) -> Answer:
    """An answer without values that differ between two calls, and an error without the lines that follow its message."""
    if "error" in answer:
        return {"error": str(answer["error"]).strip().splitlines()[0]}
    hidden = [name in statement.unstable for name in answer["columns"]]
    return {**answer, "rows": [["*" if hide else cell for hide, cell in zip(hidden, row, strict=True)] for row in answer["rows"]]}
