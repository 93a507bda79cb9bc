"""For whom a call is made: the identity that it proves, or one of its users, where that identity may act for them."""

from __future__ import annotations

from collections.abc import Callable

from tiering.access.identity import Identity, current_identity

MayImpersonate = Callable[[Identity, str], bool]


def nobody_may(identity: Identity, user: str) -> bool:
    """Without grants nobody acts for somebody else."""
    return False


_may_impersonate: MayImpersonate = nobody_may


def decide_impersonation(may_impersonate: MayImpersonate) -> None:
    """From now on `may_impersonate` says whether an identity may act for a user: grants know it."""
    global _may_impersonate
    _may_impersonate = may_impersonate


def acting_principal(named: str) -> str:
    """Who acts, for events, the audit and CALLs. `named` is what the message says: it counts only if nobody is asked who they are, or the
    caller has the right IMPERSONATE for that user.
    """
    identity = current_identity()
    if not identity.is_checked:
        return named
    if named and named != identity.principal and _may_impersonate(identity, named):
        return named
    return identity.principal
