"""Runs statements with an engine and prints their results."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tiering.cli.sql.engine import Engine
from tiering.cli.sql.statements import Statement
from tiering.cli.terminal.output import OutputFormat, exact_text, print_result
from tiering.errors import StatementFailed


@dataclass
class SqlSession:
    """Prints each result as soon as it is known. `timed` also prints the number of rows and the duration."""

    engine: Engine
    output: OutputFormat
    timed: bool = False
    _printed: int = 0

    def run_all(self, statements: Sequence[Statement], source: str) -> None:
        """Runs statements until one fails. Raises StatementFailed with its number. The effects of the statements before it stay."""
        for number, statement in enumerate(statements, 1):
            try:
                self.run(statement.text)
            except StatementFailed as error:
                if len(statements) > 1:
                    where = f"{source}, statement {number} of {len(statements)}, from line {statement.line}"
                    raise StatementFailed(f"{where}: {error.message}", hint=error.hint) from error
                raise

    def run(self, statement: str) -> None:
        """Runs one statement and prints its result. Raises StatementFailed."""
        started = time.monotonic()
        result = self.engine.execute(statement)
        took = time.monotonic() - started
        if result.columns:
            self._separate()
            print_result(result.columns, result.rows, self.output, text=exact_text)
            sys.stdout.flush()
        if self.timed:
            count = f"{len(result.rows):,} row{'' if len(result.rows) == 1 else 's'}" if result.columns else "done"
            print(f"{count} in {took:.2f} s", file=sys.stderr)

    def _separate(self) -> None:
        """Prints an empty line between two results as CSV, so that the second header does not look like a row."""
        if self.output is OutputFormat.CSV and self._printed:
            print()
        self._printed += 1
