"""Faults of a story that happen while a round runs: under its files, in its libraries, between two of its steps."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServiceUnavailableError
from structlog.testing import capture_logs

from support.background import tick
from support.worlds.lake_world import FRESHNESS_S, SteppedRound
from support.worlds.stories.failing_files import FailingFiles
from support.worlds.stories.rounds import FRESH_ROWS
from support.worlds.stories.upkeep import UpkeepSteps
from tiering.lake.paimon.commit import committer as paimon_committer
from tiering.lake.paimon.commit.committer import publish
from tiering.round.steps import actions as act

BETWEEN = (act.ReadLake, act.EnsureLakeTable, act.RecordPlan, act.RunSplits, act.BeginCommit, act.CommitLake)
"""Before which of its steps something happens to a round."""
SERVICE_TIMEOUT_S = 400


class LibraryPanic(BaseException):
    """A library's panic as Python sees it: no Exception."""


class FaultyRounds(UpkeepSteps):
    """Each fault returns what it did, or None if there was nothing that it could happen to."""

    def due_round(self) -> SteppedRound | None:
        """A round that has not begun."""
        if self.rng.random() < FRESH_ROWS:
            self.attempt("write", self.write)
        self.world.clock.advance(FRESHNESS_S + 1)
        tick(self.world.coordinator)
        return self.begin()

    def advance_before(self, taken: SteppedRound, stops: tuple[type[act.Action], ...] = BETWEEN) -> bool:
        """To some step of these; False if the round does not come to it."""
        stop = self.rng.choice(stops)
        while not isinstance(taken.runner.next_action, stop):
            if isinstance(taken.runner.next_action, act.End) or taken.runner.advance() is not None:
                self.end(taken)
                return False
        return True

    def during_round(self, happen: Callable[[SteppedRound], str | None], stops: tuple[type[act.Action], ...] = BETWEEN) -> str | None:
        """Something happens between two steps of a round."""
        taken = self.due_round()
        if taken is None or not self.advance_before(taken, stops):
            return None
        before = type(taken.runner.next_action).__name__
        happened = self.attempt(f"before {before}", lambda: happen(taken))
        ended = self.end(taken)
        self.log.append(ended)
        return f"before {before}, {ended}" if isinstance(happened, str) else None

    def under_round(
        self, fault: AbstractContextManager[Any], happened: Callable[[], object], stops: tuple[type[act.Action], ...] = BETWEEN
    ) -> str | None:
        """A round meets a fault from some step on."""
        taken = self.due_round()
        if taken is None or not self.advance_before(taken, stops):
            return None
        before = type(taken.runner.next_action).__name__
        with fault:
            while not isinstance(taken.runner.next_action, act.End):
                taken.runner.advance()
        self.log.append(self.end(taken))
        return f"from {before} on, {happened()}" if happened() else None

    # the lake's files

    def fail_files(self, operation: str, *, after: bool = False, code: int = errno.EIO) -> str | None:
        failing = FailingFiles(self.world.folder.root / "lake", operation, self.rng.randrange(6), after=after, code=code)
        return self.under_round(failing, lambda: failing.failed)

    def fill_disk(self) -> str | None:
        """All that this process writes; what it prints goes to a file as well, so nothing is printed meanwhile."""
        size, refused = self.rng.choice((200, 800, 3_000)), []

        @contextmanager
        def full() -> Iterator[None]:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            with capture_logs() as lines:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
                try:
                    yield
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            refused.extend(lines)

        return self.under_round(full(), lambda: f"files of {size} bytes", (act.RunSplits, act.EnsureLakeTable))

    # libraries and catalogs

    def panic_in_task(self) -> str | None:
        """Where the first file is begun."""
        panics: list[str] = []

        def panic(*_: object, **__: object) -> None:
            panics.append("panic")
            raise LibraryPanic("a library panicked")

        return self.under_round(patch("pyarrow.parquet.ParquetWriter", panic), lambda: panics and "a library panicked", (act.RunSplits,))

    def break_commit_request(self, error: BaseException, *, lands: bool, meanwhile: Callable[[], object] | None = None) -> str | None:
        """The one request that publishes a round; `meanwhile`: what happens before it does."""
        sent: list[str] = []

        def commit(call: Callable[..., Any], *arguments: Any) -> Any:
            if sent:
                return call(*arguments)
            sent.append("sent")
            if meanwhile is not None:
                meanwhile()
            if lands:
                call(*arguments)
            raise error

        return self.under_round(self._commits(commit), lambda: sent and f"{type(error).__name__} for a commit request", (act.CommitLake,))

    def _commits(self, commit: Callable[..., Any]) -> AbstractContextManager[Any]:
        if self.world.lake_format == "paimon":
            _, *others = paimon_committer.PaimonCommitter.__init__.__defaults__ or ()
            defaults = (lambda *arguments: commit(publish, *arguments), *others)
            return patch.object(paimon_committer.PaimonCommitter.__init__, "__defaults__", defaults)
        original = SqlCatalog.commit_table
        return patch.object(SqlCatalog, "commit_table", lambda *arguments: commit(original, *arguments))

    def answer_unavailable(self, *, lands: bool) -> str | None:
        return self.break_commit_request(ServiceUnavailableError("503: try again later"), lands=lands)

    def panic_in_commit(self) -> str | None:
        return self.break_commit_request(LibraryPanic("a library panicked"), lands=self.rng.random() < 0.5)

    def hang_catalog(self) -> str | None:
        """Delays the commit request until another tierer got the table, and perhaps tiered it."""

        def others_take_over() -> None:
            self.world.clock.advance(SERVICE_TIMEOUT_S)
            tick(self.world.coordinator)
            if self.rng.random() < 0.5:
                self.attempt("meanwhile", self.tier)

        return self.break_commit_request(TimeoutError("no answer"), lands=True, meanwhile=others_take_over)

    # processes

    def sleep_in_round(self) -> str | None:
        """A tierer's machine is suspended for longer than the service timeout."""

        def sleep(_: SteppedRound) -> str:
            self.world.clock.advance(SERVICE_TIMEOUT_S)
            tick(self.world.coordinator)
            if self.rng.random() < 0.5:
                self.attempt("meanwhile", self.tier)
            return "asleep"

        return self.during_round(sleep)

    def restart_coordinator_in_round(self) -> str | None:
        def restart(_: SteppedRound) -> str:
            self.world.restart()
            return "coordinator restarted"

        return self.during_round(restart)

    def restart_cluster_in_round(self) -> str | None:
        def restart(_: SteppedRound) -> str:
            self.restart_cluster()
            return "cluster restarted"

        return self.during_round(restart)
