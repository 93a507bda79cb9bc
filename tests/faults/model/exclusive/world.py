"""The states of the commit protocol where Lakeward alone tiers a table: everything that survives a step, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from faults.model.exclusive.lake_states import Copy, DataFile, Known, LakeTable, Mark, Position, Row, Snapshot, Split, file_of
from faults.model.exclusive.rules import ALL_RULES, Rule

NO_RECEIVER = 0
"""The receiver of an answer that is lost or has no process that waits: a living tierer sends its request again."""

FAULTS = frozenset(("time-out", "crash", "restart", "lost answer", "lost request", "repeat", "stop early"))
LATE_MESSAGES = frozenset(("late message", "given up"))
"""Copies of a tierer's messages to the coordinator that arrive later, and calls that a tierer gives up."""

UPKEEP = frozenset(("merge", "rounds", "expire"))
"""Rounds that rewrite files beside tiering, rounds that do nothing else, and commits that remove old snapshots."""


@dataclass(frozen=True)
class Size:
    """How much may happen. A world of a given size is finite; a search to its end is complete.

    `users` and `faults` bound how often users act and something fails; the rest of what may go wrong, such as a request that
    arrives late or never, is free. `user_actions`: which of them there are. A late copy of a tierer's message costs a fault.
    """

    rounds: int = 2
    users: int = 1
    faults: int = 1
    rows: int = 1
    user_actions: frozenset[str] = frozenset(("compact", "expire", "roll back", "rename", "drop", "recreate", "cut", "sweep", "reconcile"))
    fault_actions: frozenset[str] = FAULTS
    begins_tiered: bool = True
    """Whether two rounds were there before: the lake holds a row of each, and `rows` more are in the log."""
    last_gate: bool = True
    """Whether `commit_check` looks at what is about to be sent: it stops what lacks the contiguous prefix a second time."""
    numbered: bool = False
    """Whether the catalog refuses a snapshot whose sequence number is not beyond the table's last, as Iceberg's do. The head's check stops
    such a request, too. Only the number stops the copy of a request that landed, after a user set the table back to its base and expired
    it."""
    upkeep: frozenset[str] = frozenset()
    """Kinds of upkeep, from UPKEEP."""
    rules: frozenset[Rule] = field(default=ALL_RULES)

    def has(self, rule: Rule) -> bool:
        """Whether the rule holds."""
        return rule in self.rules

    @property
    def has_late_messages(self) -> bool:
        """Whether messages to the coordinator may be late; if not, a report arrives in the step that ends its round."""
        return "late message" in self.fault_actions


class Grant(NamedTuple):
    """A row of the ledger. `landed`: the coordinator saw its round in the lake. `base`: the round that it was built on."""

    round_id: int
    tag: int | None
    uuid: int
    landed: bool = False
    base: int | None = None


class Rewrite(NamedTuple):
    """A file that takes the place of others with the same rows. `deleted`: deleted rows of those, which the new file lacks."""

    file: DataFile
    replaced: frozenset[str]
    deleted: frozenset[Position]


class Record(NamedTuple):
    """The coordinator's record of the table. `running` is the round that owns it, `error` a permanent one.

    `is_upkeep`: the running round is one of upkeep alone.
    """

    table_id: int
    epoch: int = 0
    running: int | None = None
    granted: bool = False
    uuid: int | None = None
    passed_head: int | None = None
    copy: Copy | None = None
    ledger: tuple[Grant, ...] = ()
    ended: frozenset[int] = frozenset()
    error: str = ""
    is_upkeep: bool = False


class Ref(NamedTuple):
    """Names a round, with what fences it (`round_lifecycle.RoundRef`)."""

    round_id: int
    epoch: int
    table_id: int


class Message(NamedTuple):
    """A tierer's message to the coordinator about a round.

    `kind` is `plan`, `checked plan`, `request for the grant`, `ack` or `report`. `grant` is what a request asks for, and a plan announces;
    `claim` is what an ack says of the lake; `error` and `passed` are a report's: how the round failed, and whether it names the head that
    its base check passed.
    """

    kind: str
    ref: Ref
    grant: Grant | None = None
    claim: Copy | None = None
    error: str = ""
    passed: bool = False

    def __str__(self) -> str:
        """Returns the name that steps use."""
        return f"the {self.kind} of round {self.ref.round_id}"


class Round(NamedTuple):
    """A round in its tierer's process. `begin` is the offset at which its rows begin; `splits` are those that were written.

    `claim` is what the lake held when the round last looked. `rewrite`: what it wrote for upkeep; `is_upkeep`: it does nothing else.
    """

    id: int
    known: Known
    epoch: int
    phase: str = "assigned"
    base: LakeTable | None = None
    begin: int = 0
    splits: tuple[Split, ...] = ()
    mark: Mark | None = None
    sent: int = 0
    claim: Copy | None = None
    rewrite: Rewrite | None = None
    is_upkeep: bool = False

    @property
    def ref(self) -> Ref:
        """How the round's messages name it."""
        return Ref(self.id, self.epoch, self.known.table_id)


class Request(NamedTuple):
    """A commit request on its way. `kind` is `round`, `upkeep round`, or the action of a reconciliation.

    `removed` are the snapshots that expire with it, and `tags` those that were seen then.
    """

    kind: str
    uuid: int
    head: int | None
    tag: int | None
    splits: tuple[Split, ...]
    mark: Mark
    sequence: int
    """Sequence number of its snapshot; only looked at where the catalog does (`Size.numbered`)."""
    rewrite: Rewrite | None = None
    removed: frozenset[int] = frozenset()
    tags: frozenset[int] = frozenset()
    is_last: bool = False
    """Whether the round gives up if this request is refused; only told where snapshots expire with it."""


class Telling(NamedTuple):
    """An ack that is in the store, and of which the cluster is about to be told. Gone with the coordinator's process."""

    copy: Copy
    round_id: int


class Sweep(NamedTuple):
    """Results that a sweep has read before it reads the lake table."""

    record: Record
    files: frozenset[str]


class Sighted(NamedTuple):
    """State of `OrphanCandidates`: the round at the lake table's newest tiering commit, and files that only expired snapshots named."""

    newest: int
    dead: frozenset[str]


class World(NamedTuple):
    """See the module. `removed` are the rows that a user took out of the lake, and whose absence is no loss; of these `deleted` are
    those that must not come back. `sighted`: what the last sweep saw of expired files. `cancelled`: upkeep rounds that made room.

    `reports` wait at their tierers until they are answered; `late` are copies of messages on their way, whose answers no process waits for.
    """

    table_id: int
    log_start: int
    log_end: int
    lake: LakeTable | None
    record: Record
    files: frozenset[str]
    users: int
    faults: int
    rounds_left: int
    cluster: Copy | None = None
    others: tuple[LakeTable, ...] = ()
    rounds: tuple[Round, ...] = ()
    requests: tuple[Request, ...] = ()
    reports: tuple[Message, ...] = ()
    late: tuple[Message, ...] = ()
    telling: Telling | None = None
    sweep: Sweep | None = None
    call: tuple[str, int] | None = None
    removed: frozenset[Row] = frozenset()
    deleted: frozenset[Row] = frozenset()
    sighted: Sighted | None = None
    cancelled: frozenset[int] = frozenset()
    next_round: int = 1
    next_uuid: int = 1
    next_file: int = 1
    broken: str = ""

    def with_round(self, before: Round, after: Round | None) -> World:
        """Rounds are kept in order: which of the two tierers runs which makes no difference."""
        rounds = [current for current in self.rounds if current is not before]
        return self._replace(rounds=tuple(sorted([*rounds, *([] if after is None else [after])], key=lambda current: current.id)))

    def with_late_copy(self, message: Message) -> World:
        """Copies are kept in order: which was sent first makes no difference."""
        return self._replace(late=tuple(sorted((*self.late, message), key=lambda copy: (copy.ref, copy.kind))))

    def without_report(self, message: Message) -> World:
        """After the report was answered, or its tierer died."""
        return self._replace(reports=tuple(report for report in self.reports if report is not message))

    @property
    def is_locked(self) -> bool:
        """Whether something holds the table's lock, which acks and reconciliations take (`Commits.table_lock`)."""
        return self.telling is not None or self.call is not None

    def known(self) -> Known:
        """The coordinator's record of the lake, which it sends with an assignment."""
        record = self.record
        return Known(record.table_id, record.uuid, record.passed_head, record.copy, self.cluster)

    def round_of(self, round_id: int) -> Round | None:
        """The live round of this id."""
        return next((current for current in self.rounds if current.id == round_id), None)


Step = tuple[str, World]
"""The name of a step, and the world after it."""


def initial(size: Size) -> World:
    """A healthy table: nothing is tiered yet, or two rows are."""
    if not size.begins_tiered:
        return World(1, 0, size.rows, None, Record(1), frozenset(), size.users, size.faults, size.rounds)
    marks = (Mark(1, 1, 1, 1, None, 0, 1), Mark(2, 1, 1, 2, 1, 0, 2))
    data = (DataFile(file_of(1), ((1, 0),)), DataFile(file_of(2), ((1, 1),)))
    files = frozenset(file.name for file in data)
    first, second = Snapshot(1, None, data[:1], marks[0]), Snapshot(2, 1, data, marks[1])
    ledger, copy = (Grant(1, None, 1, True), Grant(2, 1, 1, True, 1)), Copy(2, 2)
    record = Record(1, 2, uuid=1, passed_head=2, copy=copy, ledger=ledger, ended=frozenset((1, 2)))
    lake = LakeTable(1, 2, 2, (first, second), 3)
    world = World(1, 0, 2 + size.rows, lake, record, files, size.users, size.faults, size.rounds, cluster=copy)
    return world._replace(next_round=3, next_uuid=2)
