"""Pictures for notebooks and programs: `LakewardClient.plot_lag` and its like. The extra `notebook` has matplotlib, which draws them.

A picture is drawn into the given `Axes`, or into new ones of pyplot, which a notebook then shows; the `Axes` are returned, as by pandas. So
a picture can be changed, combined with others, and saved as a file. Matplotlib loads nothing from a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tiering.durations import short_duration
from tiering.errors import SetupError
from tiering.extras import install_hint
from tiering.model.rounds import RoundState
from tiering.model.status import TableStatus
from tiering.redaction.visible_text import visible
from tiering.round_history import LAG_COLOUR, PART_COLOURS, PROMISE_COLOUR, Round, lag_points, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

SHOWN_ROUNDS, SHOWN_TABLES = 40, 40
"""Most bars of a picture."""
BAR_INCHES, WIDTH_INCHES, MARGIN_INCHES = 0.28, 9.0, 1.2
_HEALTHY, _POOR = "#2a9d63", "#c4473a"


def check_installed() -> None:
    """Raises SetupError without the extra."""
    if find_spec("matplotlib") is None:
        raise SetupError("the pictures of the Python client need the package matplotlib", hint=install_hint("notebook"))


def lag_plot(status: TableStatus, rounds: Sequence[Round], ax: Axes | None) -> Axes:
    """Draws the lag of a table over time against its promise."""
    axes = _axes(ax, 3.2)
    points = lag_points(rounds, status)
    title = f"{status.database_name}.{status.table_name}: lag, promise {short_duration(status.freshness_ms)}"
    axes.set_title(visible(title), parse_math=False)
    times: Any = [point.at for point in points]
    axes.plot(times, [point.lag_ms / 1_000 for point in points], color=LAG_COLOUR, label="lag")
    axes.axhline(status.freshness_ms / 1_000, color=PROMISE_COLOUR, linestyle="--", label="promise")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds")
    axes.set_xlabel("UTC" if points else "no round has brought rows yet")
    if points:
        axes.tick_params(axis="x", rotation=20)
    axes.legend(loc="upper left")
    return axes


def rounds_plot(name: str, rounds: Sequence[Round], ax: Axes | None) -> Axes:
    """Draws one bar for each round that did something and has ended, split into its parts. `rounds` with the newest first."""
    shown = [row for row in rounds if row["duration_ms"] is not None and row["state"] != RoundState.EMPTY][:SHOWN_ROUNDS]
    axes = _axes(ax, MARGIN_INCHES + BAR_INCHES * len(shown))
    axes.set_title(visible(f"{name}: the last {len(shown)} rounds" if shown else f"{name}: no round has ended yet"), parse_math=False)
    parts = [parts_of(row) for row in shown]
    begins = [0.0] * len(shown)
    for part, colour in PART_COLOURS.items():
        seconds = [round_parts.get(part, 0) / 1_000 for round_parts in parts]
        if any(seconds):
            axes.barh(range(len(shown)), seconds, left=begins, color=colour, label=part)
        begins = [begin + more for begin, more in zip(begins, seconds, strict=True)]
    axes.set_yticks(range(len(shown)), [f"{row['pending_time']:%m-%d %H:%M:%S} {row['state']}" for row in shown])
    axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    axes.set_xlabel("seconds from the queue to the end; times are in UTC")
    if shown:
        axes.legend(loc="upper right")
    return axes


def health_plot(rows: Sequence[Mapping[str, Any]], ax: Axes | None) -> Axes:
    """Draws the health of lake tables, the worst first, with the reasons. `rows` are those of `sys.lake_table_health`."""
    observed = sorted((row for row in rows if row["score"] is not None), key=lambda row: row["score"])
    shown = observed[:SHOWN_TABLES]
    axes = _axes(ax, MARGIN_INCHES + BAR_INCHES * len(shown))
    unknown = len(rows) - len(observed)
    axes.set_title(f"Health of {len(shown)} of {len(rows)} lake tables" + (f"; {unknown} not observed yet" if unknown else ""))
    colours = [_HEALTHY if row["next_action"] is None else _POOR for row in shown]
    axes.barh(range(len(shown)), [row["score"] for row in shown], color=colours)
    for position, row in enumerate(shown):
        axes.annotate(visible(row["reason"] or ""), (1, position), va="center", fontsize="small", parse_math=False)
    axes.set_yticks(range(len(shown)), [visible(f"{row['database_name']}.{row['table_name']}") for row in shown], parse_math=False)
    axes.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("score, 100 is best; red: a statement in next_action helps")
    return axes


def _axes(ax: Axes | None, height_inches: float) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    axes: Axes = pyplot.subplots(figsize=(WIDTH_INCHES, height_inches), layout="constrained")[1]
    return axes
