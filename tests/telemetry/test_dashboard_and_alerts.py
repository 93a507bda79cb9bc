"""The dashboard is Grafana's by its own types, and every query of dashboard and alerts is about metrics and columns that there are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import sqlglot
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from sqlglot import exp

from support.repository import ROOT
from sys_tables.registry import default_registry
from tiering.telemetry.alerts import ALERTS, rules
from tiering.telemetry.dashboard import PANELS, dashboard
from tiering.telemetry.metrics import METRICS, TABLE, Kind, Metric

SERIES = {metric.name: metric for metric in METRICS}
SERIES["up"] = Metric("up", "Prometheus' own: whether a scrape was answered.", ("job", "instance"))
SERIES |= {
    f"{metric.name}{suffix}": metric for metric in METRICS if metric.kind is Kind.HISTOGRAM for suffix in ("_bucket", "_sum", "_count")
}
_TEMPLATED = re.compile(r"\{\{ \$labels\.\w+ \}\}")


def selectors(expression: Any) -> Iterator[promql_parser.VectorSelector]:
    """All of a parsed query."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    elif isinstance(expression, promql_parser.MatrixSelector):
        yield expression.vector_selector
    for name in ("expr", "lhs", "rhs", "param"):
        if (part := getattr(expression, name, None)) is not None:
            yield from selectors(part)
    for part in getattr(expression, "args", None) or ():
        yield from selectors(part)


def check_promql(text: str) -> None:
    """Prometheus can read it, and each series in it is declared, with the labels that it is asked for."""
    parsed = list(selectors(promql_parser.parse(text.replace("$__rate_interval", "5m"))))
    assert parsed, text
    for selector in parsed:
        metric = SERIES[selector.name]
        assert {matcher.name for matcher in selector.matchers.matchers} <= set(metric.labels), text


def test_grafana_reads_every_field_of_the_dashboard() -> None:
    """Grafana's types drop fields that they do not know, and a field with another type is an error."""
    register_default_plugins()
    built = json.loads(json.dumps(dashboard()))
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(built)))
    assert lost(built, read) == []
    wrong = Dashboard.from_json({**built, "titel": "Lakeward"})
    assert lost({**built, "titel": "Lakeward"}, json.loads(JSONEncoder().encode(wrong))) == ["titel"]


def lost(built: Any, read: Any, path: str = "") -> list[str]:
    """Paths of values that are not in `read` as they are in `built`."""
    if isinstance(built, dict) and isinstance(read, dict):
        return [item for key, value in built.items() for item in lost(value, read.get(key, "(missing)"), f"{path}.{key}".strip("."))]
    if isinstance(built, list) and isinstance(read, list) and len(built) == len(read):
        return [item for index, value in enumerate(built) for item in lost(value, read[index], f"{path}[{index}]")]
    return [] if built == read else [path]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_shows_metrics_that_there_are(panel: Any) -> None:
    for query in panel.queries:
        check_promql(query.expression)


def test_pictures_of_single_tables_are_of_those_that_are_chosen() -> None:
    queries = [query.expression for panel in PANELS for query in panel.queries]
    parsed = {text: promql_parser.parse(text.replace("$__rate_interval", "5m")) for text in queries}
    of_tables = [text for text in queries if any(SERIES[selector.name].labels == TABLE for selector in selectors(parsed[text]))]
    assert len(of_tables) > 8
    assert [text for text in of_tables if 'table=~"$table"' not in text] == []
    variables = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
    for name in ("database", "table"):
        [metric] = re.findall(r"label_values\((\w+)", variables[name]["query"])
        assert name in SERIES[metric].labels


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_is_about_metrics_and_its_statement_about_columns_that_there_are(alert: Any) -> None:
    check_promql(alert.expression)
    statement = sqlglot.parse_one(_TEMPLATED.sub("x", alert.query), dialect="spark")
    [table] = statement.find_all(exp.Table)
    assert (table.catalog, table.db) == ("fluss", "sys")
    columns = set(default_registry().table(table.name).schema.names)
    assert {column.name for column in statement.find_all(exp.Column)} <= columns
    labels = SERIES[next(selectors(promql_parser.parse(alert.expression))).name].labels
    assert set(re.findall(r"\$labels\.(\w+)", alert.query + alert.summary)) <= set(labels)


def test_no_alert_fires_for_a_table_that_a_user_paused() -> None:
    behind, left_out = (
        next(alert for alert in ALERTS if alert.name == name) for name in ("LakewardTableBehindPromise", "LakewardTablesBehindPromise")
    )
    expression = promql_parser.parse(behind.expression)
    assert (str(expression.op), [part.name for part in selectors(expression.rhs)]) == ("unless", ["lakeward_table_paused"])
    assert "NOT paused" in left_out.query


def test_the_commands_print_what_grafana_and_prometheus_load() -> None:
    def printed(command: str) -> str:
        return subprocess.run([sys.executable, "-m", "tiering.cli.main", command], capture_output=True, text=True, check=True).stdout

    assert json.loads(printed("dashboard")) == json.loads(json.dumps(dashboard()))
    text = printed("alerts")
    assert text == rules()
    [group] = yaml.safe_load(text)["groups"]
    assert [(rule["alert"], rule["expr"], rule["for"], rule["annotations"]["query"]) for rule in group["rules"]] == [
        (alert.name, alert.expression, alert.lasting, alert.query) for alert in ALERTS
    ]


def test_the_manual_has_a_line_for_every_metric_and_alert() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        fluss = f"`{metric.fluss}`" if metric.fluss else ""
        assert f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.comment} | {fluss} |" in text
    assert re.findall(r"^\| `(Lakeward\w+)` \|", text, re.MULTILINE) == [alert.name for alert in ALERTS]
