"""Limits the time of all requests to a catalog of any kind, because its server may hang or answer very slowly.

A request that exceeded its deadline may have had its effect, or may have it later. So the sender of a commit reads the lake again
(DESIGN 6 step 7), and the creator of a table finds the table there.
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
    """A base class that comes before pyiceberg's. Each method also raises TimeoutError, and ValueError for a deadline that is no number."""

    @cached_property
    def _deadlines(self) -> AnswerDeadlines:
        return AnswerDeadlines(WHOM)

    def _within(self, deadline: Timeout, name: Hashable, ask: Callable[[], Answer]) -> Answer:
        return self._deadlines.within(deadline.milliseconds(self.properties) / 1_000, name, ask)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Loads a table and its metadata file within the read deadline."""
        ask = partial(super().load_table, identifier)  # type: ignore[safe-super]
        return self._within(READ_DEADLINE, ("load", identifier), ask)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Lists namespaces within the read deadline."""
        ask = partial(super().list_namespaces, namespace)  # type: ignore[safe-super]
        return self._within(READ_DEADLINE, ("namespaces", namespace), ask)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Loads a namespace's properties within the read deadline."""
        ask = partial(super().load_namespace_properties, namespace)  # type: ignore[safe-super]
        return self._within(READ_DEADLINE, ("namespace", namespace), ask)

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Creates a namespace within the change deadline."""
        ask = partial(super().create_namespace, namespace, properties)  # type: ignore[safe-super]
        self._within(CHANGE_DEADLINE, ("create namespace", namespace), ask)

    def create_table(self, identifier: str | Identifier, *args: Any, **kwargs: Any) -> Table:
        """Creates a table within the change deadline."""
        ask = partial(super().create_table, identifier, *args, **kwargs)  # type: ignore[safe-super]
        return self._within(CHANGE_DEADLINE, ("create", identifier), ask)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commits to a table within the change deadline."""
        ask = partial(super().commit_table, table, requirements, updates)  # type: ignore[safe-super]
        return self._within(CHANGE_DEADLINE, ("commit", table.name()), ask)
