"""The Grafana dashboard, made from the declared metrics. `lakeward dashboard` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiering.telemetry import metrics as m

SCHEMA_VERSION = 39
"""Version of the JSON. Grafana 10.4 introduced it, and newer versions read it."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 8


@dataclass(frozen=True)
class Query:
    """One line of a panel. `legend` is its name, with labels in double braces."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One panel, with Grafana's kind and unit, and its width in 24ths of the page."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    text: str = ""
    """Markdown of a panel of the kind `text`."""


_BY_TABLE = "{{database}}.{{table}}"


def _rate(metric: m.Metric, by: str = "") -> str:
    return f"sum {by}(rate({metric.name}[$__rate_interval]))" if by else f"sum(rate({metric.name}[$__rate_interval]))"


def _worst(metric: m.Metric) -> str:
    return f"topk(10, {_chosen(metric)})"


def _chosen(metric: m.Metric) -> str:
    """Returns the series of the tables that are selected at the top of the page. Series without a table are all returned."""
    return metric.name + ('{database=~"$database", table=~"$table"}' if metric.labels == m.TABLE else "")


def _quantiles(metric: m.Metric) -> tuple[Query, ...]:
    """Returns the queries of the median and of the 95th percentile of a histogram."""
    return tuple(
        Query(f"histogram_quantile({share}, sum by (le) (rate({metric.name}_bucket[$__rate_interval])))", name)
        for share, name in ((0.5, "half"), (0.95, "19 of 20"))
    )


_ABOUT_TABLES = (
    "Panels of single tables stay empty if Prometheus shows no token to a service with `--auth`, such as a plain `lakeward up`. Make a "
    "token with `lakeward token create prometheus --out lakeward.token`, and name this file as `credentials_file` in the scrape job. The "
    "page docs/metrics.md shows both."
)


PANELS = (
    Panel("Tables behind", m.TABLES_BEHIND.comment, (Query(m.TABLES_BEHIND.name, "behind"),), kind="stat", width=4),
    Panel("Failing tables", m.TABLES_FAILING.comment, (Query(f"sum({m.TABLES_FAILING.name})", "failing"),), kind="stat", width=4),
    Panel("Largest lag", m.MAX_LAG.comment, (Query(m.MAX_LAG.name, "lag"),), "s", "stat", 4),
    Panel("Records to tier", m.ALL_PENDING_RECORDS.comment, (Query(m.ALL_PENDING_RECORDS.name, "records"),), kind="stat", width=4),
    Panel("Active tierers", m.TIERERS.comment, (Query(f'{m.TIERERS.name}{{state="ACTIVE"}}', "active"),), kind="stat", width=4),
    Panel("Tables not shown alone", m.TABLES_LEFT_OUT.comment, (Query(m.TABLES_LEFT_OUT.name, "left out"),), kind="stat", width=4),
    Panel("How to see tables", "What a scrape needs to show the names of tables.", (), kind="text", width=24, text=_ABOUT_TABLES),
    Panel("Behind the freshness", m.BEHIND.comment, (Query(_worst(m.BEHIND), _BY_TABLE),), "s", width=12),
    Panel("Lag", m.LAG.comment, (Query(_worst(m.LAG), _BY_TABLE),), "s", width=12),
    Panel("Tables by state", m.TABLES.comment, (Query(m.TABLES.name, "{{status}}"),)),
    Panel(
        "Waiting and running",
        "Tables that wait for a tierer, tables that are assigned to a tierer, and slots of all active tierers.",
        (Query(m.PENDING_TABLES.name, "waiting"), Query(m.RUNNING_TABLES.name, "running"), Query(m.SLOTS.name, "slots")),
    ),
    Panel("Failures in a row", m.FAILURES_IN_A_ROW.comment, (Query(f"{_worst(m.FAILURES_IN_A_ROW)} > 0", _BY_TABLE),)),
    Panel("Records not in the lake", m.PENDING_RECORDS.comment, (Query(_worst(m.PENDING_RECORDS), _BY_TABLE),)),
    Panel("Wait for a tierer", m.PENDING_TIME.comment, (Query(_worst(m.PENDING_TIME), _BY_TABLE),), "ms"),
    Panel("Length of the latest round", m.TIER_DURATION.comment, (Query(_worst(m.TIER_DURATION), _BY_TABLE),), "ms"),
    Panel("Ended rounds", m.ROUNDS.comment, (Query(_rate(m.ROUNDS, "by (state) "), "{{state}}"),), "ops"),
    Panel(
        "Where rounds spend their time",
        m.PHASE_SECONDS.comment,
        (Query(f"sum by (phase) (rate({m.PHASE_SECONDS.name}_sum[$__rate_interval]))", "{{phase}}"),),
        "s",
    ),
    Panel(
        "Length of rounds",
        m.ROUND_SECONDS.comment,
        _quantiles(m.ROUND_SECONDS),
        "s",
    ),
    Panel("Records written", m.RECORDS_WRITTEN.comment, (Query(_rate(m.RECORDS_WRITTEN), "records"),), "rowsps"),
    Panel("Bytes written", m.BYTES_WRITTEN.comment, (Query(_rate(m.BYTES_WRITTEN), "bytes"),), "Bps"),
    Panel("Size of the lake", m.FILE_SIZE.comment, (Query(_worst(m.FILE_SIZE), _BY_TABLE),), "bytes"),
    Panel(
        "Mean size of a lake table's files",
        "Mean bytes of a data file, for the ten tables with the smallest files. Many small files make readers slow.",
        (Query(f"bottomk(10, {_chosen(m.FILE_SIZE)} / {_chosen(m.LAKE_FILES)})", _BY_TABLE),),
        "bytes",
    ),
    Panel("Files of the lake", m.LAKE_FILES.comment, (Query(_worst(m.LAKE_FILES), _BY_TABLE),)),
    Panel(
        "Health of lake tables",
        "Health scores from 0 to 100 of the ten worst lake tables. `lakeward health` shows what lowers a score.",
        (Query(f"bottomk(10, {_chosen(m.HEALTH_SCORE)})", _BY_TABLE),),
    ),
    Panel("Metadata of the lake", m.METADATA_BYTES.comment, (Query(_worst(m.METADATA_BYTES), _BY_TABLE),), "bytes"),
    Panel("Bytes that upkeep has to rewrite", m.REWRITE_BYTES.comment, (Query(m.REWRITE_BYTES.name, "to rewrite"),), "bytes"),
    Panel("Upkeep rounds", m.UPKEEP_ROUNDS.comment, (Query(_rate(m.UPKEEP_ROUNDS, "by (state) "), "{{state}}"),), "ops"),
    Panel(
        "Bytes rewritten by upkeep",
        "Bytes of the files that upkeep replaced, and of the new files, in upkeep rounds and in tiering rounds.",
        (Query(_rate(m.UPKEEP_BYTES_READ), "read"), Query(_rate(m.UPKEEP_BYTES_WRITTEN), "written")),
        "Bps",
    ),
    Panel("Length of upkeep rounds", m.UPKEEP_SECONDS.comment, _quantiles(m.UPKEEP_SECONDS), "s"),
    Panel(
        "Tables whose upkeep needs a person",
        "Lake tables that are unhealthy, whose latest upkeep failed, or whose upkeep is paused.",
        (
            Query(m.TABLES_UNHEALTHY.name, "unhealthy"),
            Query(m.TABLES_UPKEEP_FAILING.name, "upkeep failed"),
            Query(m.TABLES_UPKEEP_PAUSED.name, "upkeep paused"),
        ),
    ),
    Panel("Snapshots that expire", m.SNAPSHOTS_EXPIRED.comment, (Query(_rate(m.SNAPSHOTS_EXPIRED), "snapshots"),), "ops"),
    Panel("Silence of tierers", m.SILENCE.comment, (Query(_worst(m.SILENCE), "{{tierer}}"),), "s"),
    Panel("Leases on KV snapshots", m.LEASE_STATES.comment, (Query(m.LEASE_STATES.name, "{{state}}"),)),
    Panel("Until a lease expires", m.LEASE_REMAINING.comment, (Query(m.LEASE_REMAINING.name, "first"),), "s"),
)


def dashboard() -> dict[str, Any]:
    """Returns the dashboard as Grafana imports it. The user selects its data source at the top of the page."""
    return {
        "uid": "lakeward",
        "title": "Lakeward",
        "description": "Tiering of streaming tables into the lake. The documentation of each metric is in docs/metrics.md.",
        "tags": ["lakeward"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_DATASOURCES, _names("database", ""), _names("table", '{database=~"$database"}')]},
        "panels": [_panel(number, panel, place) for number, (panel, place) in enumerate(zip(PANELS, _places(PANELS), strict=True), 1)],
    }


_DATASOURCES = {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}


def _names(label: str, selector: str) -> dict[str, Any]:
    """Returns a dashboard variable with the values of a label of tables. All values are selected by default."""
    return {
        "type": "query",
        "name": label,
        "label": label.capitalize(),
        "datasource": DATASOURCE,
        "query": f"label_values({m.FRESHNESS.name}{selector}, {label})",
        "refresh": 2,  # with each change of the time range: tables come and go
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": "All", "value": "$__all"},
    }


def _places(panels: Sequence[Panel]) -> list[dict[str, int]]:
    """Returns the places of the panels, in rows from left to right."""
    places, x, y = [], 0, 0
    for panel in panels:
        height = _HEIGHT if panel.kind == "timeseries" else _HEIGHT // 2
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        places.append({"x": x, "y": y, "w": panel.width, "h": height})
        x += panel.width
    return places


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": DATASOURCE,
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query.expression, "legendFormat": query.legend, "datasource": DATASOURCE}
            for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0.0}, "overrides": []},
        "options": {"mode": "markdown", "content": panel.text} if panel.text else {},
    }
