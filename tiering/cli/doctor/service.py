"""The service at a uri, its port, its tables, and the lake that it writes to."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tiering.cli.doctor.findings import Finding, fail, ok, warn
from tiering.cli.doctor.machine import PACKAGE
from tiering.cli.processes.data_folder import read_data_folder
from tiering.client import LakewardClient
from tiering.errors import InvalidArgument, LakewardError, ServiceUnreachable
from tiering.lake.catalog_properties import public_uri
from tiering.lake.registry import open_lake, properties_from_service
from tiering.model.status import TableStatus
from tiering.model.tables import DEFAULT_LAKE_FORMAT
from tiering.redaction.redact import outside_text, remember_secrets
from tiering.round.transport import GrpcTransport
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.channel import target

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SHOWN_TABLES = 5


@dataclass(frozen=True)
class Service:
    """What answers at `uri`; `config` None: nobody that serves this caller, `failure` says why. `asked_for`: the user named the uri."""

    uri: str
    asked_for: bool
    config: pb.GetServiceConfigResponse | None
    failure: LakewardError | None = None

    @classmethod
    def ask(cls, uri: str, asked_for: bool) -> Service:
        """Raises InvalidArgument for a wrong uri. Whatever else keeps this caller from it is a finding, and the other checks go on."""
        try:
            transport = GrpcTransport(uri, "doctor")
            try:
                return cls(uri, asked_for, transport.service_config_now())
            finally:
                transport.close()
        except InvalidArgument:
            raise
        except LakewardError as error:
            return cls(uri, asked_for, None, error)

    @property
    def refuses(self) -> bool:
        """Whether something answers, and not this caller; else nobody is there, or it serves."""
        return self.failure is not None and type(self.failure) is not ServiceUnreachable

    def reachable(self) -> Iterator[Finding]:
        """Whether it answers, and is of this version."""
        if self.config is None:
            yield self._missing()
            return
        yield self._of_this_version(self.config)
        yield self._tables()

    def port(self) -> Iterator[Finding]:
        """Whether `lakeward up` could listen there. Nothing to say of another machine's port."""
        host, _, port = target(self.uri).rpartition(":")
        if host not in LOOPBACK:
            return
        if self.config is not None:
            yield ok("port", f"{port}: the service listens there")
        elif self.refuses:
            yield ok("port", f"{port}: a service listens there, and does not serve this caller")
        elif _can_listen(host, int(port)):
            yield ok("port", f"{port} is free")
        else:
            yield fail("port", f"another program listens on {port}", "Stop it, or choose another with `lakeward up --port`.")

    def lake(self, data: Path) -> Iterator[Finding]:
        """Opens the lake as the service says, in each format that it or a table has, or the catalog of the data folder."""
        root = data.expanduser().resolve()
        if self.config is not None:
            with LakewardClient(self.uri) as client:
                formats = formats_in_use(self.config.lake_format, client.list_tiering_statuses())
            for lake_format in formats:
                yield opened(lake_format, properties_from_service(lake_format, self.config.lake_properties))
        elif (root / "lake-catalog.db").exists():
            yield opened(DEFAULT_LAKE_FORMAT, read_data_folder(root).read_only_lake_properties)
        else:
            yield ok("lake", "nothing to open yet")

    def lake_properties(self) -> Mapping[str, str]:
        """As it tells everybody; none of a service that does not run."""
        return {} if self.config is None else self.config.lake_properties

    def _missing(self) -> Finding:
        """Why nobody serves; an error that knows better than to start another service brings its own hint."""
        mend = "Start one with `lakeward up`, or name the right one with --uri."
        if self.refuses and self.failure is not None:
            return fail("service", self.failure.message, self.failure.hint or mend)
        if not self.asked_for:
            return warn("service", f"none runs at {self.uri} (the default)", mend)
        return fail("service", f"none answers at {self.uri}" if self.failure is None else self.failure.message, mend)

    def _of_this_version(self, config: pb.GetServiceConfigResponse) -> Finding:
        service = f"version {config.version} at {self.uri}, cluster {config.cluster_kind} {config.cluster_id}"
        if config.version == version(PACKAGE):
            return ok("service", service)
        return warn("service", f"{service}; here is {version(PACKAGE)}", "Update the older of the two: calls that it lacks are refused.")

    def _tables(self) -> Finding:
        with LakewardClient(self.uri) as client:
            return of_tables(client.list_tiering_statuses())


def formats_in_use(service_format: str, statuses: Sequence[TableStatus]) -> list[str]:
    """That of the service, then those of tables that have another one, by name."""
    return [service_format, *sorted({status.lake_format for status in statuses} - {service_format})]


def of_tables(statuses: Sequence[TableStatus]) -> Finding:
    """Whether any fails, and which."""
    failing = [f"{status.database_name}.{status.table_name} ({status.error_class})" for status in statuses if status.last_error]
    if not failing:
        return ok("tables", f"{len(statuses)} lake table{'' if len(statuses) == 1 else 's'}, none fails")
    more = f" and {len(failing) - SHOWN_TABLES} more" if len(failing) > SHOWN_TABLES else ""
    listed = ", ".join(failing[:SHOWN_TABLES]) + more
    return warn("tables", f"{len(failing)} of {len(statuses)} fail: {listed}", "`lakeward status --watch` shows each error and its hint.")


def opened(lake_format: str, properties: Mapping[str, str]) -> Finding:
    """Whether the lake's tables of this format can be found from here, by these properties."""
    remember_secrets(properties)
    where = public_uri(properties.get("warehouse") or properties.get("uri") or "the lake")
    try:
        databases = open_lake(lake_format, properties).databases()
    except Exception as error:
        mend = "See that this machine reaches it and has what opens it: `lakeward lake-conf` prints how that is done."
        why = outside_text(str(error)).partition("\n")[0] or type(error).__name__
        if isinstance(error, InvalidArgument) and error.hint:
            mend = error.hint
        return fail("lake", f"{where} cannot be opened as {lake_format}: {why}", mend)
    return ok("lake", f"{where} opens as {lake_format}, {len(databases)} database{'' if len(databases) == 1 else 's'}")


def _can_listen(host: str, port: int) -> bool:
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as probe:
        # As gRPC listens: what a service that ended a moment ago left behind is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
        except OSError:
            return False
    return True
