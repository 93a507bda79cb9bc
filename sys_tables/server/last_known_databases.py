"""The databases that Describe names. While the cluster cannot list them, each caller gets the databases of its own last answer."""

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
"""Most callers in the cache. The caller with the oldest request is evicted first."""

_log = structlog.get_logger(__name__)


class LastKnownDatabases:
    """The last databases of each caller, since callers may know of different databases. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_caller: OrderedDict[Identity, tuple[str, ...]] = OrderedDict()

    def of(self, view: NamesView) -> Sequence[str]:
        """Returns the databases. Without a description no caller could read `sys`, and its tables matter most in an outage."""
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
