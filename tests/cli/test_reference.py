"""docs/options.md is the page that the code generates, and an option without a description is refused."""

from __future__ import annotations

import re

import pytest

from support.reference import status_proto
from support.reference.__main__ import pages
from support.reference.options_page import CATALOG_OPTIONS, render
from support.repository import ROOT
from tiering import errors

JAVA = (ROOT / CATALOG_OPTIONS).read_text()
FIRST = "  /**\n   * Required."
"""The Javadoc of an option begins so."""


def section(text: str, title: str) -> str:
    return text.split(f"{title}\n", 1)[1].split("\n#", 1)[0]


def test_the_pages_of_reference_are_those_of_the_code() -> None:
    for path, text in pages(ROOT).items():
        assert path.read_text() == text, "run `PYTHONPATH=.:tests .venv/bin/python -m support.reference` in the repository's root"


def test_errors_stand_in_the_phases_in_which_a_real_service_had_them() -> None:
    had = re.findall(r"^\| \w+ \| (\w+) \| ([A-Z_]+) \| (?:true|false) \|", (ROOT / "docs/on-call.md").read_text(), re.MULTILINE)
    assert ("BucketStopped", "WRITE") in had
    for name, phase in had:
        assert phase == "NULL" or phase in getattr(errors, name).phases, name


def test_an_option_of_the_catalog_comes_from_its_java_source() -> None:
    added = JAVA.replace(FIRST, '  /** More\n   * {@code of} it. */\n  static final String MORE = "more";\n\n' + FIRST)
    added = added.replace("  private static", '  private static final String DEFAULT_MORE = "7";\n  private static', 1)

    rows = section(render(added), "## The catalog `fluss`")

    assert "| `more` | `7` | More `of` it. |" in rows
    assert "| `uri` |  | Required. The Lakeward service" in rows
    assert "| `timeout` | `30s` |" in rows
    assert "| `retry-timeout` | `60s` |" in rows


def test_an_option_without_a_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="the option MORE has no Javadoc"):
        render(JAVA.replace(FIRST, '  static final String MORE = "more";\n\n' + FIRST))


def test_options_of_tables_commands_and_the_coordinator_have_defaults_and_flags() -> None:
    text = render(JAVA)

    assert "| `table.datalake.freshness` | `3 min` | Maximum age of the table's lake copy" in section(text, "## Tables")
    ingest = section(text, "### `lakeward ingest`")
    assert "| `TABLE` | required |" in ingest
    uri = "Address of the service; [::1]:PORT for IPv6. Separate several coordinators by commas. Environment variable: `LAKEWARD_URI`."
    assert f"| `--uri` | `127.0.0.1:7707` | {uri} |" in ingest
    assert "One of `parquet`, `csv`, `ndjson`." in ingest
    assert "parent-pid" not in text, "hidden options are not for people"
    coordinator = section(text, "## Options of the coordinator")
    assert "| `service_timeout_ms` | `--service-timeout-ms` | 120,000 |" in coordinator
    assert "| `tick_interval_ms` |  | 200 |" in coordinator


def test_a_new_column_of_the_status_gets_a_field_with_the_next_number_in_the_order_of_the_columns() -> None:
    proto = (ROOT / "proto/tiering/rpc/v1/status.proto").read_text()
    without_reason = proto.replace("  optional string status_reason = 14;\n", "")
    assert without_reason != proto
    assert status_proto.render(without_reason) == proto.replace("status_reason = 14;", "status_reason = 62;")
    with pytest.raises(ValueError, match="without a column: gone"):
        status_proto.render(proto.replace("int64 table_id = 10;", "int64 table_id = 10;\n  int64 gone = 62;"))
