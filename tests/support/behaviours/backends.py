"""Where the stories of the behaviour suite happen: a cluster and a lake, and what they cannot do together.

A new cluster kind adds a backend here and passes tests/behaviours/, but for the stories that need what it declares to lack.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from support.behaviours.fluss_database import FlussDatabase
from support.behaviours.lacks import Lack
from support.depth import SOAKS
from support.lake_kinds.by_hand import LakeByHand, lake_by_hand
from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, LakeKind
from tiering.clock import Clock, RandomIds, SystemClock
from tiering.cluster.base import ClusterOwner
from tiering.cluster.capabilities import TableOptionSetting
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.writing.writer import FlussWriter, fluss_writer
from tiering.cluster.writable import TableSpec, WritableCluster
from tiering.lake.base import Lake
from tiering.lake.fluss.options import PREFIX, lake_of_fluss
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.tables import TableInfo, TablePath

EMBEDDED, FLUSS, FLUSS_WITH_ITS_LAKE = "embedded", "fluss", "fluss with its lake plugin"
OTHER_KINDS: Mapping[str, LakeKind] = {f"{EMBEDDED}, {kind.name}": kind for kind in LAKE_KINDS if kind != ICEBERG}
"""Backends on the embedded cluster whose lake tables are of another kind."""
_LACKS_OF_FLUSS = frozenset(
    {
        Lack.KV_SNAPSHOT_ON_DEMAND,
        Lack.LOG_CUT_ON_DEMAND,
        Lack.REMEMBERED_WRITERS,
        Lack.SKIPPED_RECORDS,
        Lack.OTHER_TABLE_OPTIONS,
        Lack.EVERY_TIMESTAMP_UPSERTED,
        Lack.SEVERAL_BUCKET_KEYS,
        Lack.EVERY_BUCKET_KEY,
    }
)
LACKS: Mapping[str, frozenset[Lack]] = {
    EMBEDDED: frozenset(),
    **dict.fromkeys(OTHER_KINDS, frozenset()),
    FLUSS: _LACKS_OF_FLUSS,
    FLUSS_WITH_ITS_LAKE: _LACKS_OF_FLUSS | {Lack.ADDED_COLUMNS, Lack.LAKE_ENABLED_AGAIN, Lack.NAME_USED_AGAIN},
}
"""By backend. The suite prints it."""


ENOUGH_STORIES = 20 if SOAKS else 8
"""In so many of the stories that Hypothesis makes everything happens that can happen."""


class OwnedCluster(ClusterOwner, WritableCluster, TableOptionSetting, Protocol):
    """A cluster that the stories write to, tier from and tell of the lake."""


class Backend:
    """A cluster that runs, and a lake. Each story has a database of its own."""

    name: str
    stories = ENOUGH_STORIES
    """How many are told."""
    kind = ICEBERG
    """Kind of its lake tables."""
    table_properties: Mapping[str, str] = MappingProxyType({})
    """Properties of every table whose log and KV snapshots the story alone may change."""

    def __init__(self) -> None:
        self._databases = itertools.count(1)

    def can(self, need: Lack) -> bool:
        return need not in LACKS[self.name]

    def happened(self, *events: str) -> set[str]:
        """Returns the `events` that must have happened in that many stories, to show that they are useful; the first two always."""
        return set(events if self.stories >= ENOUGH_STORIES else events[:2])

    def new_database(self) -> str:
        """A name that no story had before."""
        return f"story{next(self._databases)}"

    def open_cluster(self, folder: Path, database: str, clock: Clock | None = None, lake: Lake | None = None) -> OwnedCluster:
        """The cluster, with what its coordinator remembers in `folder`."""
        raise NotImplementedError

    def lake_properties(self, folder: Path) -> Mapping[str, str]:
        """Properties of the lake's catalog, for a story in `folder`."""
        return local_lake_properties(folder)

    def open_lake(self, folder: Path) -> Lake:
        return open_lake(self.kind.format, self.lake_properties(folder))

    def by_hand(self, folder: Path) -> LakeByHand:
        """The lake, as another program reads and changes it."""
        return lake_by_hand(self.kind.format, self.lake_properties(folder))

    def forget(self, database: str) -> None:
        """The story has ended."""


class TablesOfAKind(EmbeddedStorage):
    """Makes tables whose lake tables are of one kind."""

    def __init__(self, *arguments: Any, kind: LakeKind, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._kind = kind

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        return super().create_table(path, replace(spec, properties={**self._kind.options, **spec.properties}), ignore_if_exists)


class EmbeddedBackend(Backend):
    """The embedded cluster, in the story's folder."""

    name = EMBEDDED
    table_properties: Mapping[str, str] = MappingProxyType({"table.log.ttl": "1 ms", "table.kv.snapshot.interval": "3650 d"})

    def open_cluster(self, folder: Path, database: str, clock: Clock | None = None, lake: Lake | None = None) -> OwnedCluster:
        check = {} if lake is None else {"check_lake": lake.check_schema}
        return TablesOfAKind(folder / "cluster", clock or SystemClock(), RandomIds(), **check, kind=self.kind)


class OtherKindBackend(EmbeddedBackend):
    """A backend with lake tables of another kind."""

    stories = 6 if SOAKS else 3
    """Fewer stories: only files, commits, footers and the marker differ."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.kind = name, OTHER_KINDS[name]


@dataclass
class FlussBackend(Backend):
    """A real Fluss cluster. `lake` has the properties of its own lake; without one each story has a lake in its folder."""

    name: str
    servers: str
    writer: FlussWriter
    stories: int
    lake: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def open_cluster(self, folder: Path, database: str, clock: Clock | None = None, lake: Lake | None = None) -> OwnedCluster:
        return FlussDatabase(self.servers, folder / "cluster", database, self.writer)

    def lake_properties(self, folder: Path) -> Mapping[str, str]:
        return self.lake or super().lake_properties(folder)

    def with_lake_of(self, kind: LakeKind) -> FlussBackend:
        """Returns a backend on the same cluster, with lake tables of another kind."""
        other = copy(self)
        other.kind = kind
        return other

    def forget(self, database: str) -> None:
        self.writer.drop_database(database)


@contextmanager
def fluss_backend(name: str, servers: str, stories: int, lake: Mapping[str, str] | None = None) -> Iterator[FlussBackend]:
    """`lake`: as the cluster's server.yaml has it, without the prefix."""
    with ExitStack() as stack:
        writer = stack.enter_context(fluss_writer(FlussConnection.parse(servers)))
        mapped = lake_of_fluss({PREFIX + key: value for key, value in lake.items()}).properties if lake else {}
        yield FlussBackend(name, servers, writer, stories, mapped)
