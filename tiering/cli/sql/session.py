"""Statements through an engine onto the screen, one after the other."""

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
    """Prints each result as soon as it is there. `timed`: on a terminal also how many rows, and how long it took."""

    engine: Engine
    output: OutputFormat
    timed: bool = False
    _printed: int = 0

    def run_all(self, statements: Sequence[Statement], source: str) -> None:
        """Stops at the first that fails; of several, says which. What ran before stays done. Raises StatementFailed."""
        for number, statement in enumerate(statements, 1):
            try:
                self.run(statement.text)
            except StatementFailed as error:
                if len(statements) > 1:
                    where = f"{source}, statement {number} of {len(statements)}, from line {statement.line}"
                    raise StatementFailed(f"{where}: {error.message}", hint=error.hint) from error
                raise

    def run(self, statement: str) -> None:
        """One statement. Raises StatementFailed."""
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
        """An empty line between two results as CSV: else the second header would look like a row."""
        if self.output is OutputFormat.CSV and self._printed:
            print()
        self._printed += 1
