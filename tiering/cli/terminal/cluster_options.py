"""Options that name the cluster: the embedded one without any, or an Apache Fluss cluster that runs elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tiering.cluster.fluss.remote.storage import remote_storage
from tiering.cluster.fluss.settings import BOOTSTRAP_SERVERS, CLUSTER_ID, FLUSS_DEFAULTS, MODE, UpkeepDefaults
from tiering.cluster.registry import EMBEDDED, FLUSS
from tiering.errors import InvalidArgument
from tiering.lake.fluss.server_yaml import read_server_yaml
from tiering.model.assignments import ServiceMode
from tiering.redaction.redact import remember_secrets

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

FlussAutoCompactionOption = Annotated[
    bool,
    typer.Option(
        "--fluss-auto-compaction",
        help="Rewrite small lake files of Fluss tables that do not set table.datalake.auto-compaction. Fluss's default is no.",
        show_default=False,
    ),
]
FlussAutoExpireOption = Annotated[
    bool,
    typer.Option(
        "--fluss-auto-expire-snapshot",
        help="Let lake snapshots of Fluss tables expire that do not set table.datalake.auto-expire-snapshot. Fluss's default is no.",
        show_default=False,
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


def read_cluster(
    fluss: str | None, cluster_id: str | None, mode: ServiceMode | None, upkeep: UpkeepDefaults = FLUSS_DEFAULTS
) -> tuple[str, dict[str, str]]:
    """Returns the kind of cluster that the options name, and its settings. Raises InvalidArgument for the others without `--fluss`."""
    if fluss is None:
        if cluster_id is not None or mode is not None:
            raise InvalidArgument(
                "--fluss-cluster-id and --fluss-mode are of use only with --fluss", hint="Name the cluster's servers, too."
            )
        if upkeep != FLUSS_DEFAULTS:
            raise InvalidArgument(
                "--fluss-auto-compaction and --fluss-auto-expire-snapshot are of use only with --fluss",
                hint="Tables of the embedded cluster have these options on.",
            )
        return EMBEDDED, {}
    settings = {BOOTSTRAP_SERVERS: fluss, CLUSTER_ID: cluster_id or "", **upkeep.as_text()}
    return FLUSS, settings if mode is None else {**settings, MODE: mode.value}


def read_storage(fluss_conf: Path | None) -> dict[str, str]:
    """Returns settings of the storage in which a Fluss cluster keeps its remote files, as its server.yaml names it.

    What is secret of them goes into the environment of this process, where its children have it from. Raises SetupError if that storage
    cannot be read here, InvalidArgument.
    """
    if fluss_conf is None:
        return {}
    storage = remote_storage(read_server_yaml(fluss_conf))
    remember_secrets(storage.environment)
    os.environ.update(storage.environment)
    if storage.data_dir:
        from tiering.cluster.fluss.remote.files import open_remote  # not for commands that read no file

        open_remote(storage.data_dir, storage.properties)
    return dict(storage.properties)
