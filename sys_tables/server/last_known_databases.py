"""The databases that Describe names: those of now, and while the cluster cannot list them those that the same caller was told of last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import structlog

from tiering.access.acting_for import current_subject
from tiering.access.identity import Identity
from tiering.coordinator.interface import NamesView
from tiering.errors import ClusterUnavailable

KEPT_CALLERS = 1_000
"""The one that asked longest ago goes first."""

_log = structlog.get_logger(__name__)


class LastKnownDatabases:
    """Thread-safe. By caller: what somebody may know of is not told to anybody else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_caller: OrderedDict[Identity, tuple[str, ...]] = OrderedDict()

    def of(self, view: NamesView) -> Sequence[str]:
        """Without a description nobody could read `sys`, and an outage is when its tables are needed most."""
        caller = replace(current_subject(), peer="")
        try:
            databases = tuple(view.databases())
        except ClusterUnavailable as error:
            _log.warning("databases as last known: the cluster cannot list them", error_class=error.error_class, message=error.message)
            with self._lock:
                return self._by_caller.get(caller, ())
        with self._lock:
            self._by_caller[caller] = databases
            self._by_caller.move_to_end(caller)
            if len(self._by_caller) > KEPT_CALLERS:
                self._by_caller.popitem(last=False)
        return databases
