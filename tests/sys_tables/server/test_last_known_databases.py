"""While the cluster cannot list its databases, Describe names to each caller the databases of its last answer to that caller."""

from __future__ import annotations

from typing import Any

import pytest

from sys_tables.server import last_known_databases
from sys_tables.server.last_known_databases import LastKnownDatabases
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.errors import ClusterUnavailable

ANN, BOB = (Identity(name, Authentication.TOKEN, peer=f"ipv4:{name}") for name in ("ann", "bob"))


class Names:
    def __init__(self, *databases: str) -> None:
        self._databases = databases

    def databases(self) -> tuple[str, ...]:
        if not self._databases:
            raise ClusterUnavailable("it is away")
        return self._databases


AWAY: Any = Names()


def named(known: LastKnownDatabases, identity: Identity, view: Any = AWAY) -> list[str]:
    with acting_as(identity):
        return list(known.of(view))


def test_what_is_remembered_belongs_to_its_caller() -> None:
    known = LastKnownDatabases()
    assert named(known, ANN, Names("sales")) == ["sales"]
    assert named(known, BOB) == []
    assert named(known, BOB, Names("hr")) == ["hr"]
    assert named(known, ANN) == ["sales"]
    assert named(known, Identity("ann", Authentication.TOKEN, peer="elsewhere")) == ["sales"]


def test_the_caller_that_asked_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_known_databases, "KEPT_CALLERS", 1)
    known = LastKnownDatabases()
    named(known, ANN, Names("sales"))
    named(known, BOB, Names("hr"))
    assert named(known, BOB) == ["hr"]
    assert named(known, ANN) == []
