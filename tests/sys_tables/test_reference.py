from __future__ import annotations

import re

from support.reference.system_tables_page import render
from sys_tables.registry import Registry, default_registry
from tiering.access.privileges import Privilege


def test_the_reference_names_everything_that_is_served() -> None:
    text = render(default_registry())
    for table in default_registry().tables:
        section = text.split(f"### `sys.{table.name}`")[1].split("### ")[0]
        assert table.comment in section
        assert [line.split("|")[1].strip(" `") for line in section.splitlines() if line.startswith("| `")] == table.schema.names
    for procedure in default_registry().procedures:
        section = text.split(f"### `CALL sys.{procedure.name}`")[1].split("### ")[0]
        names = [line.split("|")[1].strip(" `") for line in section.splitlines() if line.startswith("| `")]
        assert names == [*(parameter.name for parameter in procedure.parameters), *procedure.output_schema.names]


def test_types_defaults_and_comments_are_shown() -> None:
    lines = render(default_registry()).splitlines()
    assert "| `consecutive_failures` | INT | no | Failed rounds since the last success. The first fenced round does not count. |" in lines
    assert "| `table` | STRING | required | The table: db.t or cat.db.t. |" in lines
    assert any(line.startswith("| `timeout_ms` | BIGINT | `300000` |") for line in lines)


def test_only_privileges_that_exist_are_named() -> None:
    text = render(default_registry())
    for procedure in default_registry().procedures:
        section = text.split(f"### `CALL sys.{procedure.name}`")[1].split("### ")[0]
        privilege = section.split("Privilege: ")[1].split()[0].rstrip(".;")
        assert privilege in {"NONE", *Privilege}, procedure.name
    introduction = text.split("## Procedures")[1].split("### ")[0]
    assert not set(re.findall(r"\b[A-Z]{4,}\b", introduction)) - {"NONE", "NULL", "CALL", *Privilege}
    assert "(grants.md)" in introduction


def test_the_same_registry_gives_the_same_text_and_an_empty_one_no_sections() -> None:
    assert render(default_registry()) == render(default_registry())
    assert "### " not in render(Registry())
