"""Checks of the service at a uri: its port, its tables, the lake that it writes to, and the policies."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sys_tables.catalog_client import SystemCatalog
from tiering.access.grants import read_policy_file
from tiering.cli.doctor.findings import Finding, fail, ok, warn
from tiering.cli.doctor.machine import PACKAGE
from tiering.cli.processes.data_folder import read_data_folder
from tiering.cli.service_lake import service_config
from tiering.client import LakewardClient
from tiering.errors import AccessDenied, InvalidArgument, LakewardError, ServiceUnreachable, UnknownTable
from tiering.lake.catalog_properties import public_uri
from tiering.lake.registry import open_lake, properties_from_service
from tiering.model.status import TableStatus
from tiering.model.tables import DEFAULT_LAKE_FORMAT
from tiering.redaction.redact import outside_text, remember_secrets
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.channel import target

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SHOWN_TABLES = 5
GRANTS = "grants"


@dataclass(frozen=True)
class Service:
    """The service at `uri`. `config` is None if no service serves this caller; `failure` says why. `asked_for`: the user named the uri."""

    uri: str
    asked_for: bool
    config: pb.GetServiceConfigResponse | None
    failure: LakewardError | None = None

    @classmethod
    def ask(cls, uri: str, asked_for: bool) -> Service:
        """Asks the service for its configuration. Raises InvalidArgument for a bad uri. Any other error becomes a finding of a check."""
        try:
            return cls(uri, asked_for, service_config(uri, "doctor"))
        except InvalidArgument:
            raise
        except LakewardError as error:
            return cls(uri, asked_for, None, error)

    @property
    def refuses(self) -> bool:
        """Whether a service answers, but does not serve this caller."""
        return self.failure is not None and type(self.failure) is not ServiceUnreachable

    def reachable(self) -> Iterator[Finding]:
        """Yields whether the service answers and has the version of this program, and the state of its tables."""
        if self.config is None:
            yield self._missing()
            return
        yield self._of_this_version(self.config)
        yield self._tables()

    def port(self) -> Iterator[Finding]:
        """Yields whether `lakeward up` could listen on the port. There is no finding on a port of another machine."""
        host, _, port = target(self.uri).rpartition(":")
        if host not in LOOPBACK:
            return
        if self.config is not None:
            yield ok("port", f"{port}: the service listens there")
        elif self.refuses:
            yield ok("port", f"{port}: a service listens there, but does not serve this caller")
        elif _can_listen(host, int(port)):
            yield ok("port", f"{port} is free")
        else:
            yield fail("port", f"another program listens on {port}", "Stop it, or choose another port with `lakeward up --port`.")

    def lake(self, data: Path) -> Iterator[Finding]:
        """Opens the lake of the service in each format in use, or the lake in the data folder, and yields whether that works."""
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

    def proof_key(self) -> Iterator[Finding]:
        """Yields the fingerprint of the key with which the service signs proofs."""
        if self.config is None:
            return
        if self.config.HasField("proof_key_fingerprint"):
            yield ok("proof key", f"{self.config.proof_key_fingerprint} signs the proofs of this service")
        else:
            result = "the service has no key that it can use, so it cannot prove tables"
            yield warn("proof key", result, "`CALL fluss.sys.prove_table('db.t')` says why.")

    def lake_properties(self) -> Mapping[str, str]:
        """Returns the lake properties that the service reports to all clients; none without a service."""
        return {} if self.config is None else self.config.lake_properties

    def _missing(self) -> Finding:
        """Returns the finding on a service that does not serve this caller. The hint of its error is used, if it has one."""
        mend = "Start a service with `lakeward up`, or name the right one with --uri."
        if self.refuses and self.failure is not None:
            return fail("service", self.failure.message, self.failure.hint or mend)
        if not self.asked_for:
            return warn("service", f"no service runs at {self.uri} (the default)", mend)
        return fail("service", f"no service answers at {self.uri}" if self.failure is None else self.failure.message, mend)

    def _of_this_version(self, config: pb.GetServiceConfigResponse) -> Finding:
        service = f"version {config.version} at {self.uri}, cluster {config.cluster_kind} {config.cluster_id}"
        if config.version == version(PACKAGE):
            return ok("service", service)
        return warn(
            "service",
            f"{service}; this program has version {version(PACKAGE)}",
            "Update the older of the two: it refuses calls that it does not have.",
        )

    def _tables(self) -> Finding:
        with LakewardClient(self.uri) as client:
            return of_tables(client.list_tiering_statuses())


def formats_in_use(service_format: str, statuses: Sequence[TableStatus]) -> list[str]:
    """Returns the format of the service, then other formats of tables, by name."""
    return [service_format, *sorted({status.lake_format for status in statuses} - {service_format})]


def of_tables(statuses: Sequence[TableStatus]) -> Finding:
    """Returns the finding on failing tables."""
    failing = [f"{status.database_name}.{status.table_name} ({status.error_class})" for status in statuses if status.last_error]
    if not failing:
        return ok("tables", f"{len(statuses)} lake table{'' if len(statuses) == 1 else 's'}, none fails")
    more = f" and {len(failing) - SHOWN_TABLES} more" if len(failing) > SHOWN_TABLES else ""
    listed = ", ".join(failing[:SHOWN_TABLES]) + more
    return warn("tables", f"{len(failing)} of {len(statuses)} fail: {listed}", "`lakeward status --watch` shows each error and its hint.")


def opened(lake_format: str, properties: Mapping[str, str]) -> Finding:
    """Returns whether the lake opens in this format with these properties."""
    remember_secrets(properties)
    where = public_uri(properties.get("warehouse") or properties.get("uri") or "the lake")
    try:
        databases = open_lake(lake_format, properties).databases()
    except Exception as error:
        mend = "Check that this machine reaches the lake and has the credentials for it. `lakeward lake-conf` prints the settings."
        why = outside_text(str(error)).partition("\n")[0] or type(error).__name__
        if isinstance(error, InvalidArgument) and error.hint:
            mend = error.hint
        return fail("lake", f"{where} cannot be opened as {lake_format}: {why}", mend)
    return ok("lake", f"{where} opens as {lake_format}, {len(databases)} database{'' if len(databases) == 1 else 's'}")


def _can_listen(host: str, port: int) -> bool:
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as probe:
        # gRPC listens in the same way: sockets of a service that ended a moment ago do not prevent it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
        except OSError:
            return False
    return True


def policies(service: Service, file: Path | None) -> Iterator[Finding]:
    """Yields the findings on the policy file, if there is one, and on the policies of the service, if it runs."""
    if file is not None:
        yield _of_file(file)
    if service.config is not None:
        yield _of_service(service.uri)
    elif service.refuses:
        yield warn(
            GRANTS, f"the policies of the service at {service.uri} cannot be read: it does not serve this caller", "See `service` above."
        )
    elif file is None:
        yield ok(GRANTS, "no policy file is named, and no service runs")


def _of_file(file: Path) -> Finding:
    try:
        engine = read_policy_file(file)
    except InvalidArgument as error:
        return fail(GRANTS, error.message, error.hint)
    return ok(GRANTS, f"{file}: {len(engine.statements)} policies are valid")


def _of_service(uri: str) -> Finding:
    with SystemCatalog(uri) as catalog:
        try:
            rows = catalog.read("grants")
        except UnknownTable:
            return ok(GRANTS, "the version of the service has no grants: every caller may do everything")
        except AccessDenied:
            return ok(GRANTS, "the service has policies, which only callers with ADMIN may read")
    problems = [row["policy_text"] for row in rows if row["effect"] == "error"]
    if problems:
        return fail(GRANTS, f"the policy file has an error, so the previous policies are in force: {problems[0]}", "Correct the file.")
    if not rows:
        return warn(
            GRANTS,
            "the service has no policies: every caller that it knows may do everything",
            "Use `lakeward coordinator --policy FILE` (docs/grants.md).",
        )
    return ok(GRANTS, f"{len(rows)} policies are in force")
