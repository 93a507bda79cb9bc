"""Checks of policies: a policy file before use, and the policies of a running service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tiering.access.grants import read_policy_file
from tiering.cli.doctor.findings import Finding, fail, ok, warn
from tiering.cli.doctor.service import Service
from tiering.cli.system_catalog import SystemCatalog
from tiering.errors import AccessDenied, InvalidArgument, UnknownTable

CHECK = "grants"


def policies(service: Service, file: Path | None) -> Iterator[Finding]:
    """Yields the findings on the policy file, if there is one, and on the policies of the service, if it runs."""
    if file is not None:
        yield _of_file(file)
    if service.config is not None:
        yield _of_service(service.uri)
    elif service.refuses:
        yield warn(
            CHECK, f"the policies of the service at {service.uri} cannot be read: it does not serve this caller", "See `service` above."
        )
    elif file is None:
        yield ok(CHECK, "no policy file is named, and no service runs")


def _of_file(file: Path) -> Finding:
    try:
        engine = read_policy_file(file)
    except InvalidArgument as error:
        return fail(CHECK, error.message, error.hint)
    return ok(CHECK, f"{file}: {len(engine.statements)} policies are valid")


def _of_service(uri: str) -> Finding:
    with SystemCatalog(uri) as catalog:
        try:
            rows = catalog.read("grants")
        except UnknownTable:
            return ok(CHECK, "the version of the service has no grants: every caller may do everything")
        except AccessDenied:
            return ok(CHECK, "the service has policies, which only callers with ADMIN may read")
    problems = [row["policy_text"] for row in rows if row["effect"] == "error"]
    if problems:
        return fail(CHECK, f"the policy file has an error, so the previous policies are in force: {problems[0]}", "Correct the file.")
    if not rows:
        return warn(
            CHECK,
            "the service has no policies: every caller that it knows may do everything",
            "Use `lakeward coordinator --policy FILE` (docs/grants.md).",
        )
    return ok(CHECK, f"{len(rows)} policies are in force")
