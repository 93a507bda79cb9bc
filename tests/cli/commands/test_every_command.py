"""All commands have help with an example that parses, and completion."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer.main

from support.repository import ROOT
from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from tiering.cli.main import app
from tiering.cli.terminal.output import OutputFormat

PROGRAM = typer.main.get_command(app)


def leaves(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Commands by name; those of a group have its name before theirs."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS: dict[str, Any] = dict(leaves(PROGRAM))
EXAMPLE = re.compile(r"^Example: lakeward (?P<words>.+)$", re.MULTILINE)
MANUAL = ROOT / "docs" / "cli.md"
SHELL_GOES_ON = {"&&", "|", ">", "&", ";"}


def examples(command: Any) -> Iterator[list[str]]:
    """The words after `lakeward`, up to where the shell goes on."""
    for match in EXAMPLE.finditer(command.help):
        words = shlex.split(match["words"])
        yield words[: next((index for index, word in enumerate(words) if word in SHELL_GOES_ON), len(words))]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_that_parses(name: str) -> None:
    command = COMMANDS[name]
    parsed = list(examples(command))
    assert parsed, f"`lakeward {name} --help` has no line 'Example: lakeward {name} ...'"
    for words in parsed:
        assert " ".join(words).startswith(f"{name} ") or words == name.split()
        context = command.make_context(name, words[len(name.split()) :])
        assert set(context.params) == {parameter.name for parameter in command.params} - {"help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_says_what_it_does(name: str) -> None:
    silent = [parameter.name for parameter in COMMANDS[name].params if not getattr(parameter, "hidden", False) and not parameter.help]
    assert silent == []


def test_the_manual_has_every_command_once_with_what_it_prints() -> None:
    text = MANUAL.read_text(encoding="utf-8")
    assert sorted(re.findall(r"^### `lakeward ([\w -]+)`$", text, re.MULTILINE)) == sorted(COMMANDS)
    for name, section in re.findall(r"^### `lakeward ([\w -]+)`$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL):
        blocks = re.findall(r"^```\n\$ lakeward (.+)\n((?:.+\n)+)```$", section, re.MULTILINE)
        assert blocks, f"docs/cli.md does not show what `lakeward {name}` prints"
        for line, _ in blocks:
            words = shlex.split(line)
            assert words[: len(name.split())] == name.split()
            COMMANDS[name].make_context(name, words[len(name.split()) :])


def test_rows_come_in_three_forms_from_every_command_that_prints_rows() -> None:
    forms = {name: get_type_hints(command.callback).get("output") for name, command in COMMANDS.items()}
    assert {name for name, form in forms.items() if form is OutputFormat} >= {
        "tables",
        "status",
        "tier",
        "sweep",
        "sql",
        "ingest",
        "doctor",
        "validate",
    }
    assert set(forms.values()) == {None, OutputFormat}
    with_format = {name for name, command in COMMANDS.items() if any("--format" in parameter.opts for parameter in command.params)}
    assert with_format == {name for name, form in forms.items() if form is OutputFormat}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "pwsh"])
def test_completion_is_shown_for_the_shell_that_is_named(lakeward: Lakeward, shell: str) -> None:
    shown = lakeward("--show-completion", shell)
    assert (shown.status, shown.err) == (0, "")
    assert f"_LAKEWARD_COMPLETE=complete_{shell}" in shown.out or "complete_powershell" in shown.out


def test_completion_is_installed_where_bash_reads_it(lakeward: Lakeward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("alias ll='ls -l'\n")
    assert lakeward("--install-completion", "bash").status == 0
    rc = (tmp_path / ".bashrc").read_text()
    assert rc.startswith("alias ll='ls -l'\n")
    assert str(tmp_path / ".bash_completions" / "lakeward.sh") in rc
    loaded = subprocess.run(["bash", "-c", "source ~/.bashrc; complete -p lakeward"], capture_output=True, text=True, check=True)
    assert "_lakeward_completion" in loaded.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [("lakeward statu", "status"), ("lakeward tier sal", "sales.orders"), ("lakeward status --format j", "json")],
)
def test_bash_is_told_how_a_word_may_go_on(lakeward: Lakeward, monkeypatch: pytest.MonkeyPatch, words: str, expected: str) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setenv("_LAKEWARD_COMPLETE", "complete_bash")
    assert lakeward().out.split() == [expected]


def test_completing_a_table_without_a_service_says_nothing(
    stocked: Deployment, lakeward: Lakeward, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COMP_WORDS": "lakeward tier s", "COMP_CWORD": "2", "_LAKEWARD_COMPLETE": "complete_bash"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(os.environ, "LAKEWARD_URI", "127.0.0.1:1")
    ended = lakeward()
    assert (ended.out.strip(), ended.err) == ("", "")


ENGINES = "{'pyspark', 'pyiceberg', 'pandas', 'duckdb', 'sqlalchemy', 'sqlglot'}"
"""Each of these takes from a tenth of a second to two seconds to import."""


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("validate", "--help"),
        ("status", "--uri", "127.0.0.1:1"),
        ("validate", "sales.orders", "--uri", "127.0.0.1:1"),
        ("tables", "--uri", "127.0.0.1:1"),
        ("tier", "sales.orders", "--uri", "127.0.0.1:1"),
    ],
)
def test_a_command_that_needs_no_engine_waits_for_none(words: tuple[str, ...]) -> None:
    look = f"""
import sys
from tiering.cli.main import main
try:
    main()
finally:
    print("engines:", sorted({ENGINES} & sys.modules.keys()))
"""
    ended = subprocess.run([sys.executable, "-c", look, *words], capture_output=True, text=True, check=False)
    assert ended.stdout.endswith("engines: []\n"), ended.stderr


def test_the_process_that_starts_a_validation_reads_nothing_itself(tmp_path: Path) -> None:
    """The engines are imported once, by the child."""
    (tmp_path / "VERSION").write_text("1\n")
    look = f"""
import sys
from pathlib import Path
from tiering.cli.processes.data_folder import read_data_folder
from tiering.lake.catalog_properties import with_default_catalog
from tiering.validate import child
with_default_catalog({{}}, read_data_folder(Path({str(tmp_path)!r})).read_only_lake_properties)
print(sorted({ENGINES} & sys.modules.keys()))
"""
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.strip() == "[]"
