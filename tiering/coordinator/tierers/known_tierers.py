"""The tierers that sent heartbeats, in memory: bounded in number and in size, and forgotten once they are lost.

A tierer is a process: its id and its **incarnation**, a random name that it takes when it starts. Sequences order the
heartbeats of one incarnation only, and no clock orders two of them, so neither a clock that was set back nor a heartbeat
that somebody made up keeps a tierer from being heard. Of several incarnations under one id:

- one that was never met before has started later: it takes the rounds of the others over, once, under new epochs;
- heartbeats of an earlier one may be late. They change nothing of the newer one, and get no table;
- an earlier one that goes on is a second process with the same id. Both work side by side, fenced by epochs like any two
  tierers, and one warning says so.

Forgetting a tierer costs nothing: its next heartbeat brings it back. For a day it is still shown as one that was lost.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from tiering.coordinator.decisions.assignments import takes_tables
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TiererRecord
from tiering.errors import InvalidArgument
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.request_bounds import check_id, informative

_log = structlog.get_logger(__name__)

KEPT_ABSENCES = 100
"""Times without any tierer. A queued table has waited through few of them."""

KEPT_TIERERS = 1_000
"""Far more than one coordinator serves. Beyond it the one that was silent for longest is forgotten, never a newcomer refused."""

SHOWN_AFTER_LOSS = timedelta(days=1)
"""Somebody who comes in the morning sees which tierers were lost at night."""

LATE_HEARTBEATS = 2
"""A process that ended may have left so many on their way: a request that was held, and the one that overtook it."""

MAX_ID_LENGTH = 190
"""The lease of a tierer is named after it, with nine characters more, and has at most 200."""

MAX_INCARNATION_LENGTH = 64
TiererKey = tuple[str, str]
"""Tierer id and incarnation."""


@dataclass(frozen=True)
class Sender:
    """The tierer that sent a heartbeat. `overtaken`: a newer heartbeat of it came first; `may_take`: it may get a table."""

    tierer: TiererRecord
    overtaken: bool = False
    may_take: bool = True


class KnownTierers:
    """The tierers by id and incarnation. One thread at a time changes it, any may read."""

    def __init__(self, service_timeout_ms: int, start: Moment) -> None:
        self._service_timeout_ms = service_timeout_ms
        self._tierers: dict[TiererKey, TiererRecord] = {}
        self._lost: dict[TiererKey, TiererRecord] = {}
        self._fenced: dict[tuple[str, str], None] = {}
        """By id and `process_digest`. Kept beside the others: a process that hangs is forgotten, and fenced when it goes on."""
        self._first_deadline: datetime | None = None
        """The earliest deadline of all tierers, or a time before it."""
        self._absences: deque[tuple[datetime, datetime]] = deque(maxlen=KEPT_ABSENCES)
        self._last_able = start.wall
        """When a tierer that gets tables was last heard of."""

    def meet(self, message: pb.PbTierer, now: Moment, *, stopping: bool = False) -> Sender:
        """Renews the tierer that a heartbeat names, or adds it. Raises InvalidArgument for a name that is not allowed."""
        key = key_of(message)
        known = self._tierers.get(key)
        if known is not None and message.sequence and message.sequence <= known.sequence:
            return Sender(known, overtaken=True, may_take=False)
        renewed = TiererRecord(
            tierer_id=message.tierer_id,
            incarnation=key[1],
            sequence=message.sequence,
            started_at_ms=message.started_at_ms,
            host=informative(message.host),
            application_id=informative(message.application_id),
            version=informative(message.version),
            slots=max(message.slots, 0),
            heartbeat_time=now.wall,
            lost_deadline=now.after(self._service_timeout_ms),
            stopped=stopping,
            superseded=0 if known is None else max(known.superseded - 1, 0),
            took_over=known is not None and known.took_over,
            fenced=(key[0], process_digest(key[1])) in self._fenced,
            warned_of_age=known is not None and known.warned_of_age,
            rounds=0 if known is None else known.rounds,
        )
        self._note_absence(renewed, now)
        if known is None:
            self._supersede(message.tierer_id)
        # Kept in the order in which they were heard of.
        self._tierers.pop(key, None)
        self._tierers[key] = renewed
        if len(self._tierers) > KEPT_TIERERS:
            del self._tierers[next(iter(self._tierers))]
        if self._first_deadline is None:
            self._first_deadline = renewed.lost_deadline
        if known is None or not known.superseded:
            return Sender(renewed)
        if not renewed.superseded and not stopping:
            self._warn_of_two(renewed)
        return Sender(renewed, may_take=False)

    def get(self, key: TiererKey) -> TiererRecord | None:
        """The tierer with this key; None = it sent no heartbeat yet, or was forgotten."""
        return self._tierers.get(key)

    def put(self, tierer: TiererRecord) -> None:
        """Replaces the record with the same key, unless that was forgotten."""
        if tierer.key in self._tierers:
            self._tierers[tierer.key] = tierer

    def count_round(self, key: TiererKey) -> None:
        """Counts a round that it ended."""
        if (tierer := self._tierers.get(key)) is not None:
            self._tierers[key] = replace(tierer, rounds=tierer.rounds + 1)

    def renew(self, key: TiererKey, now: Moment) -> None:
        """Counts it as heard of now, when its held request is answered: until now it held the connection."""
        tierer = self._tierers.pop(key, None)
        if tierer is not None:
            self._tierers[key] = replace(tierer, heartbeat_time=now.wall, lost_deadline=now.after(self._service_timeout_ms))
            if not tierer.fenced:
                self._last_able = now.wall

    def all(self) -> list[TiererRecord]:
        """All known tierers, sorted by id."""
        return sorted(self._tierers.copy().values(), key=lambda tierer: tierer.key)

    def lost(self, now: Moment) -> list[TiererRecord]:
        """Those that were forgotten within the last day, in the order in which they were lost: to be shown, for nothing counts on them."""
        recent = (tierer for tierer in self._lost.copy().values() if now.wall - tierer.heartbeat_time < SHOWN_AFTER_LOSS)
        return [tierer for tierer in recent if tierer.key not in self._tierers]

    def connected(self, now: Moment) -> bool:
        """Whether any tierer could take a table now."""
        return any(takes_tables(tierer, now) for tierer in self._tierers.copy().values())

    def absent_ms(self, since: datetime, now: datetime) -> int:
        """For how long no tierer that gets tables was connected between these times, as far as this coordinator saw; those now over."""
        return sum(max(0, milliseconds(min(end, now) - max(begin, since))) for begin, end in self._absences)

    def slots(self) -> int:
        """Rounds that all tierers together may run at a time; one at least of each, as of an older one that does not say."""
        return sum(max(tierer.slots, 1) for tierer in self._tierers.values() if not tierer.stopped and not tierer.fenced)

    def fence(self, tierer_id: str, incarnations: Collection[str]) -> list[str]:
        """Fences the processes that are known under the id, and those of `incarnations`, which may not have been heard of yet.

        Their digests, by which `restore_fences` knows them after a restart.
        """
        known = [key for key in self._tierers if key[0] == tierer_id]
        for key in known:
            self._tierers[key] = replace(self._tierers[key], fenced=True)
        digests = sorted({process_digest(incarnation) for incarnation in (*incarnations, *(key[1] for key in known))})
        self.restore_fences(tierer_id, digests)
        return digests

    def restore_fences(self, tierer_id: str, digests: Iterable[str]) -> None:
        """Has the processes with these digests fenced when they are heard of."""
        self._fenced |= dict.fromkeys((tierer_id, digest) for digest in digests)
        while len(self._fenced) > KEPT_TIERERS:
            del self._fenced[next(iter(self._fenced))]

    def any_lost(self, now: Moment) -> bool:
        """Whether `forget_lost` may have anything to do. Called at every tick."""
        return now.passed(self._first_deadline)

    def forget_lost(self, now: Moment) -> None:
        """Forgets the tierers that were silent for the service timeout. The longest silent come first."""
        while (first := next(iter(self._tierers.values()), None)) is not None and now.passed(first.lost_deadline):
            self._lost.pop(first.key, None)
            self._lost[first.key] = self._tierers.pop(first.key)
        while len(self._lost) > KEPT_TIERERS:
            del self._lost[next(iter(self._lost))]
        self._first_deadline = None if first is None else first.lost_deadline

    def _note_absence(self, tierer: TiererRecord, now: Moment) -> None:
        """To be called before `tierer` is known as heard of now."""
        if tierer.fenced:
            return
        if not tierer.stopped and not self.connected(now):
            self._absences.append((self._last_able, now.wall))
        self._last_able = now.wall

    def _supersede(self, tierer_id: str) -> None:
        for key, tierer in self._tierers.items():
            if key[0] == tierer_id and not tierer.stopped:
                self._tierers[key] = replace(tierer, superseded=LATE_HEARTBEATS)

    @staticmethod
    def _warn_of_two(tierer: TiererRecord) -> None:
        _log.warning(
            "two processes use the same tierer id: give each an id of its own, or none",
            tierer_id=tierer.tierer_id,
            host=tierer.host,
            application_id=tierer.application_id,
        )


def process_digest(incarnation: str) -> str:
    """Tells a process from others without its incarnation, with which anybody could report for it."""
    return hashlib.sha256(incarnation.encode()).hexdigest()[:16]


def check_tierer_id(tierer_id: str) -> None:
    """Raises InvalidArgument for an id that cannot be one."""
    if tierer_id:  # an older peer has none
        check_id(tierer_id, "a tierer's id", MAX_ID_LENGTH)


def key_of(message: pb.PbTierer) -> TiererKey:
    """The tierer's id and incarnation. Raises InvalidArgument.

    An older peer has no incarnation: the time of its start stands for one, as a name and not as a time.
    """
    check_tierer_id(message.tierer_id)
    if len(message.incarnation) > MAX_INCARNATION_LENGTH:
        length = len(message.incarnation)
        raise InvalidArgument(f"a tierer's incarnation has at most {MAX_INCARNATION_LENGTH} characters; this one has {length}")
    return message.tierer_id, message.incarnation if message.HasField("incarnation") else f"started at {message.started_at_ms}"
