"""The list of cluster kinds. A new kind is a folder beside `embedded/` with a `ClusterKind`, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from tiering.cluster.kinds import ClusterKind
from tiering.errors import SetupError

EMBEDDED = "embedded"
"""The name of the cluster kind that is part of Lakeward; its rows are in the data folder."""

FLUSS = "fluss"
"""The name of the kind for Apache Fluss, a cluster that runs as a service of its own."""

BUILT_IN: Mapping[str, str] = {
    EMBEDDED: "tiering.cluster.embedded.kind:CLUSTER_KIND",
    FLUSS: "tiering.cluster.fluss.kind:CLUSTER_KIND",
}
"""The place of the `ClusterKind` of each kind, by name. It is imported when it is used."""


def cluster_kind(name: str) -> ClusterKind:
    """Returns the kind with this name. Raises SetupError for a kind that this version does not know."""
    if name not in BUILT_IN:
        raise SetupError(
            f"this version knows no cluster of kind {name!r}",
            hint=f"Use the coordinator's version, or one of these kinds: {', '.join(sorted(BUILT_IN))}.",
        )
    module, _, attribute = BUILT_IN[name].partition(":")
    kind: ClusterKind = getattr(import_module(module), attribute)
    return kind


def kind_in(folder: Path) -> str:
    """Returns the kind of the cluster in `folder`, a data folder's cluster folder; that of a new data folder if there is no cluster yet."""
    return next((name for name in BUILT_IN if cluster_kind(name).is_in(folder)), EMBEDDED)


def check_folder(folder: Path, kind: str) -> None:
    """Raises SetupError for a folder with a cluster of another kind, because the coordinator's state belongs to that cluster."""
    present = kind_in(folder)
    if present != kind and cluster_kind(present).is_in(folder):
        raise SetupError(
            f"the data folder of {folder} belongs to a cluster of kind {present!r}, not {kind!r}",
            hint="Start it with the same options as before (with --fluss for a Fluss cluster), or name another data folder with --data.",
        )


def preload_readers() -> None:
    """Imports the modules that `SplitReader`s of every kind need, before the process forks."""
    for name in BUILT_IN:
        cluster_kind(name).preload()
