"""Options that choose the cluster: the embedded cluster by default, or an Apache Fluss cluster that runs elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tiering.cluster.fluss.remote_storage import remote_storage
from tiering.cluster.fluss.settings import BOOTSTRAP_SERVERS, CLUSTER_ID, FLUSS_DEFAULTS, MODE, UpkeepDefaults, read_settings
from tiering.cluster.registry import EMBEDDED, FLUSS
from tiering.errors import InvalidArgument
from tiering.lake.fluss.server_yaml import read_server_yaml
from tiering.model.assignments import ServiceMode
from tiering.redaction.redact import remember_secrets

FLUSS_GROUP = "Apache Fluss"
"""Title of a group of options."""
PASSWORD = "FLUSS_USERNAME and FLUSS_PASSWORD hold the user and the password."

FlussServersOption = Annotated[
    str | None,
    typer.Option(
        "--fluss",
        metavar="HOST:PORT,...",
        help=f"Servers of an Apache Fluss cluster. The command asks the cluster itself and needs no service of Lakeward. {PASSWORD}",
        show_default=False,
    ),
]
"""For commands that also work on a Fluss cluster without a service."""
FlussClusterIdOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Permanent name of the Fluss cluster, which Lakeward writes into every lake table. Required with --fluss.",
        show_default=False,
        rich_help_panel=FLUSS_GROUP,
    ),
]
FlussModeOption = Annotated[
    ServiceMode | None,
    typer.Option(
        help="exclusive: Lakeward is the only tiering service of the Fluss cluster. shared: it works beside another one. Default: shared.",
        show_default=False,
        rich_help_panel=FLUSS_GROUP,
    ),
]


def read_cluster(
    fluss: str | None, cluster_id: str | None, mode: ServiceMode | None, upkeep: UpkeepDefaults = FLUSS_DEFAULTS
) -> tuple[str, dict[str, str]]:
    """Returns the kind of cluster that the options choose, and its settings. Raises InvalidArgument for `--fluss-*` without `--fluss`."""
    if fluss is None:
        if cluster_id is not None or mode is not None:
            raise InvalidArgument("--fluss-cluster-id and --fluss-mode need --fluss", hint="Add --fluss with the servers of the cluster.")
        if upkeep != FLUSS_DEFAULTS:
            raise InvalidArgument(
                "--fluss-auto-compaction and --fluss-auto-expire-snapshot need --fluss",
                hint="Leave them out: tables of the embedded cluster have both options on by default.",
            )
        return EMBEDDED, {}
    settings = {BOOTSTRAP_SERVERS: fluss, CLUSTER_ID: cluster_id or "", **upkeep.as_text()}
    return FLUSS, settings if mode is None else {**settings, MODE: mode.value}


def checked_settings(settings: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Returns the id and the settings of the Fluss cluster that `read_cluster` returned. Raises InvalidArgument."""
    cluster = read_settings(settings)
    return cluster.cluster_id, cluster.as_text()


def read_storage(fluss_conf: Path | None) -> dict[str, str]:
    """Returns the settings of the storage for a Fluss cluster's remote files, from the cluster's server.yaml.

    Secrets among them go into the environment of this process, so that child processes inherit them. Raises SetupError if this process
    cannot read the storage, InvalidArgument.
    """
    if fluss_conf is None:
        return {}
    storage = remote_storage(read_server_yaml(fluss_conf))
    remember_secrets(storage.environment)
    os.environ.update(storage.environment)
    if storage.data_dirs:
        from tiering.cluster.fluss.remote_files import open_remote  # commands that read no remote file do not need it

        for directory in storage.data_dirs:
            open_remote(directory, storage.properties)
    return dict(storage.properties)
