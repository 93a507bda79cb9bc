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
from support.spark_versions.plugin import EXTENSION
from support.spark_versions.statements import DATABASE, STATEMENTS, Limit, Statement
from tiering.cli.spark.jars import ICEBERG_RUNTIME, jar_path
from tiering.cli.spark.properties import CATALOG_CLASS, catalog_lake_properties, catalog_properties

SECONDS = 600
"""For all statements of one version, on a machine with other work."""
WRONG_LAKE = "wrong_lake"
"""A catalog whose option `lake` names an Iceberg catalog that is made for another version of Spark."""
READ_WITH_WRONG_LAKE = f"SELECT min(text) FROM {WRONG_LAKE}.demo.flights"

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One statement and one version: `difference` from the locked version, None if the answers are equal."""

    statement: Statement
    version: str
    difference: str | None

    @property
    def limit(self) -> Limit | None:
        return self.statement.limits.get(short(self.version))

    @property
    def is_explained(self) -> bool:
        """Whether the answers differ just where a limit says so."""
        return (self.difference is None) == (self.limit is None)


def short(version: str) -> str:
    """The first two numbers."""
    return ".".join(version.split(".")[:2])


def properties(service: Deployment, installation: Installation, folder: Path) -> dict[str, str]:
    """Returns the properties of a Spark for `service`: what `lakeward spark-conf --lake` prints, with Iceberg's runtime for this Spark."""
    lake = catalog_lake_properties(service.lake_properties)
    if installation.iceberg_jar is not None and installation is not REFERENCE:
        lake["spark.jars"] = lake["spark.jars"].replace(str(jar_path(ICEBERG_RUNTIME)), str(installation.iceberg_jar))
    if installation.iceberg_jar is None:
        del lake["spark.sql.extensions"]
        name = lake.pop("spark.sql.catalog.fluss.lake")
        prefix = f"spark.sql.catalog.{WRONG_LAKE}"
        lake |= {prefix: CATALOG_CLASS, f"{prefix}.uri": service.uri, f"{prefix}.lake": name}
    if installation.is_spark_35:
        lake["spark.sql.extensions"] = f"{lake['spark.sql.extensions']},{EXTENSION}"
    catalog = catalog_properties(service.uri, installation.plugin)
    return {**SMALL_SPARK, "spark.sql.warehouse.dir": str(folder / "warehouse"), **catalog, **lake}


def answers(service: Deployment, installation: Installation, folder: Path, statements: Sequence[str]) -> list[Answer]:
    """Runs the statements on a Spark in a process of its own. The names of the version's database are replaced in the answers."""
    database = f"of_{short(installation.version).replace('.', '_')}"
    request = {
        "properties": properties(service, installation, folder),
        "statements": [statement.replace(DATABASE, database) for statement in statements],
    }
    # -P: the program's folder is not on the path of its modules.
    command = (sys.executable, "-P", run_statements.__file__)
    ended = subprocess.run(
        command,
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=installation.environment,
        cwd=folder,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    of_version: list[Answer] = json.loads(ended.stdout.splitlines()[-1].replace(database, DATABASE))
    return of_version


def cells(version: str, of_version: Sequence[Answer], of_reference: Sequence[Answer]) -> list[Cell]:
    """Returns a cell for each statement."""
    compared = zip(STATEMENTS, of_version, of_reference, strict=True)
    return [
        Cell(statement, version, difference(_stable(statement, answer), _stable(statement, right))) for statement, answer, right in compared
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
