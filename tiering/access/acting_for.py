"""The subject of a call: the identity that it proves, or a user for whom that identity may act.

A service (a Thrift server, Spark Connect) names its user in the header `lakeward-user-bin` of each call, as UTF-8. The name counts only if
the service's identity has the privilege IMPERSONATE. Then the user's grants decide what is visible and allowed. Without the privilege, the
call is made as the service itself.

The field `caller` in the message of a CALL counts only if the service does not authenticate callers. Otherwise it is just the name of a
user of some computer.
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
"""Hexadecimal digits of a principal's digest in a bound name."""

MayImpersonate = Callable[[Identity, str], bool]


def nobody_may(identity: Identity, user: str) -> bool:
    """Returns False: without grants, no identity may act for a user."""
    return False


_may_impersonate: MayImpersonate = nobody_may
_user: ContextVar[Identity | None] = ContextVar("acting_for", default=None)


def decide_impersonation(may_impersonate: MayImpersonate) -> None:
    """Sets the function that decides whether an identity may act for a user, because only the grants know it."""
    global _may_impersonate
    _may_impersonate = may_impersonate


def named_user(headers: Iterable[tuple[str, Any]]) -> str:
    """Returns the user in a call's headers; empty without one.

    Raises InvalidArgument for an invalid name, so that a call for a user is never answered as the service's own.
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
    """Performs the remaining work of this asyncio task for a user, if the caller may act for that user. Returns the effective subject.

    Only the user's name is known: a policy that forbids something to a group applies to the user, and one that permits does not.
    """
    identity = current_identity()
    is_trusted = bool(user) and identity.is_checked and user != identity.principal and _may_impersonate(identity, user)
    _user.set(Identity(user, identity.authentication, has_unknown_groups=True, peer=identity.peer) if is_trusted else None)
    return current_subject()


def current_subject() -> Identity:
    """Returns the identity whose grants count in the call of this thread or task: the caller, or the user for whom it acts."""
    return _user.get() or current_identity()


def kept_name(name: str) -> str:
    """Returns the name under which the service stores a name of its caller's choice, such as a lease id: a different one per principal.

    Names of the service's owner, and of callers that are not authenticated, are stored unchanged.
    """
    subject = current_subject()
    if not name or not subject.is_checked or subject.is_owner:
        return name
    return f"{name}-{hashlib.sha256(subject.principal.encode()).hexdigest()[:_KEPT_DIGITS]}"


def acting_principal(named: str) -> str:
    """Returns the acting principal for events, audit and CALLs. `named`, from the message, counts only without authentication."""
    return current_subject().principal if current_identity().is_checked else named
