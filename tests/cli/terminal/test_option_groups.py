"""A dataclass whose fields are options of every command that takes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer
from typer.testing import CliRunner

from tiering.cli.terminal.option_groups import with_options
from tiering.model.option import option

PortOption = Annotated[int, typer.Option(min=1, help="Where to listen.")]


@dataclass(frozen=True)
class Shared:
    port: PortOption = 7
    host: Annotated[str, typer.Option("--address")] = "here"


@dataclass(frozen=True)
class Inner:
    wait_ms: int = option(5, "How long to wait.", flag="--wait-ms", unit="MS", least=1)
    fixed: int = option(6, "No command line sets it.")


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    name: str = option("x", "A name.", flag="--name", variable="TEST_NAME")
    computed: str = "computed"


app = typer.Typer()


@app.command()
@with_options(Shared)
def first(context: typer.Context, options: Shared, name: str = "x") -> None:
    """The first of two."""
    print(options, name, context.args)


@app.command()
@with_options(Shared)
def second(options: Shared) -> None:
    print(options)


@app.command()
@with_options(Outer)
def third(options: Outer) -> None:
    print(options)


def run(*words: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, words)
    return ended.exit_code, ended.output


def test_each_field_is_an_option_of_each_command() -> None:
    assert run("first", "--port", "9", "--name", "y") == (0, "Shared(port=9, host='here') y []\n")
    assert run("second", "--address", "there") == (0, "Shared(port=7, host='there')\n")


def test_what_a_field_says_of_its_option_holds() -> None:
    assert run("first", "--port", "0")[0] == 2
    status, printed = run("first", "--help")
    assert status == 0
    assert "Where to listen." in printed
    assert "The first of two." in printed


def test_a_group_in_a_group_and_an_option_without_a_flag() -> None:
    assert run("third", "--wait-ms", "9", "--name", "y")[1] == "Outer(inner=Inner(wait_ms=9, fixed=6), name='y', computed='computed')\n"
    assert run("third", "--wait-ms", "0")[0] == run("third", "--fixed", "1")[0] == run("third", "--computed", "z")[0] == 2
    assert "How long to wait." in run("third", "--help")[1]
