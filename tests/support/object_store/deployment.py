"""A coordinator and tierers as real processes whose lake is in S3: Iceberg behind a REST catalog, or Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.faulty.deployment import FaultyDeployment
from support.lake_kinds.kinds import ICEBERG, LakeKind
from support.object_store.paimon_warehouse import PaimonWarehouse
from support.object_store.rest_server import RestCatalog
from support.running.processes import Process
from tiering.lake.catalog_properties import lake_environment


@dataclass
class DeploymentOnS3(FaultyDeployment):
    """Processes that are told where the lake is, and have no key of it but those that `catalog` does not vend."""

    catalog: RestCatalog | PaimonWarehouse = field(kw_only=True)
    more: Mapping[str, str] = field(default_factory=dict)
    """Other properties of the lake, or others than the catalog's own."""

    @property
    def lake_properties(self) -> Mapping[str, str]:
        return self.catalog.all_properties

    @property
    def lake_options(self) -> tuple[str, ...]:
        """Options of a command that opens the lake."""
        properties = {**self.catalog.lake, **self.more}
        return tuple(word for name, value in properties.items() for word in ("--lake-property", f"{name}={value}"))

    def start_coordinator(self, *options: str, port: int = 0, crash_point: str | None = None, **env: str) -> Process:
        return super().start_coordinator(*self.lake_options, *options, port=port, crash_point=crash_point, **env)

    def start_program(self, *arguments: str, log_name: str, env: Mapping[str, str] | None = None) -> Process:
        """Starts a program as its base class does. The process has the keys in its environment if the catalog vends none."""
        return super().start_program(*arguments, log_name=log_name, env={**lake_environment(self.catalog.secrets), **(env or {})})

    def assert_no_secret_left(self) -> None:
        """No file that a process of ours wrote, and nothing that it printed, has the store's secret key."""
        secret = self.catalog.store.secret_key.encode()
        written = [file for file in self.folder.rglob("*") if file.is_file()]
        assert written
        assert not [file for file in written if secret in file.read_bytes()]


def through(catalog: RestCatalog, uri: str) -> RestCatalog:
    """Returns the same catalog at another address, such as a proxy's."""
    return replace(catalog, uri=uri)


def on_s3(folder: Path, catalog: RestCatalog | PaimonWarehouse, kind: LakeKind = ICEBERG, **more: str) -> DeploymentOnS3:
    """One in `folder`, which nothing was started of."""
    return DeploymentOnS3(folder, kind=kind, catalog=catalog, more=more)
