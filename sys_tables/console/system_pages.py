"""Pages of the system tables as they are: a list of all, and the rows of one, with a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from sys_tables.console.pages import Pages
from sys_tables.console.query import Query, contains, newest_first
from sys_tables.console.reader import FilledPanel, Panel, Reader, page_number
from sys_tables.declare.system_table import SystemTable
from sys_tables.registry import Registry
from tiering.model.reading.conditions import Condition

PAGE_ROWS = 100


@dataclass(frozen=True)
class TableSearch:
    """The rows that a reader chose: those whose text column contains a text; all rows without a column."""

    column: str = ""
    text: str = ""
    page: int = 1

    @staticmethod
    def of(parameters: Mapping[str, str], columns: Sequence[str]) -> TableSearch:
        """Returns the choice in the parameters of an address. A column that the page does not offer is ignored."""
        column, text = parameters.get("column", ""), parameters.get("text", "").strip()[:200]
        return TableSearch(column if column in columns else "", text, page_number(parameters))

    def parameters(self, page: int) -> dict[str, str]:
        """Returns the parameters of the address of another page of the same rows."""
        named = {"column": self.column, "text": self.text, "page": "" if page == 1 else str(page)}
        return {name: value for name, value in named.items() if value}

    def query(self, table: SystemTable) -> Query:
        """Returns the read of all pages."""
        where: tuple[Condition, ...] = (contains(self.column, self.text),) if self.column and self.text else ()
        return Query(table.name, tuple(table.schema.names), where, newest_first(*table.newest_first), PAGE_ROWS)


class SystemPages:
    """The endpoints."""

    def __init__(self, pages: Pages, reader: Reader, registry: Registry) -> None:
        self._pages = pages
        self._reader = reader
        self._registry = registry

    async def list(self, request: Request) -> Response:
        """Lists the system tables."""
        return self._pages.page(request, "system.html", {"tables": self._registry.tables})

    async def table(self, request: Request) -> Response:
        """Shows rows of one system table."""
        table = self._registry.table(request.path_params["table"])
        columns = [field.name for field in table.schema if pa.types.is_string(field.type)]
        search = TableSearch.of(request.query_params, columns)
        page = await run_in_threadpool(self._reader.page, search.query(table), search.page)
        panel = Panel("Rows", page.query, "No row matches, or you may see none.")
        filled = FilledPanel(panel, self._reader.headings(page.query), page.rows)
        content = {"table": table, "filled": filled, "search": search, "columns": columns, "has_next": page.has_next}
        return self._pages.page(request, "system_table.html", content)
