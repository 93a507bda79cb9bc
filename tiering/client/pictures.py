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
from tiering.round_history import FAILED_COLOUR, LAG_COLOUR, PART_COLOURS, PART_NAMES, PROMISE_COLOUR, Round, lag_points
from tiering.round_timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

SHOWN_ROUNDS, SHOWN_TABLES = 40, 40
"""Most bars of a picture."""
BAR_INCHES, WIDTH_INCHES, MARGIN_INCHES, TIMELINE_INCHES = 0.28, 9.0, 1.2, 3.0
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


def rounds_plot(status: TableStatus, rounds: Sequence[Round], ax: Axes | None) -> Axes:
    """Draws rounds that did something and have ended on a time line, split into their parts. `rounds` with the newest first."""
    shown = [row for row in rounds if row["duration_ms"] is not None and row["state"] != RoundState.EMPTY][:SHOWN_ROUNDS]
    picture = timeline(shown, status.observed_time)
    axes = _axes(ax, TIMELINE_INCHES)
    name = f"{status.database_name}.{status.table_name}"
    axes.set_title(visible(f"{name}: the last {len(shown)} rounds" if shown else f"{name}: no round has ended yet"), parse_math=False)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.1, 1)
    axes.set_yticks([])
    if picture is None:
        return axes
    axes.set_xlabel(picture.span)
    for part in picture.part_names:
        boxes = [box for bar in picture.bars for box in bar.boxes if box.name == part]
        axes.bar(
            [box.x for box in boxes],
            [box.height for box in boxes],
            [box.width for box in boxes],
            [1 - box.y - box.height for box in boxes],
            align="edge",
            color=PART_COLOURS[part],
            label=PART_NAMES[part],
        )
    failed = [bar for bar in picture.bars if bar.is_failed]
    if failed:
        axes.bar([bar.x for bar in failed], -0.08, [bar.width for bar in failed], align="edge", color=FAILED_COLOUR, label="failed")
    for bar in picture.bars:
        axes.axvline(bar.x, color=axes.get_facecolor(), linewidth=1)
    axes.set_xticks([mark.x for mark in picture.marks], [mark.text for mark in picture.marks])
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
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
