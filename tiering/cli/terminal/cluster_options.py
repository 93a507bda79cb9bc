"""Options that name the cluster: the embedded one without any, or an Apache Fluss cluster that runs elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cluster.fluss.settings import BOOTSTRAP_SERVERS, CLUSTER_ID, MODE
from tiering.cluster.registry import EMBEDDED, FLUSS
from tiering.errors import InvalidArgument
from tiering.model.service_mode import ServiceMode

FlussOption = Annotated[
    str | None,
    typer.Option(
        "--fluss",
        metavar="HOST:PORT[,HOST:PORT]",
        help="Servers of the Apache Fluss cluster to tier from; without it the embedded cluster is used. User and password come from "
        "FLUSS_USERNAME and FLUSS_PASSWORD.",
        show_default=False,
    ),
]
FlussServersOption = Annotated[
    str | None,
    typer.Option(
        "--fluss",
        metavar="HOST:PORT[,HOST:PORT]",
        help="Servers of an Apache Fluss cluster, which is asked itself; no service is needed. User and password come from FLUSS_USERNAME "
        "and FLUSS_PASSWORD.",
        show_default=False,
    ),
]
"""Of commands that work on a cluster without a service, too."""
FlussClusterIdOption = Annotated[
    str | None,
    typer.Option(help="What the Fluss cluster is called for ever; stands in every lake table. Needed with --fluss.", show_default=False),
]
FlussModeOption = Annotated[
    ServiceMode | None,
    typer.Option(
        help="Whether this is the Fluss cluster's only tiering service, or one beside another.  [default: shared]", show_default=False
    ),
]

FlussHeldTablesOption = Annotated[
    int,
    typer.Option(
        metavar="COUNT",
        min=0,
        help="In the mode shared: how many tables that Fluss assigned are kept from other tiering services while they are paused or in "
        "back-off; the others are handed back.",
    ),
]


def read_cluster(fluss: str | None, cluster_id: str | None, mode: ServiceMode | None) -> tuple[str, dict[str, str]]:
    """Returns the kind of cluster that the options name, and its settings. Raises InvalidArgument for the others without `--fluss`."""
    if fluss is None:
        if cluster_id is not None or mode is not None:
            raise InvalidArgument(
                "--fluss-cluster-id and --fluss-mode are of use only with --fluss", hint="Name the cluster's servers, too."
            )
        return EMBEDDED, {}
    settings = {BOOTSTRAP_SERVERS: fluss, CLUSTER_ID: cluster_id or ""}
    return FLUSS, settings if mode is None else {**settings, MODE: mode.value}
