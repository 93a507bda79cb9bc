"""Which kinds of cluster there are. A new kind is one folder beside `embedded/` with a `ClusterKind` in it, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from tiering.cluster.kinds import ClusterKind
from tiering.errors import SetupError

EMBEDDED = "embedded"
"""The kind of a data folder's own cluster."""

FLUSS = "fluss"
"""Apache Fluss, a cluster that runs elsewhere."""

BUILT_IN: Mapping[str, str] = {
    EMBEDDED: "tiering.cluster.embedded.kind:CLUSTER_KIND",
    FLUSS: "tiering.cluster.fluss.kind:CLUSTER_KIND",
}
"""By name, where its `ClusterKind` is; imported when it is used."""


def cluster_kind(name: str) -> ClusterKind:
    """The kind of that name. Raises SetupError for one that this version does not know."""
    if name not in BUILT_IN:
        raise SetupError(
            f"this version knows no cluster of kind {name!r}",
            hint=f"Use the coordinator's version, or one of these kinds: {', '.join(sorted(BUILT_IN))}.",
        )
    module, _, attribute = BUILT_IN[name].partition(":")
    kind: ClusterKind = getattr(import_module(module), attribute)
    return kind


def kind_in(folder: Path) -> str:
    """The kind of the cluster that a data folder's `folder` belongs to; that of a new data folder, where it belongs to none yet."""
    return next((name for name in BUILT_IN if cluster_kind(name).is_in(folder)), EMBEDDED)


def check_folder(folder: Path, kind: str) -> None:
    """Raises SetupError for a folder that belongs to a cluster of another kind: what the coordinator remembers is about that one."""
    present = kind_in(folder)
    if present != kind and cluster_kind(present).is_in(folder):
        raise SetupError(
            f"the data folder of {folder} belongs to a cluster of kind {present!r}, not {kind!r}",
            hint="Start it as before, with --fluss if it was so, or name another data folder with --data.",
        )


def preload_readers() -> None:
    """Imports what `SplitReader`s of every kind need, ahead of a fork."""
    for name in BUILT_IN:
        cluster_kind(name).preload()
