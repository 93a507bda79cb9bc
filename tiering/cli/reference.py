"""The pages of reference as Markdown, from the definitions themselves.

`python -m tiering.cli.reference`, in the repository's root, writes `docs/reference.md` (what SQL sees), `docs/errors.md`,
`docs/security-grants.md`, and `docs/options.md` (what can be set: the catalog's options, a table's, those of every command, and the numbers
that the coordinator goes by). A test compares.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum, EnumType
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main

from sys_tables import reference
from sys_tables.reference import markdown_table
from sys_tables.registry import default_registry
from tiering.attribute_docs import attribute_docs
from tiering.cli import error_page, grants_page
from tiering.cli.main import app
from tiering.cli.spark.properties import CATALOG
from tiering.cluster.embedded.metadata import options as table_options
from tiering.coordinator.options import CoordinatorOptions
from tiering.lake_table_options import LAKE_TABLE_OPTIONS, PREFIX
from tiering.public_properties import ALLOWED_LOCATIONS, CATALOG_PROPERTIES

CATALOG_OPTIONS = Path("catalog/src/main/java/io/lakeward/spark/service/CatalogOptions.java")
_JAVA_CONSTANT = re.compile(
    r'(?:/\*\*(?P<doc>(?:(?!\*/).)*)\*/\s*)?(?:public |private )?static final String (?P<name>\w+) =\s*"(?P<value>[^"]*)";', re.DOTALL
)
_EXAMPLE = re.compile(r"^Example: (.+)$", re.MULTILINE)


def pages(root: Path) -> dict[Path, str]:
    """Text of each page by its path. `root`: the repository. Raises ValueError for an option that does not say what it is for."""
    java = (root / CATALOG_OPTIONS).read_text(encoding="utf-8")
    return {
        root / "docs/reference.md": reference.render(default_registry()),
        root / "docs/options.md": render(java),
        root / "docs/errors.md": error_page.render(),
        root / "docs/security-grants.md": grants_page.render(),
    }


def render(catalog_options_java: str) -> str:
    """The page of options, from the source of the plug-in's options and from this package."""
    parts = [
        "# Reference: options",
        "Made from the code by `python -m tiering.cli.reference`.",
        f"## The catalog `{CATALOG}`",
        f"Properties of Spark under `spark.sql.catalog.{CATALOG}.`; `lakeward spark-conf` prints them. Others are ignored. "
        "`uri`, `token-file` and `tls.*` are read from the configuration that Spark was started with; a session that sets them is refused.",
        markdown_table(("option", "default", "meaning"), _plugin_rows(catalog_options_java)),
        "## Tables",
        "Options of a table of the embedded cluster, given when it is made; `CALL fluss.sys.set_table_option` and `lakeward set-option`"
        " change them later. An unknown one that begins with `table.` or `iceberg.` is refused, and any with a line"
        " break or another control character. All others travel with the table; their values are not shown, since they may be secrets.",
        markdown_table(("option", "default", "meaning"), _table_rows(table_options)),
        "### Of the lake table",
        "`iceberg.<name>` reaches the lake table as `<name>`. There are these and no others: a table chooses no code, no place and no"
        " storage. A table that an older version made with others goes on without them, and what is in a lake table by other hands has no"
        " effect on Lakeward either.",
        markdown_table(("option", "values", "meaning"), _lake_table_rows()),
        "## Lake properties",
        "What `--lake-property` takes, as pyiceberg names it. Without `type`, `uri` and `warehouse` they add to those of the data folder's"
        " own lake. A property that names code (`py-io-impl`, `py-catalog-impl`, ...) is refused,"
        f" wherever it comes from. `{ALLOWED_LOCATIONS}` names locations beside the warehouse, separated by commas, in which files of lake"
        " tables may lie, such as data files that were imported. Files anywhere else are never opened.",
        "The coordinator tells tierers, and whoever asks, the values of these alone, URIs without user, password and unknown parameters:",
        ", ".join(f"`{name}`" for name in sorted(CATALOG_PROPERTIES)) + ".",
        "All others are secrets to it. Each process has its own, as pyiceberg's environment variables"
        " (`PYICEBERG_CATALOG__LAKE__ADLS__ACCOUNT_KEY=...` is `adls.account-key`) or in `.pyiceberg.yaml` in the home folder or in"
        " `PYICEBERG_HOME`. What a process has of its own goes before what the coordinator says: a URI with a user and a password is set"
        " there, too (`PYICEBERG_CATALOG__LAKE__URI`). A `.pyiceberg.yaml` in the current folder is not read.",
        "## Commands",
        "`--help` says the same. What comes from the environment is named.",
        *_command_sections(),
        "## What the coordinator goes by",
        "Milliseconds, bytes or numbers. Where a flag is named it can be set; the others are fixed in this version.",
        markdown_table(("name", "flag", "value", "meaning"), _coordinator_rows()),
    ]
    return "\n\n".join(parts) + "\n"


def _plugin_rows(java: str) -> Iterator[list[str]]:
    """Of `static final String TIMEOUT = "timeout"` with its Javadoc, and `DEFAULT_TIMEOUT` if there is one."""
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


def _table_rows(module: ModuleType) -> Iterator[list[str]]:
    documented = attribute_docs(inspect.getsource(module))
    names = {value: name for name, value in vars(module).items() if isinstance(value, str)}
    for option in table_options.KNOWN_OPTIONS:
        meaning = documented.get(names[option])
        if meaning is None:
            raise ValueError(f"{module.__name__}: the option {names[option]} has no docstring")
        yield [f"`{option}`", f"`{table_options.DEFAULTS[option]}`", meaning]


def _lake_table_rows() -> Iterator[list[str]]:
    for name, option in LAKE_TABLE_OPTIONS.items():
        yield [f"`{PREFIX}{name}`", option.values, option.meaning]


def _coordinator_rows() -> Iterator[list[str]]:
    documented = attribute_docs(inspect.getsource(CoordinatorOptions))
    flags = {parameter.name: parameter.opts[0] for parameter in _commands()["coordinator"].params}
    for option in dataclasses.fields(CoordinatorOptions):
        if isinstance(option.default, int):
            flag = f"`{flags[option.name]}`" if option.name in flags else ""
            yield [f"`{option.name}`", flag, f"{option.default:,}", documented[option.name]]


def _commands() -> Mapping[str, Any]:
    commands: Mapping[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return commands


def _command_sections() -> Iterator[str]:
    for name, command in _commands().items():
        if command.hidden:
            continue
        yield f"### `lakeward {name}`"
        yield inspect.cleandoc(_EXAMPLE.sub("", command.help)).strip()
        yield from (f"```\n{example}\n```" for example in _EXAMPLE.findall(command.help))
        shown = [parameter for parameter in command.params if parameter.name != "help" and not getattr(parameter, "hidden", False)]
        if shown:
            yield markdown_table(("option", "default", "meaning"), (_parameter_row(name, parameter) for parameter in shown))


def _parameter_row(command: str, parameter: Any) -> list[str]:
    if not parameter.help:
        raise ValueError(f"lakeward {command}: the option {parameter.name} does not say what it is for")
    meaning = parameter.help
    if isinstance(kind := parameter.type_descriptor.annotation, EnumType):
        choices: list[Enum] = list(kind)
        meaning += f" One of {', '.join(f'`{choice.value}`' for choice in choices)}."
    if parameter.envvar:
        meaning += f" From the environment: `{parameter.envvar}`."
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


def main() -> None:
    """Writes the pages."""
    for path, text in pages(Path.cwd()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
