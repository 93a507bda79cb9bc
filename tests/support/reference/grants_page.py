"""The page `docs/security-grants.md`: what each privilege allows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator

from support.reference.markdown import attribute_docs, markdown_table
from sys_tables.registry import default_registry
from tiering.access.privileges import GROUPS, SERVICE_PRIVILEGES, TABLE_PRIVILEGES, Privilege
from tiering.access.requirements import RPCS, PrivilegeTarget, Requirement
from tiering.procedures.registry import requirements

_Needs = Callable[[Requirement], bool]

_DECIDED_ELSEWHERE = (PrivilegeTarget.PROCEDURE, PrivilegeTarget.SYSTEM_TABLE)

_INTRODUCTION = """# What each privilege allows

This page lists the system tables, columns, procedures and RPCs that each privilege allows.
`PYTHONPATH=.:tests python -m support.reference` makes it from the code. Tests compare it with the service, and call everything with and
without the privilege. [grants.md](grants.md) explains policies.

```cedar
// Ana reads the database sales: DESCRIBE and SELECT, with everything in these two rows of the table.
permit (principal == User::"ana", action in Action::"read", resource in Database::"sales");
```"""

_RULES = """- No privilege implies another one. A table without DESCRIBE is unknown to the caller, whatever else is granted on it.
- A privilege on a database holds for all of its tables, also for those that are created later.
- A call that this page does not list is refused.
- A service without a policy file lets every identified caller do everything. The owner of the service may always do everything.
- Grants do not restrict what a user reads directly from the lake's catalog and storage.
- `sweep_lake` needs OPERATE on its table, or on the service if it names no table."""


def render() -> str:
    """Returns the text of the page."""
    header = ("privilege", "what it is for", "rows of system tables", "procedures", "RPCs")
    notes: dict[str, list[str]] = {}
    for table in default_registry().tables:
        if table.requires_note:
            notes.setdefault(table.requires_note, []).append(f"`{table.name}`")
    groups = (f"`{name}` ({', '.join(privileges)})" for name, privileges in GROUPS.items())
    rules = [
        _RULES,
        f'- Groups of privileges, for `action in Action::"..."`: {", ".join(groups)}.',
        *(f"- {', '.join(tables)}: {note}" for note, tables in notes.items()),
    ]
    return "\n\n".join([_INTRODUCTION, markdown_table(header, _rows()), "## Rules and limits", "\n".join(rules)]) + "\n"


def _rows() -> Iterator[list[str]]:
    meanings = attribute_docs(inspect.getsource(Privilege))
    yield _row(
        "none, not even an identity",
        "Check the health of the service.",
        lambda line: not line.identified and line.on is not PrivilegeTarget.TICKET,
    )
    yield _row("none", "Connect, and learn what the service offers.", lambda line: line.identified and line.on is PrivilegeTarget.NOTHING)
    by_ticket = (
        "Renew, plan and close a read. To renew and plan, its caller must still have SELECT on the table. "
        "Write the rows of a statement, and count them. To write, the statement's user must still have WRITE on the table."
    )
    yield _row("the ticket of a read or of a write, and none", by_ticket, lambda line: line.on is PrivilegeTarget.TICKET)
    forwarding = _list(_short(rpc) for rpc, line in RPCS.items() if line.on in _DECIDED_ELSEWHERE)
    yield ["that of the system table or procedure in the call", "Read system tables, and make CALLs.", "", "", forwarding]
    for privilege in TABLE_PRIVILEGES:
        yield _row(f"{privilege} on a table or database", meanings[privilege], _needs(privilege, on_service=False))
    for privilege in SERVICE_PRIVILEGES:
        yield _row(f"{privilege} on the service", meanings[privilege], _needs(privilege, on_service=True))


def _row(name: str, meaning: str, needs: _Needs) -> list[str]:
    tables = [f"`{table.name}`" for table in default_registry().tables if needs(table.requires)]
    tables += [
        f"`{table.name}` ({text})" for table in default_registry().tables for requirement, text in table.further if needs(requirement)
    ]
    procedures = (procedure for procedure, line in requirements().items() if needs(line))
    rpcs = (_short(rpc) for rpc, line in RPCS.items() if line.on not in _DECIDED_ELSEWHERE and needs(line))
    return [name, meaning, ", ".join(tables), _list(procedures), _list(rpcs)]


def _needs(privilege: Privilege, *, on_service: bool) -> _Needs:
    def needs(line: Requirement) -> bool:
        if privilege is Privilege.TIERER and line.tierer:
            return True
        return line.privilege is privilege and (
            line.on is PrivilegeTarget.TABLE_OR_SERVICE or (line.on is PrivilegeTarget.SERVICE) is on_service
        )

    return needs


def _short(rpc: str) -> str:
    """Returns `Service.Method` for `/package.Service/Method`."""
    service, method = rpc.removeprefix("/").split("/")
    return f"{service.rpartition('.')[2]}.{method}"


def _list(names: Iterable[str]) -> str:
    """Returns the names in code style, each once, in the order of the alphabet."""
    return ", ".join(f"`{name}`" for name in sorted(set(names)))
