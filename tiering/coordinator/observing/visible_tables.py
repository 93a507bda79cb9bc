"""Finds a table by name or id if the caller may know of it. For any other table the answer is that it does not exist.

A hidden table and an unknown one take the same steps, so that their timing is alike: the listing is searched, the policies are asked by
name, and if that gives no table, the listing is renewed and searched once more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from tiering.access.grants import Access
from tiering.coordinator.observing.discovery import Discovery
from tiering.errors import UnknownTable
from tiering.model.tables import TableInfo, TablePath


class VisibleTables:
    """The cluster's tables as one caller may see them. Its methods block; it is thread-safe."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    def by_path(self, path: TablePath, access: Access) -> TableInfo:
        """Returns the visible table with this path. Raises UnknownTable."""
        is_visible = access.sees(path)
        info = self._visible(lambda: self._listed(path), lambda _: is_visible)
        if info is None:
            raise UnknownTable(f"there is no table {path}")
        return info

    def by_id(self, table_id: int, access: Access) -> TableInfo:
        """Returns the visible table with this id. Raises UnknownTable."""
        info = self._visible(lambda: self._discovery.infos.get(table_id), lambda info: access.sees(info.path))
        if info is None:
            raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
        return info

    def _visible(self, search: Callable[[], TableInfo | None], is_visible: Callable[[TableInfo], bool]) -> TableInfo | None:
        info = search()
        if info is None or not is_visible(info):
            self._discovery.refresh()
            info = search()
        return info if info is not None and is_visible(info) else None

    def _listed(self, path: TablePath) -> TableInfo | None:
        listing, place = self._discovery.listing, (path.database_name, path.table_name)
        at = bisect_left(listing, place, key=_place)
        return listing[at] if at < len(listing) and _place(listing[at]) == place else None


def _place(info: TableInfo) -> tuple[str, str]:
    return info.path.database_name, info.path.table_name
