"""The options of a command that is one CALL of a procedure that changes something."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tiering.cli.terminal.options import DEFAULT_URI, DryRunOption, FormatOption, KeyOption, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.client import LakewardClient
from tiering.model.declare import row_in_sql
from tiering.procedures.base import Mutation, ResultT


@dataclass(frozen=True)
class CallOptions:
    """Values of these options. `with_options(CallOptions, "call")` adds them to a command."""

    uri: UriOption = DEFAULT_URI
    dry_run: DryRunOption = False
    idempotency_key: KeyOption = None
    output: FormatOption = OutputFormat.TABLE

    def perform(self, request: Mutation[ResultT]) -> ResultT:
        """Calls the procedure and returns its result. Raises its errors, and ServiceUnreachable."""
        with LakewardClient(self.uri) as client:
            return client.perform(replace(request, dry_run=self.dry_run, idempotency_key=self.idempotency_key))

    def print_row(self, result: object, left_out: Iterable[str] = ()) -> None:
        """Prints a result as its row in SQL, without the columns `left_out`."""
        print_rows([{name: value for name, value in row_in_sql(result).items() if name not in left_out}], self.output)
