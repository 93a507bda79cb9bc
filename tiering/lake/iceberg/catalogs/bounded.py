"""A catalog whose requests all end in time, whatever kind it is: what it asks may hang, or answer a byte now and then.

A request that ran over its deadline may have had its effect all the same, or have it later: whoever sends a commit reads the lake again
(DESIGN 6 step 7), and whoever makes a table finds it there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from tiering.lake.catalog_timeouts import CHANGE_DEADLINE, READ_DEADLINE, Timeout
from tiering.library_guards.answer_deadlines import AnswerDeadlines

Answer = TypeVar("Answer")

WHOM = "the lake's catalog"


class BoundedCatalog(Catalog):
    """Goes before pyiceberg's class. Every method raises TimeoutError, too, and ValueError for a deadline that is no number."""

    @cached_property
    def _deadlines(self) -> AnswerDeadlines:
        return AnswerDeadlines(WHOM)

    def _within(self, deadline: Timeout, name: Hashable, ask: Callable[[], Answer]) -> Answer:
        return self._deadlines.within(deadline.milliseconds(self.properties) / 1_000, name, ask)

    def load_table(self, identifier: str | Identifier) -> Table:
        """As pyiceberg's, with the table's metadata file."""
        ask = partial(super().load_table, identifier)  # type: ignore[safe-super]
        return self._within(READ_DEADLINE, ("load", identifier), ask)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """As pyiceberg's."""
        ask = partial(super().list_namespaces, namespace)  # type: ignore[safe-super]
        return self._within(READ_DEADLINE, ("namespaces", namespace), ask)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """As pyiceberg's."""
        ask = partial(super().load_namespace_properties, namespace)  # type: ignore[safe-super]
        return self._within(READ_DEADLINE, ("namespace", namespace), ask)

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """As pyiceberg's."""
        ask = partial(super().create_namespace, namespace, properties)  # type: ignore[safe-super]
        self._within(CHANGE_DEADLINE, ("create namespace", namespace), ask)

    def create_table(self, identifier: str | Identifier, *args: Any, **kwargs: Any) -> Table:
        """As pyiceberg's."""
        ask = partial(super().create_table, identifier, *args, **kwargs)  # type: ignore[safe-super]
        return self._within(CHANGE_DEADLINE, ("create", identifier), ask)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As pyiceberg's."""
        ask = partial(super().commit_table, table, requirements, updates)  # type: ignore[safe-super]
        return self._within(CHANGE_DEADLINE, ("commit", table.name()), ask)
