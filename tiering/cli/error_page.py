"""`docs/errors.md`: every class of error, from the tree itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sys_tables.reference import markdown_table
from tiering import errors
from tiering.errors import LakewardError

_HEADER = ("class", "what happened", "phase", "tries again by itself", "next action", "look, or run")

_STANDING_BUCKET = (
    "## Example: a bucket that stands at a record",
    "`BucketStopped` of a table whose log has a map with a key twice. The other buckets of the table are tiered meanwhile.",
    "```sql\nSELECT bucket_id, error_message, stopped_at_offset, stopped_at_record\n"
    "FROM fluss.sys.tiering_buckets WHERE table_name = 'clicks';\n```",
    "| bucket_id | error_message | stopped_at_offset | stopped_at_record |\n| --- | --- | --- | --- |\n"
    "| 0 | its rows cannot take the record there | 4 | id=0, text='poison', tags=[('a', 1), ('a', 2)] (Invalid Input Error: Arrow map"
    " contains duplicate key, which isn't supported by DuckDB map type) |",
    "The record is shown to callers with the privilege SELECT on the table.",
    "The error's hint names the statement that leaves the record out, `CALL sys.skip_record('demo.clicks', 0, 4, reason => '...')`."
    "\n[On call](on-call.md) goes through it step by step, up to the row that is written again.",
)
"""One class whose statement a person has to decide on, with the answers of a real service."""


def render() -> str:
    """The page."""
    parts = [
        "# Reference: errors",
        "Made from `tiering/errors.py` by `python -m tiering.cli.reference`.",
        "`sys.lake_tiering_status` and `sys.tiering_errors` show a table's error by its class, with message, hint and `next_action`: the"
        " one statement that helps and leaves no acknowledged row out of the lake, written for the catalogs of whoever reads it (here"
        " `fluss` and `lake`, and the table `db.t`). It is NULL where waiting is right.",
        "For a table that failed for good the coordinator looks at its lake table, its log and what is recorded, every five seconds. It"
        " names a reconciliation that goes through and leaves nothing out, or else a new lake table where KV snapshots and log still hold"
        " all that was ever written. So another statement than the one below may stand there, or none; what leaves rows out stands in the"
        " hint, with the number of rows. Once the lake table is whole, by a statement, by hand or since a fault is over, tiering goes on by"
        " itself. `retry_tiering` stands there where it failed again with the same error, though nothing is wrong with the lake table.",
        "The last column is what to type first where no statement stands, or before one is run: it shows more, or does what the message"
        " asks for. Statements go to Spark, or to `lakeward sql`; put your table, the service's address or its data folder in the place of"
        " `db.t`, `host:7707` and `./lakeward-data`. A command that is refused names what it lacks, such as `--token-file` or `--tls-ca`.",
        "A table that somebody paused without an end has `resume_tiering` as its next action.",
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
    return [f"`{kind.__name__}`", happened, ", ".join(kind.phases), "yes" if kind.retryable else "no", action, f"`{kind.look}`"]
