"""For whom a call is made: the identity that it proves, or one of its users, where that identity may act for them.

A service (a Thrift server, Spark Connect) names its user in the header `lakeward-user-bin` of each call, as UTF-8. The name counts only if
the service's identity has the right IMPERSONATE. It then decides what is seen and what is allowed; without the right the call is made as
the service itself. The `caller` in the message of a CALL is for services that ask nobody who they are: of others it is the name of a user
of some computer, which says nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from tiering.access.identity import Identity, current_identity
from tiering.errors import InvalidArgument

USER_HEADER = "lakeward-user-bin"
LONGEST_USER_BYTES = 1_024

_KEPT_DIGITS = 16
"""Hexadecimal digits of a principal's digest in a kept name."""

MayImpersonate = Callable[[Identity, str], bool]


def nobody_may(identity: Identity, user: str) -> bool:
    """Without grants nobody acts for somebody else."""
    return False


_may_impersonate: MayImpersonate = nobody_may
_user: ContextVar[Identity | None] = ContextVar("acting_for", default=None)


def decide_impersonation(may_impersonate: MayImpersonate) -> None:
    """From now on `may_impersonate` says whether an identity may act for a user: grants know it."""
    global _may_impersonate
    _may_impersonate = may_impersonate


def named_user(headers: Iterable[tuple[str, Any]]) -> str:
    """The user whom a call's headers name; empty without one. Raises InvalidArgument for what is no name: a call that means to be
    somebody's is not answered as the service's own.
    """
    values = [value for name, value in headers if name == USER_HEADER]
    if not values:
        return ""
    try:
        user = values[0].decode("utf-8") if len(values) == 1 and len(values[0]) <= LONGEST_USER_BYTES else ""
    except UnicodeDecodeError:
        user = ""
    if not user.strip() or not user.isprintable():
        raise InvalidArgument(
            f"the header {USER_HEADER} names no user",
            hint=f"It is sent once, with a name of at most {LONGEST_USER_BYTES} bytes in UTF-8, without control characters.",
        )
    return user


def task_acts_for(user: str) -> Identity:
    """The rest of this asyncio task, which is one call, is done for that user, if the caller may act for them; returns whose grants count.

    Of a user only the name is known: a policy that forbids something to a group holds for the user, and one that permits does not.
    """
    identity = current_identity()
    believed = bool(user) and identity.is_checked and user != identity.principal and _may_impersonate(identity, user)
    _user.set(Identity(user, identity.authentication, has_unknown_groups=True, peer=identity.peer) if believed else None)
    return current_subject()


def current_subject() -> Identity:
    """Whose grants count in the call that this thread or task works for: the caller's, or those of the user for whom it acts."""
    return _user.get() or current_identity()


def kept_name(name: str) -> str:
    """The name under which the service keeps what its callers name, such as a lease or a writer: of each principal another one.

    The names of the service's owner, and of a service that asks nobody who they are, are kept as they were sent.
    """
    subject = current_subject()
    if not name or not subject.is_checked or subject.is_owner:
        return name
    return f"{name}-{hashlib.sha256(subject.principal.encode()).hexdigest()[:_KEPT_DIGITS]}"


def acting_principal(named: str) -> str:
    """Who acts, for events, the audit and CALLs. `named` is what the message says: it counts only if nobody is asked who they are."""
    return current_subject().principal if current_identity().is_checked else named
