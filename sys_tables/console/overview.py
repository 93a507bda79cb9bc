"""The first page: all lake tables, narrowed, sorted and paged by the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sys_tables.console.charts.activity import Activity, Name, Strip, activity, bounds_query, hours_before, misses_query, strips
from sys_tables.console.query import Query, contains, equal
from sys_tables.console.reader import Page, Reader, Row, page_number
from sys_tables.declare.scan import Order
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Operator
from tiering.model.states import LASTING
from tiering.model.status import Promise

STATUS_TABLE = "lake_tiering_status"
PAGE_ROWS = 50
SUGGESTED = 20
"""Names that a field for a table suggests."""
CANDIDATES = 200
"""Tables with a privilege of which the lake tables are suggested. A cluster may have tables that are not in the lake."""
MAX_TEXT = 200
"""Characters of a search."""
COLUMNS = (
    *("database_name", "table_name", "status", "paused", "promise", "lag_ms", "freshness_ms", "pending_records"),
    *("last_tiered_time", "status_reason", "error_class", "error_retryable", "last_error", "next_action", "observed_time"),
)
_NAMES = (Order("database_name"), Order("table_name"))
SORTS: Mapping[str, tuple[Order, ...]] = {
    "urgency": (Order("consecutive_failures", True, False), Order("freshness_deadline", nulls_first=False), *_NAMES),
    "name": _NAMES,
    "lag": (Order("lag_ms", True, False), *_NAMES),
    "pending records": (Order("pending_records", True, False), *_NAMES),
    "last tiered": (Order("last_tiered_time"), *_NAMES),
}
"""Orders that a reader can choose, by their names on the page. The first is the default.

urgency: tables that fail come first, then those whose next round has to end first.
"""
UNKNOWN_PROMISE = "not known"
"""Name for the promise of a table whose lag is unknown: NULL in SQL."""
PROMISES = (*map(str, Promise), UNKNOWN_PROMISE)
PERSON = "person"
"""Name of the parameter that shows only the tables that need a person."""


@dataclass(frozen=True)
class Search:
    """The search that a reader chose. Values that the page does not offer are ignored."""

    text: str = ""
    state: str = ""
    promise: str = ""
    needs_person: bool = False
    sort: str = "urgency"
    page: int = 1

    @staticmethod
    def of(parameters: Mapping[str, str]) -> Search:
        """Returns the choice in the parameters of an address."""
        state, promise, sort = (parameters.get(name, "") for name in ("state", "promise", "sort"))
        return Search(
            parameters.get("q", "").strip()[:MAX_TEXT],
            state if state in LASTING else "",
            promise if promise in PROMISES else "",
            parameters.get(PERSON) == "yes",
            sort if sort in SORTS else "urgency",
            page_number(parameters),
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether the search leaves tables out."""
        return bool(self.text or self.state or self.promise or self.needs_person)

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """Returns the parameters of an address with the same choice, except for `changes`."""
        changed = replace(self, **changes)
        named = {"q": changed.text, "state": changed.state, "promise": changed.promise, PERSON: "yes" if changed.needs_person else ""}
        named |= {"sort": "" if changed.sort == "urgency" else changed.sort, "page": "" if changed.page == 1 else str(changed.page)}
        return {name: value for name, value in named.items() if value}

    def query(self) -> Query:
        """Returns the read of all pages."""
        return Query(STATUS_TABLE, COLUMNS, tuple(self._conditions()), SORTS[self.sort], PAGE_ROWS)

    def _conditions(self) -> list[Condition]:
        conditions: list[Condition] = [named(self.text)] if self.text else []
        conditions += [equal("status", self.state)] if self.state else []
        conditions += [promise_is(self.promise)] if self.promise else []
        return [*conditions, *([NEEDS_PERSON] if self.needs_person else [])]


def named(text: str) -> Condition:
    """Returns the condition for names that contain the text, in upper or lower case.

    `a.b` is the end of a database's name and the beginning of a table's.
    """
    database, dot, table = text.partition(".")
    if not dot:
        return AnyOf(tuple(contains(column, text) for column in ("database_name", "table_name")))
    parts = (("database_name", Operator.ENDS_WITH, database), ("table_name", Operator.STARTS_WITH, table))
    return AllOf(tuple(Filter(column, operator, (part,), ignores_case=True) for column, operator, part in parts))


OWN: Condition = equal("is_caller", True)
"""Rows of `sys.effective_privileges` about the user who reads."""


def table_names(reader: Reader, text: str, privilege: str = "") -> list[str]:
    """Returns the first names of lake tables that match what a reader has typed so far. Raises the errors of the service.

    With `privilege`, the names of those on which the reader has it.
    """
    columns, conditions = ("database_name", "table_name"), (named(text),) if text else ()
    if privilege:
        granted = (Filter("table_name", Operator.IS_NOT_NULL), OWN, contains("privileges", privilege), *conditions)
        rows = reader.rows(Query("effective_privileges", columns, granted, limit=CANDIDATES))
        allowed = {(row["database_name"], row["table_name"]) for row in rows}
        conditions = (Filter("table_name", Operator.IN, tuple({name for _, name in allowed})),)
        tables = reader.rows(Query(STATUS_TABLE, columns, conditions, _NAMES))
        tables = [row for row in tables if (row["database_name"], row["table_name"]) in allowed]
    else:
        tables = reader.rows(Query(STATUS_TABLE, columns, conditions, _NAMES, SUGGESTED))
    return [f"{row['database_name']}.{row['table_name']}" for row in tables[:SUGGESTED]]


_NOT_RETRIED = AnyOf((Filter("error_retryable", Operator.IS_NULL), equal("error_retryable", False)))
NEEDS_PERSON: Condition = AnyOf(
    (
        Filter("next_action", Operator.IS_NOT_NULL),
        equal("paused", True),
        AllOf((Filter("last_error", Operator.IS_NOT_NULL), _NOT_RETRIED)),
    )
)
"""Tables that do not continue correctly without a person. A pause may be intended, and still nothing is tiered until it ends."""


BY_STATE = Query(STATUS_TABLE, group_by=("status",))
BY_PROMISE = Query(STATUS_TABLE, group_by=("promise",))
PERSONS = Query(STATUS_TABLE, conditions=(NEEDS_PERSON,))
URGENT = Query(STATUS_TABLE, COLUMNS, (NEEDS_PERSON,), SORTS["urgency"], 5)
"""The tables that need a person most."""


def promise_is(promise: str) -> Condition:
    """Returns the condition for tables whose promise has this name in `PROMISES`."""
    return Filter("promise", Operator.IS_NULL) if promise == UNKNOWN_PROMISE else equal("promise", promise)


@dataclass(frozen=True)
class Count:
    """A number of tables, and the choice that shows these tables."""

    name: str
    tables: int
    search: Search


@dataclass(frozen=True)
class Overview:
    """The content of the page."""

    search: Search
    listed: Page
    tables: int
    states: Sequence[Count]
    promises: Sequence[Count]
    persons: Count
    urgent: Sequence[Row]
    """Tables that need a person, the most urgent first; like `activity` only on the first page of all tables."""
    activity: Activity | None
    misses: Query
    bounds: Query
    strips: Mapping[Name, Strip]


def overview(reader: Reader, search: Search, now: datetime) -> Overview:
    """Reads the page. Raises the errors of the service."""
    page = reader.page(search.query(), search.page)
    by_state = {row["status"]: row["count(*)"] for row in reader.rows(BY_STATE)}
    by_promise = {row["promise"] or UNKNOWN_PROMISE: row["count(*)"] for row in reader.rows(BY_PROMISE)}
    [persons] = [row["count(*)"] for row in reader.rows(PERSONS)]
    tables = sum(by_state.values())
    names = [(row["database_name"], row["table_name"]) for row in page.rows]
    misses, bounds = misses_query(names, hours_before(now)), bounds_query(names)
    missed, kept = (reader.rows(query) if names else () for query in (misses, bounds))
    is_first = not search.is_narrowed and search.page == 1
    return Overview(
        search,
        page,
        tables,
        [Count(state, by_state.get(state, 0), Search(state=state)) for state in LASTING],
        [Count(promise, by_promise.get(promise, 0), Search(promise=promise)) for promise in PROMISES if promise in {*Promise, *by_promise}],
        Count("needs a person" if persons == 1 else "need a person", persons, Search(needs_person=True)),
        reader.rows(URGENT) if is_first and persons else (),
        activity(reader, now) if is_first and tables else None,
        misses,
        bounds,
        strips(page.rows, missed, kept, now),
    )
