"""The tierers that sent heartbeats, in memory. Their number and size are bounded, and a tierer is forgotten once it is lost.

A tierer is a process: its id and its **incarnation**, a random name that it takes when it starts. Sequence numbers order only the
heartbeats of one incarnation, and no clock orders heartbeats. So neither a clock that was set back nor a forged heartbeat can silence a
tierer. Rules for several incarnations with one id:

- A new incarnation started later. It takes over the rounds of the others once, under new epochs.
- Heartbeats of an earlier incarnation may be late. They change nothing of the newer one, and get no table.
- An earlier incarnation that keeps sending is a second process with the same id. Both work side by side, fenced by epochs like any two
  tierers, and one warning reports it.

Forgetting a tierer is harmless, because its next heartbeat adds it again. It is displayed as lost for a day.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from tiering.access.request_bounds import check_id, informative
from tiering.coordinator.decisions.assignments import takes_tables
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TiererRecord
from tiering.errors import InvalidArgument
from tiering.rpc.v1 import coordinator_pb2 as pb

_log = structlog.get_logger(__name__)

KEPT_ABSENCES = 100
"""Upper bound of remembered times without any tierer. A queued table has waited through few of them."""

KEPT_TIERERS = 1_000
"""Upper bound of tierers, far more than one coordinator serves.

Beyond it, the longest silent one is forgotten; a new one is never refused.
"""

SHOWN_AFTER_LOSS = timedelta(days=1)
"""How long a lost tierer is displayed: a user sees in the morning which tierers were lost at night."""

LATE_HEARTBEATS = 2
"""Heartbeats of an ended process that may still arrive: a request that was held, and the one that overtook it."""

MAX_ID_LENGTH = 190
"""Upper bound of a tierer id. Its lease name is nine characters longer, and has at most 200."""

MAX_INCARNATION_LENGTH = 64
TiererKey = tuple[str, str]
"""Tierer id and incarnation."""


@dataclass(frozen=True)
class Sender:
    """The tierer that sent a heartbeat. `overtaken`: its newer heartbeat came first. `may_take`: it may get a table."""

    tierer: TiererRecord
    overtaken: bool = False
    may_take: bool = True


class TiererRegistry:
    """The tierers by id and incarnation. One thread at a time changes it; any thread may read."""

    def __init__(self, service_timeout_ms: int, start: Moment) -> None:
        self._service_timeout_ms = service_timeout_ms
        self._tierers: dict[TiererKey, TiererRecord] = {}
        self._lost: dict[TiererKey, TiererRecord] = {}
        self._fenced: dict[tuple[str, str], None] = {}
        """Fenced processes by id and `process_digest`.

        Kept separately: a suspended process is forgotten, and must be fenced when it resumes.
        """
        self._first_deadline: datetime | None = None
        """A lower bound of all tierers' deadlines."""
        self._absences: deque[tuple[datetime, datetime]] = deque(maxlen=KEPT_ABSENCES)
        self._last_able = start.wall
        """Time of the last heartbeat of a tierer that gets tables."""

    def meet(self, message: pb.PbTierer, now: Moment, *, stopping: bool = False) -> Sender:
        """Renews the tierer that a heartbeat names, or adds it. Raises InvalidArgument for an invalid name."""
        key = key_of(message)
        earlier = self._tierers.get(key)
        if earlier is not None and message.sequence and message.sequence <= earlier.sequence:
            return Sender(earlier, overtaken=True, may_take=False)
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
            superseded=0 if earlier is None else max(earlier.superseded - 1, 0),
            took_over=earlier is not None and earlier.took_over,
            fenced=(key[0], process_digest(key[1])) in self._fenced,
            rounds=0 if earlier is None else earlier.rounds,
        )
        self._note_absence(renewed, now)
        if earlier is None:
            self._supersede(message.tierer_id)
        # The dictionary is ordered by the time of the last heartbeat.
        self._tierers.pop(key, None)
        self._tierers[key] = renewed
        if len(self._tierers) > KEPT_TIERERS:
            del self._tierers[next(iter(self._tierers))]
        if self._first_deadline is None:
            self._first_deadline = renewed.lost_deadline
        if earlier is None or not earlier.superseded:
            return Sender(renewed)
        if not renewed.superseded and not stopping:
            self._warn_of_two(renewed)
        return Sender(renewed, may_take=False)

    def get(self, key: TiererKey) -> TiererRecord | None:
        """Returns the tierer with this key; None if it sent no heartbeat yet, or was forgotten."""
        return self._tierers.get(key)

    def put(self, tierer: TiererRecord) -> None:
        """Replaces the record with the same key, unless it was forgotten."""
        if tierer.key in self._tierers:
            self._tierers[tierer.key] = tierer

    def count_round(self, key: TiererKey) -> None:
        """Counts a round that the tierer ended."""
        if (tierer := self._tierers.get(key)) is not None:
            self._tierers[key] = replace(tierer, rounds=tierer.rounds + 1)

    def renew(self, key: TiererKey, now: Moment) -> None:
        """Renews the tierer when its held request is answered, because it kept the connection until now."""
        tierer = self._tierers.pop(key, None)
        if tierer is not None:
            self._tierers[key] = replace(tierer, heartbeat_time=now.wall, lost_deadline=now.after(self._service_timeout_ms))
            if not tierer.fenced:
                self._last_able = now.wall

    def all(self) -> list[TiererRecord]:
        """Returns all known tierers, sorted by id."""
        return sorted(self._tierers.copy().values(), key=lambda tierer: tierer.key)

    def shown(self, now: Moment) -> list[TiererRecord]:
        """Returns the known tierers, and those that were lost within the last day, sorted by id."""
        lost = (tierer for key, tierer in self._lost.copy().items() if key not in self._tierers)
        recent = (tierer for tierer in lost if now.wall - tierer.heartbeat_time < SHOWN_AFTER_LOSS)
        return sorted((*self.all(), *recent), key=lambda tierer: tierer.key)

    def connected(self, now: Moment) -> bool:
        """Returns whether any tierer could take a table now."""
        return any(takes_tables(tierer, now) for tierer in self._tierers.copy().values())

    def absent_ms(self, since: datetime, now: datetime) -> int:
        """Returns for how long no tierer that gets tables was connected between these times. It counts only absences that have ended."""
        return sum(max(0, milliseconds(min(end, now) - max(begin, since))) for begin, end in self._absences)

    def slots(self) -> int:
        """Returns the number of slots of all tierers. Each has at least one, also an older one that sends no number."""
        return sum(max(tierer.slots, 1) for tierer in self._tierers.values() if not tierer.stopped and not tierer.fenced)

    def slots_of(self, key: TiererKey) -> int:
        """Returns the number of slots of a tierer; 1 if it was forgotten."""
        tierer = self._tierers.get(key)
        return 1 if tierer is None else max(tierer.slots, 1)

    def fence(self, tierer_id: str, incarnations: Collection[str]) -> list[str]:
        """Gives no more tables to the known processes with this id, nor to those in `incarnations`, which may have sent no heartbeat yet.

        Returns their digests, with which `restore_fences` identifies them after a restart. Call it under the records' lock.
        """
        known_keys = [key for key in self._tierers if key[0] == tierer_id]
        for key in known_keys:
            self._tierers[key] = replace(self._tierers[key], fenced=True)
        digests = sorted({process_digest(incarnation) for incarnation in (*incarnations, *(key[1] for key in known_keys))})
        self.restore_fences(tierer_id, digests)
        return digests

    def restore_fences(self, tierer_id: str, digests: Iterable[str]) -> None:
        """Fences the processes with these digests as soon as they send a heartbeat."""
        self._fenced |= dict.fromkeys((tierer_id, digest) for digest in digests)
        while len(self._fenced) > KEPT_TIERERS:
            del self._fenced[next(iter(self._fenced))]

    def any_lost(self, now: Moment) -> bool:
        """Returns whether `forget_lost` may have anything to do. It is called at every tick."""
        return now.passed(self._first_deadline)

    def forget_lost(self, now: Moment) -> None:
        """Forgets the tierers that were silent for the service timeout, the longest silent first."""
        while (first := next(iter(self._tierers.values()), None)) is not None and now.passed(first.lost_deadline):
            self._lost.pop(first.key, None)
            self._lost[first.key] = self._tierers.pop(first.key)
        while len(self._lost) > KEPT_TIERERS:
            del self._lost[next(iter(self._lost))]
        self._first_deadline = None if first is None else first.lost_deadline

    def _note_absence(self, tierer: TiererRecord, now: Moment) -> None:
        """Notes the end of a time without tierers. Call it before `tierer` is renewed."""
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
    """Returns a digest that identifies a process without its incarnation, with which any process could report for it."""
    return hashlib.sha256(incarnation.encode()).hexdigest()[:16]


def check_tierer_id(tierer_id: str) -> None:
    """Raises InvalidArgument for an invalid tierer id. An empty one passes: the coordinator or the tierer chooses a name."""
    if tierer_id:
        check_id(tierer_id, "a tierer's id", MAX_ID_LENGTH)


def key_of(message: pb.PbTierer) -> TiererKey:
    """Returns the tierer's id and incarnation. Raises InvalidArgument.

    The time of its start names a process that sends no incarnation.
    """
    check_tierer_id(message.tierer_id)
    if len(message.incarnation) > MAX_INCARNATION_LENGTH:
        length = len(message.incarnation)
        raise InvalidArgument(f"a tierer's incarnation has at most {MAX_INCARNATION_LENGTH} characters; this one has {length}")
    return message.tierer_id, message.incarnation if message.HasField("incarnation") else f"started at {message.started_at_ms}"
