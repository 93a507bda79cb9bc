"""What a cluster kind gives the process that hosts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import grpc.aio

from tiering.cluster.base import ClusterOwner


@dataclass(frozen=True)
class HostedCluster:
    """The coordinator's cluster, and how it is served on the coordinator's port; None for a kind that has servers of its own."""

    owner: ClusterOwner
    add_to_server: Callable[[grpc.aio.Server], None] | None = None
