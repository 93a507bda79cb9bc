"""Authorization: the policy file of a service, and what its policies allow an identity.

The file is read again when it has changed. A file with an error changes nothing: the former policies stay in force, and `problem` gives the
reason until it is repaired. Decisions for an identity are kept until the policies change (`decisions`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from tiering.access.acting_for import current_subject
from tiering.access.file_watch import FileVersion, file_version
from tiering.access.identity import UNCHECKED, Authentication, Identity
from tiering.access.policies.decisions import Decisions, Mask
from tiering.access.policies.engine import CedarEngine, PolicyStatement
from tiering.access.privileges import SERVICE, Privilege, Resource, statement_for
from tiering.errors import AccessDenied, InvalidArgument, UnknownTable
from tiering.model.tables import TablePath

RELOAD_SECONDS = 1.0
"""Longest time until a change of the file is in force."""

KEPT_IDENTITIES = 1_000
"""Number of identities whose decisions are kept. The least recently used one is removed first."""

_log = structlog.get_logger(__name__)


class Access:
    """The rights of one identity. It is thread-safe: concurrent computations have the same result."""

    def __init__(self, identity: Identity, engine: CedarEngine | None) -> None:
        """`engine` None: everything is allowed."""
        self.identity = identity
        self._policies = engine
        self._engine = engine.for_unknown_groups if engine is not None and identity.has_unknown_groups else engine
        self._on_service: dict[Privilege, bool] = {}
        self._decisions: dict[tuple[Privilege, str], Decisions] = {}

    @property
    def is_unrestricted(self) -> bool:
        """Whether nothing is ever refused."""
        return self._engine is None

    def is_still(self, other: Access) -> bool:
        """Returns whether this is the access of the same caller by the same policies."""
        return self._policies is other._policies and replace(self.identity, peer="") == replace(other.identity, peer="")

    def may(self, privilege: Privilege, resource: Resource) -> bool:
        """Returns whether the privilege is granted, by names alone: the resource need not exist."""
        engine = self._engine
        if engine is None:
            return True
        if resource.kind not in privilege.kinds:
            return False
        if resource.database is not None:
            return self._decided(engine, privilege, resource.kind).of(resource)
        decision = self._on_service.get(privilege)
        if decision is None:
            decision = self._on_service[privilege] = engine.allows(self.identity, privilege, resource)
        return decision

    def may_table(self, privilege: Privilege, path: TablePath) -> bool:
        """Returns whether the privilege is granted on a table that the caller may also see."""
        resource = Resource.of_table(path)
        return self.may(Privilege.DESCRIBE, resource) and self.may(privilege, resource)

    def sees(self, path: TablePath) -> bool:
        """Returns whether the caller may see the table."""
        return self.may(Privilege.DESCRIBE, Resource.of_table(path))

    def sees_name(self, database_name: str | None, table_name: str | None) -> bool:
        """Returns whether the caller may see the table with these names. Rows without a table need OPERATE on the service."""
        if database_name is None or table_name is None:
            return self.may(Privilege.OPERATE, SERVICE)
        return self.may(Privilege.DESCRIBE, Resource(database_name, table_name))

    @property
    def sees_numbers(self) -> bool:
        """Whether the caller may read numbers that count other callers' tables or events, such as the length of a queue."""
        return self.may(Privilege.OPERATE, SERVICE)

    def visible(self, databases: Any, names: Any) -> Mask:
        """Returns which of many tables the caller may see, in the order of the Arrow arrays of their databases and names."""
        return self.may_tables(Privilege.DESCRIBE, databases, names)

    def may_tables(self, privilege: Privilege, databases: Any, names: Any) -> Mask:
        """Returns on which of many tables the privilege is granted, whether or not the caller may see them; the arrays as in `visible`."""
        if self._engine is None:
            return np.ones(len(names), np.bool_)
        return self._decided(self._engine, privilege, "Table").of_tables(databases, names)

    def require(self, privilege: Privilege, resource: Resource) -> None:
        """Raises UnknownTable for a table that the caller may not see, and AccessDenied for another missing privilege."""
        if self._engine is None:
            return
        if resource.name is not None and not self.may(Privilege.DESCRIBE, resource):
            raise UnknownTable(f"there is no table {resource.id}")
        if not self.may(privilege, resource):
            raise self.denial(privilege, resource)

    def require_new(self, privilege: Privilege, path: TablePath) -> None:
        """Raises AccessDenied if the privilege on a table is missing, whether or not the table exists."""
        if not self.may_table(privilege, path):
            raise self.denial(privilege, Resource.of_table(path))

    def denial(self, privilege: Privilege, resource: Resource) -> AccessDenied:
        """Returns the refusal, with the policy to ask for."""
        return AccessDenied(
            f"{self.identity.principal} lacks {privilege} on {resource}",
            hint=f"Ask the owner of the policy file for: {statement_for(self.identity.principal, privilege, resource)}",
        )

    def _decided(self, engine: CedarEngine, privilege: Privilege, kind: str) -> Decisions:
        decisions = self._decisions.get((privilege, kind))
        if decisions is None:
            decisions = self._decisions[privilege, kind] = Decisions(engine, self.identity, privilege)
        return decisions


EVERYTHING = Access(UNCHECKED, None)
"""The access of a caller to whom nothing is refused."""

_current: ContextVar[Access] = ContextVar("access", default=EVERYTHING)


def current_access() -> Access:
    """Returns the access in the call of this task; EVERYTHING outside of a call."""
    return _current.get()


def task_may(access: Access) -> None:
    """Sets the access for the remaining work of this asyncio task, which is one call."""
    _current.set(access)


@contextmanager
def limited_to(access: Access) -> Iterator[None]:
    """Sets the access for the code in the block."""
    token = _current.set(access)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(frozen=True)
class PolicyState:
    """The policies in force. `problem` is why the present file is not in force; None if it is."""

    statements: Sequence[PolicyStatement]
    loaded_at: datetime | None
    problem: str | None


NO_POLICIES = PolicyState((), None, None)


class Grants:
    """The policies of one service. Without a file, every caller may do everything."""

    def __init__(
        self,
        file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        users: Callable[[], Sequence[Identity]] = tuple,
    ) -> None:
        """Reads the file. `users` returns the users that the service knows with their groups, such as those with a token.

        Raises InvalidArgument for an unreadable or faulty file, because then no policies would be in force.
        """
        self._file = file
        self._users = users
        self._clock = clock
        self._lock = threading.Lock()
        self._engine: CedarEngine | None = None
        self._kept: OrderedDict[Identity, Access] = OrderedDict()
        self._loaded_at: datetime | None = None
        self._problem: str | None = None
        self._version: FileVersion | None = None
        self._looked_at = clock()
        if file is not None:
            self._version = file_version(file)
            self._engine, self._loaded_at = read_policy_file(file), datetime.now(UTC)

    @property
    def has_policy(self) -> bool:
        """Whether anything can be refused."""
        return self._file is not None

    def current(self) -> Access:
        """Returns the access in the call of this thread or task: that of its caller, or of the user for whom it acts."""
        return self.access_of(current_subject())

    def access_of(self, identity: Identity) -> Access:
        """Returns an identity's access by the present file."""
        if self._file is not None:
            self._reload(self._file)  # for any caller, so that a problem of the file is logged soon
        if self._file is None or not identity.is_checked or identity.is_owner:
            return Access(identity, None)  # the owner could change the file and everything that it protects
        subject = replace(identity, peer="")
        with self._lock:
            access = self._kept.get(subject)
            if access is None:
                access = self._kept[subject] = Access(subject, self._engine)
                if len(self._kept) > KEPT_IDENTITIES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(subject)
            return access

    def known_users(self, principal: str | None = None) -> Sequence[Access]:
        """Returns the access of each user that the service or a policy names; with `principal`, the access of this user alone.

        The groups of a user whom only a policy or the question names are unknown. No token of the owner is among them.
        """
        with self._lock:
            engine = self._engine
        identities = {replace(identity, peer=""): None for identity in self._users() if principal in (None, identity.principal)}
        named = (() if engine is None else engine.users) if principal is None else [principal]
        with_groups = {identity.principal for identity in identities}
        unknown = [Identity(name, Authentication.TOKEN, has_unknown_groups=True) for name in named if name not in with_groups]
        return [self.access_of(identity) for identity in (*identities, *unknown)]

    def may_impersonate(self, identity: Identity, user: str) -> bool:
        """Returns whether an identity may read and make CALLs as a user. Without a policy file, none may."""
        if not self.has_policy:
            return False
        access = self.access_of(identity)
        return not access.is_unrestricted and any(access.may(right, SERVICE) for right in (Privilege.IMPERSONATE, Privilege.COORDINATOR))

    def state(self) -> PolicyState:
        """Returns the policies in force, and the problem of the file."""
        if self._file is not None:
            self._reload(self._file)
        with self._lock:
            return PolicyState(() if self._engine is None else self._engine.statements, self._loaded_at, self._problem)

    def _reload(self, file: Path) -> None:
        with self._lock:
            now = self._clock()
            if now - self._looked_at < RELOAD_SECONDS:
                return
            self._looked_at = now
            version = file_version(file)
            if version == self._version:
                return
            self._version = version
            try:
                self._engine = read_policy_file(file)
            except InvalidArgument as error:
                self._problem = f"{error.message} {error.hint}".strip()
                _log.error("the policy file has an error: the former policies stay in force", file=str(file), error=error.message)
                return
            self._kept.clear()
            self._loaded_at, self._problem = datetime.now(UTC), None
            _log.warning("the policies have changed", file=str(file), policies=len(self._engine.statements))


def read_policy_file(file: Path) -> CedarEngine:
    """Returns the policies of a file. Raises InvalidArgument, which names the file."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"the policy file {file} cannot be read: {error}", hint="Name another with --policy.") from error
    try:
        return CedarEngine(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"the policy file {file}: {error.message}", hint=error.hint) from error
