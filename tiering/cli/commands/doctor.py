"""`lakeward doctor`: checks everything that Lakeward needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tiering.cli.doctor.findings import Finding, Verdict, findings
from tiering.cli.terminal.consoles import output_console, printable
from tiering.cli.terminal.exit_status import ExitStatus
from tiering.cli.terminal.lake_options import FlussConfOption, read_lake
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.errors import InvalidArgument

STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


def doctor(
    context: typer.Context,
    data: Annotated[Path, typer.Option("--data", metavar="FOLDER", help="Data folder to check.")] = Path("lakeward-data"),
    uri: Annotated[
        str | None,
        typer.Option(
            "--uri", metavar="HOST:PORT", envvar="LAKEWARD_URI", help=f"Address of the service. Default: {DEFAULT_URI}.", show_default=False
        ),
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark and read through the plugin. This takes some seconds.")] = False,
    fluss: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...", help="Servers of a Fluss cluster: check them, and how the cluster shares its lake.", show_default=False
        ),
    ] = None,
    fluss_conf: FlussConfOption = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Policy file to check (docs/grants.md).", show_default=False)
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Check everything that Lakeward needs, and tell how to repair what is wrong. The command changes nothing.

    Example: lakeward doctor --data ./lakeward-data --spark

    Example: lakeward doctor --fluss fluss-host:9123 --fluss-conf server.yaml
    """
    from tiering.cli.doctor.checks import all_checks
    from tiering.cli.doctor.service import Service

    lake = read_lake(context, None, fluss_conf)
    if lake is not None and fluss is None:
        raise InvalidArgument(
            "the options name the lake of a Fluss cluster, but no cluster", hint="Name the servers of the cluster with --fluss."
        )
    service = Service.ask(uri or DEFAULT_URI, asked_for=uri is not None)
    shown = _print_findings(findings(all_checks(service, data, spark, fluss, lake, policy)), output)
    if any(finding.verdict is Verdict.FAIL for finding in shown):
        raise typer.Exit(ExitStatus.FAILED)


def _print_findings(results: Iterable[Finding], output: OutputFormat) -> list[Finding]:
    """Prints the findings and returns them: one by one as text, or all at once as JSON or CSV."""
    if output is not OutputFormat.TABLE:
        shown = list(results)
        print_rows([asdict(finding) for finding in shown], output)
        return shown
    console = output_console()
    shown = []
    for finding in results:
        shown.append(finding)
        line = Text(f"{finding.verdict:<5}", style=STYLES[finding.verdict]).append(f"{finding.check:<16}", style="not bold default")
        console.print(line.append(printable(finding.result), style="not bold default"))
        if finding.mend:
            console.print(Text(f"{'':<21}-> {printable(finding.mend)}", style="cyan"))
    counts = {verdict: sum(finding.verdict is verdict for finding in shown) for verdict in Verdict}
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    return shown
