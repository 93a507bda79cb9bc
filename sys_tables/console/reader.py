"""Reads system tables for pages, and turns an error of one panel into a text of that panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from sys_tables.console.query import Query
from sys_tables.registry import Registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.errors import LakewardError, ServiceUnreachable, Unauthenticated
from tiering.model.declare import COMMENT_KEY

Row = Mapping[str, Any]
MAX_PAGE = 2_000
"""Last page. The service returns the rows of all earlier pages, too: see `Query.request`."""


def page_number(parameters: Mapping[str, str]) -> int:
    """Returns the number of a page in the parameters of an address; 1 for anything else."""
    page = parameters.get("page", "")
    return min(max(int(page), 1), MAX_PAGE) if page.isascii() and page.isdecimal() and len(page) < 10 else 1


class Reads(Protocol):
    """The part of `SystemCatalog` that pages use."""

    def rows(self, request: pb.ReadTableRequest) -> list[dict[str, Any]]:
        """Returns the rows of a read. Raises the errors of the service."""


@dataclass(frozen=True)
class Heading:
    """A column of a page: the name in SQL, and what the values mean."""

    name: str
    comment: str
    is_numeric: bool


@dataclass(frozen=True)
class Panel:
    """One read that a page shows under a title. `empty` is what an answer without rows means, and `command` the command that helps then.

    `name` identifies the panel on its page; empty = the table of the query.
    """

    title: str
    query: Query
    empty: str
    name: str = ""
    command: str = ""

    @property
    def key(self) -> str:
        """The name of the panel on its page."""
        return self.name or self.query.table


@dataclass(frozen=True)
class FilledPanel:
    """A panel with its rows, or with the error that prevented the read."""

    panel: Panel
    headings: Sequence[Heading]
    rows: Sequence[Row] = ()
    error: LakewardError | None = None
    has_next: bool = False

    @property
    def filled_headings(self) -> list[Heading]:
        """Returns the columns that have a value in at least one row. A table with empty columns does not fit a screen."""
        return [heading for heading in self.headings if any(row[heading.name] not in (None, [], "") for row in self.rows)]


@dataclass(frozen=True)
class Page:
    """One page of the rows of a query. `query` reads exactly these rows."""

    query: Query
    rows: Sequence[Row]
    has_next: bool


class Reader:
    """Reads what pages show. Its methods block."""

    def __init__(self, reads: Reads, registry: Registry) -> None:
        self._reads = reads
        self._registry = registry

    def rows(self, query: Query) -> Sequence[Row]:
        """Returns the rows of a query. Raises the errors of the service."""
        return self._reads.rows(query.request())[query.offset :]

    def page(self, query: Query, number: int) -> Page:
        """Returns page `number` of the rows, counted from 1. The limit of the query is the number of rows on a page."""
        assert query.limit is not None
        shown = replace(query, offset=(number - 1) * query.limit)
        rows = self.rows(replace(shown, limit=query.limit + 1))  # one more row shows whether there is a next page
        return Page(shown, rows[: query.limit], len(rows) > query.limit and number < MAX_PAGE)

    def all_columns(self, table: str) -> list[str]:
        """Returns the columns of a system table, in its order."""
        return list(self._registry.table(table).schema.names)

    def headings(self, query: Query) -> list[Heading]:
        """Returns the columns of a query, with the comments that SQL shows."""
        schema: pa.Schema = self._registry.table(query.table).schema
        return [_heading(schema.field(name)) for name in query.columns]

    def filled(self, panel: Panel, number: int | None = None) -> FilledPanel:
        """Returns a panel with its rows, or with page `number` of them, or with its error.

        Raises only errors that all panels of a page have in common.
        """
        headings = self.headings(panel.query)
        try:
            if number is None:
                return FilledPanel(panel, headings, self.rows(panel.query))
            page = self.page(panel.query, number)
            return FilledPanel(replace(panel, query=page.query), headings, page.rows, has_next=page.has_next)
        except (ServiceUnreachable, Unauthenticated):
            raise
        except LakewardError as error:
            return FilledPanel(panel, headings, error=error)


def _heading(column: pa.Field[Any]) -> Heading:
    is_numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return Heading(column.name, (column.metadata or {}).get(COMMENT_KEY, b"").decode(), is_numeric)
