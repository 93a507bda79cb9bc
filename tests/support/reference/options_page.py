"""The page `docs/options.md`: the options of the catalog, of tables, of all commands, and of the coordinator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, EnumType
from pathlib import Path
from typing import Any

import typer.main

from support.reference.markdown import markdown_table
from tiering.access.client_access import CONNECTION
from tiering.cli.main import app
from tiering.cli.spark.properties import CATALOG
from tiering.cli.terminal.help_page import EXAMPLE, FIRST_GROUPS, group_of
from tiering.coordinator.options import CoordinatorOptions
from tiering.lake.iceberg_options import LAKE_TABLE_OPTIONS, PREFIX
from tiering.lake.table_options import TABLE_OPTIONS
from tiering.model.option import options_of
from tiering.public_properties import ALLOWED_LOCATIONS, CATALOG_PROPERTIES

CATALOG_OPTIONS = Path("catalog/src/main/java/io/lakeward/spark/service/CatalogOptions.java")
_JAVA_CONSTANT = re.compile(
    r'(?:/\*\*(?P<doc>(?:(?!\*/).)*)\*/\s*)?(?:public |private )?static final String (?P<name>\w+) =\s*"(?P<value>[^"]*)";', re.DOTALL
)


def render(catalog_options_java: str) -> str:
    """Returns the page of options, from the Java source of the plugin's options and from the Python code."""
    parts = [
        "# Reference: options",
        "`PYTHONPATH=.:tests python -m support.reference` generates this page from the code.",
        f"## The catalog `{CATALOG}`",
        f"Properties of Spark under `spark.sql.catalog.{CATALOG}.`; `lakeward spark-conf` prints them. The plugin ignores any other "
        "property. It reads `uri`, `token-file` and `tls.*` from the configuration with which Spark was started. It refuses a session "
        "that sets them.",
        markdown_table(("option", "default", "meaning"), _plugin_rows(catalog_options_java)),
        "## Tables",
        "Options of a table of the embedded cluster. Set them when you create the table; `CALL fluss.sys.set_table_option` and"
        " `lakeward set-option` change them later. Lakeward refuses an unknown option that begins with `table.` or `iceberg.`, and any"
        " option with a line break or another control character. It stores all other options with the table and does not show their"
        " values, which may be secrets.",
        markdown_table(("option", "default", "meaning"), _table_rows()),
        "### Options of the lake table",
        "Lakeward sets the option `iceberg.<name>` of a table as the property `<name>` of its lake table. Only the options in this list are"
        " allowed, so that a table cannot choose code, a location or a storage. Lakeward ignores any other such property, also one that an"
        " older version or another program set.",
        markdown_table(("option", "values", "meaning"), _lake_table_rows()),
        *_lake_properties_section(),
        "## Commands",
        "The same text as `--help`.",
        *_connection_section(),
        *_command_sections(),
        "## Options of the coordinator",
        "Milliseconds, bytes or numbers. An option with a flag can be set; the others are fixed in this version.",
        markdown_table(("name", "flag", "value", "meaning"), _coordinator_rows()),
    ]
    return "\n\n".join(parts) + "\n"


def _lake_properties_section() -> list[str]:
    """Returns the paragraphs about the properties of the lake's catalog."""
    return [
        "## Lake properties",
        "`--lake-property` takes the properties of pyiceberg. Without `type`, `uri` and `warehouse`, they are added to the properties of"
        " the lake in the data folder. Lakeward refuses a property that names code (`py-io-impl`, `py-catalog-impl`, ...), wherever it"
        f" comes from. `{ALLOWED_LOCATIONS}` is a list of locations, separated by commas, that may hold files of lake tables beside the"
        " warehouse, such as imported data files. Lakeward never opens files in any other location.",
        "The coordinator reports only the values of these properties to tierers and clients, and only URIs without user, password and"
        " unknown parameters:",
        ", ".join(f"`{name}`" for name in sorted(CATALOG_PROPERTIES)) + ".",
        "It treats all other properties as secrets. Each process reads its own secrets from pyiceberg's environment variables"
        " (`PYICEBERG_CATALOG__LAKE__ADLS__ACCOUNT_KEY=...` is `adls.account-key`), or from `.pyiceberg.yaml` in the home folder or in"
        " `PYICEBERG_HOME`. The properties of a process override those that the coordinator reports, so set a URI with a user and a"
        " password there, too (`PYICEBERG_CATALOG__LAKE__URI`). Lakeward does not read a `.pyiceberg.yaml` in the current folder.",
    ]


def _plugin_rows(java: str) -> Iterator[list[str]]:
    """Yields a row for each `static final String TIMEOUT = "timeout"` with its Javadoc, and with `DEFAULT_TIMEOUT` as its default."""
    constants = {match["name"]: match for match in _JAVA_CONSTANT.finditer(java)}
    for name, match in constants.items():
        if name.startswith("DEFAULT_"):
            continue
        if not match["doc"]:
            raise ValueError(f"{CATALOG_OPTIONS.name}: the option {name} has no Javadoc")
        default = constants.get(f"DEFAULT_{name}")
        yield [f"`{match['value']}`", f"`{default['value']}`" if default else "", _javadoc(match["doc"])]


def _javadoc(text: str) -> str:
    plain = " ".join(line.strip().removeprefix("*").strip() for line in text.splitlines()).strip()
    return re.sub(r"\{@code ([^}]*)\}", r"`\1`", plain)


def _table_rows() -> Iterator[list[str]]:
    for option in TABLE_OPTIONS.values():
        yield [f"`{option.name}`", f"`{option.default}`", option.meaning]


def _lake_table_rows() -> Iterator[list[str]]:
    for name, option in LAKE_TABLE_OPTIONS.items():
        yield [f"`{PREFIX}{name}`", option.values, option.meaning]


def _coordinator_rows() -> Iterator[list[str]]:
    for name, option in options_of(CoordinatorOptions).items():
        value = getattr(CoordinatorOptions, name)
        if isinstance(value, int):
            yield [f"`{name}`", "" if option.flag is None else f"`{option.flag}`", f"{value:,}", option.meaning]


def _commands() -> Mapping[str, Any]:
    commands: Mapping[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return commands


def _connection_section() -> Iterator[str]:
    yield f"### {CONNECTION}"
    yield "Each command with the option `--uri` has these options, too ([docs/security.md](security.md))."
    yield _parameter_table("tables", (parameter for parameter in _shown("tables") if group_of(parameter) == CONNECTION))


def _shown(command: str) -> list[Any]:
    """Returns the arguments and options of a command that its help page shows, without `--help`."""
    parameters = _commands()[command].params
    return [parameter for parameter in parameters if parameter.name != "help" and not getattr(parameter, "hidden", False)]


def _command_sections() -> Iterator[str]:
    for name, command in _commands().items():
        if command.hidden:
            continue
        yield f"### `lakeward {name}`"
        yield inspect.cleandoc(EXAMPLE.sub("", command.help)).strip()
        yield from (f"```\n{example}\n```" for example in EXAMPLE.findall(command.help))
        for title, parameters in _groups(name).items():
            yield from [] if title in FIRST_GROUPS else [f"**{title}**"]
            yield _parameter_table(name, parameters)


def _groups(command: str) -> dict[str, list[Any]]:
    """Returns the arguments and options of a command by group, as on its help page, without those of the connection."""
    groups: dict[str, list[Any]] = {title: [] for title in FIRST_GROUPS}
    for parameter in _shown(command):
        if group_of(parameter) != CONNECTION:
            groups.setdefault(group_of(parameter), []).append(parameter)
    return {title: parameters for title, parameters in groups.items() if parameters}


def _parameter_table(command: str, parameters: Iterable[Any]) -> str:
    return markdown_table(("option", "default", "meaning"), (_parameter_row(command, parameter) for parameter in parameters))


def _parameter_row(command: str, parameter: Any) -> list[str]:
    if not parameter.help:
        raise ValueError(f"lakeward {command}: the option {parameter.name} has no description")
    meaning = parameter.help
    if isinstance(kind := parameter.type_descriptor.annotation, EnumType):
        choices: list[Enum] = list(kind)
        meaning += f" One of {', '.join(f'`{choice.value}`' for choice in choices)}."
    if parameter.envvar:
        meaning += f" Environment variable: `{parameter.envvar}`."
    return [_spelled(parameter), _default(parameter), meaning]


def _spelled(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or callable(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{getattr(value, 'value', value)}`"
