"""Lists for people on call, as declarations: which rows, which columns, which filters. `list_pages` shows them.

A new list is a `View` in VIEWS. Its filters are parameters of the address, so that a filtered list is a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sys_tables.console.overview import named
from sys_tables.console.query import Query, contains, equal, newest_first
from sys_tables.console.reader import Panel
from sys_tables.declare.scan import Order
from tiering.model.reading.conditions import AnyOf, Condition
from tiering.model.rounds import RoundState
from tiering.model.tierers import TiererState

PAGE_ROWS = 100
MAX_TEXT = 200
"""Characters of a filter."""


@dataclass(frozen=True)
class Field:
    """One filter. With `values`, a reader chooses one of them; otherwise a column contains the text that a reader writes, in any case."""

    parameter: str
    label: str
    columns: tuple[str, ...]
    values: tuple[str, ...] = ()

    def text(self, parameters: Mapping[str, str]) -> str:
        """Returns the choice in the parameters of an address; empty for none, and for a value that the page does not offer."""
        text = parameters.get(self.parameter, "").strip()[:MAX_TEXT]
        return text if not self.values or text in self.values else ""

    def condition(self, text: str) -> Condition:
        """Returns the condition of a choice."""
        if self.values:
            return equal(self.columns[0], text)
        if self.columns == TABLE_COLUMNS:
            return named(text)
        conditions = tuple(contains(column, text) for column in self.columns)
        return conditions[0] if len(conditions) == 1 else AnyOf(conditions)


TABLE_COLUMNS = ("database_name", "table_name")


@dataclass(frozen=True)
class ListPart:
    """The rows of one system table on a page. `where` always applies. `command` is shown where there are no rows."""

    title: str
    table: str
    columns: tuple[str, ...]
    empty: str
    fields: tuple[Field, ...] = ()
    where: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    command: str = ""

    def panel(self, parameters: Mapping[str, str]) -> Panel:
        """Returns the panel with the rows that the parameters of an address choose."""
        chosen = [(field, field.text(parameters)) for field in self.fields]
        conditions = tuple(field.condition(text) for field, text in chosen if text)
        query = Query(self.table, self.columns, (*self.where, *conditions), self.order, PAGE_ROWS)
        if conditions:
            return Panel(self.title, query, "No row matches the filter.", name=self.name)
        return Panel(self.title, query, self.empty, self.name, self.command)

    @property
    def name(self) -> str:
        """Name of the panel on its page."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class View:
    """One page. Its first part has pages; the others show their first rows. `actions` are procedures."""

    name: str
    key: str
    """The key that follows `g`."""
    title: str
    about: str
    parts: tuple[ListPart, ...]
    actions: tuple[str, ...] = ()
    document: str = ""
    """Page of the documentation."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The filters of all parts, each parameter once."""
        return tuple({field.parameter: field for part in self.parts for field in part.fields}.values())

    def parameters(self, present: Mapping[str, str], page: int = 1) -> dict[str, str]:
        """Returns the parameters of the address of another page of the same rows."""
        texts = {field.parameter: field.text(present) for field in self.fields}
        return {name: text for name, text in {**texts, "page": "" if page == 1 else str(page)}.items() if text}


_TABLE = Field("table", "Table", TABLE_COLUMNS)
_TIERER = Field("tierer", "Tierer", ("tierer_id",))
_LEASE = Field("lease", "Lease", ("lease_id",))
_PRINCIPAL = Field("principal", "Principal", ("principal",))
_PRIVILEGES = Field("privilege", "Privilege", ("privileges",))
_RUNNING = (
    *("database_name", "table_name", "round_id", "tierer_id", "started_time", "splits_done", "splits_total", "records_read"),
    "completion_target",
)
_NAMES = (Order("database_name"), Order("table_name"))

VIEWS = (
    View(
        "events",
        "e",
        "Events",
        "What happened to tables, rounds and commits, the newest first.",
        (
            ListPart(
                "Events",
                "tiering_events",
                ("occurred_at", "level", "event_type", "database_name", "table_name", "message", "round_id", "principal"),
                "Nothing has happened yet. Events of a table come with its first round.",
                (
                    _TABLE,
                    Field("kind", "Kind", ("event_type",)),
                    Field("level", "Level", ("level",), ("INFO", "WARN", "ERROR")),
                    Field("text", "Text", ("message",)),
                ),
                order=newest_first("occurred_at"),
            ),
        ),
        document="on-call",
    ),
    View(
        "tierers",
        "t",
        "Tierers",
        "The processes that run rounds: their slots, and what they run now.",
        (
            ListPart(
                "Tierers",
                "tierers",
                (
                    *("tierer_id", "state", "slots", "tables_running", "records_per_second", "rounds", "heartbeat_time", "started_at"),
                    *("host", "version", "application_id"),
                ),
                "No tierer is connected, so no round can run. Start one:",
                (_TIERER, Field("state", "State", ("state",), tuple(TiererState))),
                order=(Order("state"), Order("tierer_id")),
                command="lakeward tierer --uri HOST:7707 --master local[2]",
            ),
            ListPart(
                "Running rounds",
                "tiering_rounds",
                _RUNNING,
                "No round runs now.",
                (_TIERER, _TABLE),
                (equal("state", str(RoundState.RUNNING)),),
                newest_first("pending_time"),
            ),
            ListPart(
                "Rounds that wait for a slot",
                "tiering_rounds",
                ("database_name", "table_name", "round_id", "trigger", "triggered_by", "pending_time", "deadline"),
                "No round waits.",
                (_TABLE,),
                (equal("state", str(RoundState.QUEUED)),),
                newest_first("pending_time"),
            ),
        ),
        ("fence_tierer",),
        "tierers",
    ),
    View(
        "leases",
        "l",
        "Leases",
        "Claims that keep KV snapshots alive while they are read, and open reads, which keep lake snapshots.",
        (
            ListPart(
                "Leases",
                "kv_snapshot_leases",
                ("lease_id", "owner", "state", "remaining_ms", "expires_at", "acquired_at", "renewed_at", "ttl_ms", "tables", "buckets"),
                "There is no lease. A round that reads KV snapshots of a primary-key table takes one.",
                (_LEASE, Field("state", "State", ("state",), ("ACTIVE", "EXPIRING", "EXPIRED"))),
                order=(Order("expires_at"),),
            ),
            ListPart(
                "Leased snapshots",
                "kv_snapshot_lease_buckets",
                ("lease_id", "database_name", "table_name", "partition_name", "bucket_id", "snapshot_id", "log_offset", "available"),
                "No KV snapshot is leased.",
                (_LEASE, _TABLE),
                order=(Order("lease_id"), *_NAMES, Order("bucket_id")),
            ),
            ListPart(
                "Open reads",
                "open_reads",
                (
                    *("read_id", "database_name", "table_name", "principal", "engine", "state", "opened_at", "renewed_at", "expires_at"),
                    *("lake_snapshot_id", "log_records", "kv_snapshots"),
                ),
                "No client reads a table with its newest rows.",
                (_TABLE, _PRINCIPAL),
                order=newest_first("opened_at"),
            ),
        ),
        ("acquire_kv_snapshot_lease", "renew_kv_snapshot_lease", "release_kv_snapshot_lease", "drop_kv_snapshot_lease"),
        "kv-snapshots",
    ),
    View(
        "privileges",
        "p",
        "Privileges",
        "What you may do on which tables, and for ADMIN what other users may do. Below are the policies in force: a policy with forbid is "
        "stronger than all that permit.",
        (
            ListPart(
                "Effective privileges",
                "effective_privileges",
                ("principal", "groups", "database_name", "table_name", "privileges"),
                "You may describe no table.",
                (_PRINCIPAL, _TABLE, _PRIVILEGES),
            ),
            ListPart(
                "Policies",
                "grants",
                ("effect", "principal", "privileges", "resource", "policy_text", "policy_id", "loaded_at"),
                "No policy file is in use: every known caller may do everything. To limit that, start the service with",
                (
                    Field("effect", "Effect", ("effect",), ("permit", "forbid", "error")),
                    _PRINCIPAL,
                    _PRIVILEGES,
                    Field("resource", "Object", ("resource",)),
                ),
                command="lakeward coordinator --data FOLDER --policy policies.cedar",
            ),
            ListPart(
                "Privileges of procedures",
                "procedures",
                ("procedure_name", "privilege", "description"),
                "The service has no procedure.",
                (Field("privilege", "Privilege", ("privilege",)),),
                order=(Order("procedure_name"),),
            ),
        ),
        document="grants",
    ),
    View(
        "audit",
        "a",
        "Audit log",
        "Calls with their caller, object and outcome, the newest first.",
        (
            ListPart(
                "Calls",
                "audit",
                (
                    *("occurred_at", "principal", "on_behalf_of", "action", "object", "outcome", "error_class", "message", "peer"),
                    *("authentication", "call_id"),
                ),
                "No call has been recorded. A service without sign-in (--auth none) has no audit log.",
                (
                    _PRINCIPAL,
                    Field("action", "Action", ("action",)),
                    Field("object", "Object", ("object",)),
                    Field("outcome", "Outcome", ("outcome",), ("STARTED", "ANSWERED", "FAILED", "GIVEN_UP", "REFUSED")),
                ),
            ),
            ListPart(
                "Calls that run now",
                "open_calls",
                ("procedure_name", "caller", "started_time", "running_ms", "idempotency_key"),
                "No call runs now.",
                order=(Order("started_time"),),
            ),
        ),
        document="security",
    ),
    View(
        "options",
        "n",
        "Options",
        "The options in force, with their defaults. Values that may be secrets are masked.",
        (
            ListPart(
                "Options",
                "options",
                ("scope", "name", "value", "default", "source", "description"),
                "The service has no option.",
                (
                    Field("scope", "Scope", ("scope",), ("coordinator", "tierer", "table")),
                    Field("source", "Source", ("source",), ("set", "default")),
                    Field("text", "Name or meaning", ("name", "description")),
                ),
                order=(Order("scope"), Order("name")),
            ),
        ),
        ("set_table_option",),
        "options",
    ),
)
"""The lists, in the order of the navigation."""
