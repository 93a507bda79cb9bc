"""Whether a cluster's tables are tiered by this deployment alone."""

from __future__ import annotations

from enum import StrEnum


class ServiceMode(StrEnum):
    """How a deployment lives with its cluster. Beside another tiering service the rules of `tiering.lake.rules.shared_base` decide."""

    EXCLUSIVE = "exclusive"
    """No other service tiers the cluster's tables: a tiering snapshot that is not ours is an error."""
    SHARED = "shared"
    """Another service may tier them, too; the cluster says whose turn it is, and does not fence who comes late."""
