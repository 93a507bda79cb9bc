"""Generates `docs/errors.md`, the list of all error classes, from the classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from support.reference.markdown import markdown_table
from tiering import errors
from tiering.errors import LakewardError

_HEADER = ("class", "what happened", "phase", "retried automatically", "next action", "look first")

_STANDING_BUCKET = (
    "## Example: a stopped bucket",
    "A table has the error `BucketStopped`, because its log has a map with a repeated key. Its other buckets are tiered meanwhile.",
    "```sql\nSELECT bucket_id, error_message, stopped_at_offset, stopped_at_record\n"
    "FROM fluss.sys.tiering_buckets WHERE table_name = 'clicks';\n```",
    "| bucket_id | error_message | stopped_at_offset | stopped_at_record |\n| --- | --- | --- | --- |\n"
    "| 0 | its rows cannot take the record there | 4 | id=0, text='poison', tags=[('a', 1), ('a', 2)] (Invalid Input Error: Arrow map"
    " contains duplicate key, which isn't supported by DuckDB map type) |",
    "Only callers with the privilege SELECT on the table see the record.",
    "The error's hint names the statement that excludes the record, `CALL sys.skip_record('demo.clicks', 0, 4, reason => '...')`."
    "\n[On call](on-call.md) describes all steps, up to the corrected row.",
)
"""An error for which a person has to decide, with the answers of a real service."""


def render() -> str:
    """Returns the text of the page."""
    parts = [
        "# Reference: errors",
        "`PYTHONPATH=.:tests python -m support.reference` generates this page from `tiering/errors.py`.",
        "`sys.lake_tiering_status` and `sys.tiering_errors` show a table's error with its class, message, hint and `next_action`. The next"
        " action is the one statement that helps and keeps every acknowledged row in the lake. It uses the names of the reader's catalogs"
        " (here `fluss` and `lake`, and the table `db.t`). It is NULL if waiting is right.",
        "For a permanently failed table, the coordinator checks the lake table, the log and its own records every five seconds. The next"
        " action is then a reconciliation that succeeds and leaves nothing out, or else a new lake table, if KV snapshots and log still"
        " have all rows. So it may be another statement than the one in this table, or NULL. Statements that leave rows out are in the"
        " hint, with the number of rows. As soon as the lake table is repaired, by a statement, by hand or because a fault ended, tiering"
        " continues automatically. The next action is `retry_tiering` if the table failed again with the same error, although its lake"
        " table is correct.",
        "Use the last column first if there is no next action, or before you run it: it shows more, or does what the message asks for. Run"
        " statements in Spark or with `lakeward sql`. Replace `db.t`, `host:7707` and `./lakeward-data` by your table, the address of your"
        " service and its data folder. A refused command names the missing option, such as `--token-file` or `--tls-ca`.",
        "The next action of a table that is paused without an end is `resume_tiering`.",
        markdown_table(_HEADER, _rows(LakewardError)),
        *_STANDING_BUCKET,
    ]
    return "\n\n".join(parts) + "\n"


def _rows(root: type[LakewardError]) -> Iterator[list[str]]:
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield _row(kind)
            yield from _rows(kind)


def _row(kind: type[LakewardError]) -> list[str]:
    happened = " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
    action = f"`{kind.next_action}`" if kind.next_action else f"None. {kind.no_statement}"
    return [f"`{kind.__name__}`", happened, ", ".join(kind.phases), "yes" if kind.retryable else "no", action, f"`{kind.check}`"]
