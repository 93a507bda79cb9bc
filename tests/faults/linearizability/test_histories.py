"""Histories of claims, grants, commits, reads and acks are linearizable, says porcupine; it refuses those that are not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.histories.checker import Verdict, check
from support.histories.history import write_history
from support.histories.recorded_deployment import RecordedDeployment
from support.histories.recorded_simulation import RecordedSimulation
from support.lakes.memory_lake import MemoryLake, Request
from support.readers.environment import TEST_SECONDS
from tiering.coordinator.tierers.commits import Commits
from tiering.errors import PermanentTieringError
from tiering.rpc.v1 import coordinator_pb2 as pb

Line = dict[str, Any]
pytestmark = pytest.mark.timeout(TEST_SECONDS)
SEEDS = 100
STEPS = 300
LAKE = "lake-1"


def line(op: str, call: int, answer: str, **fields: Any) -> Line:
    """One that returns right after its call; with an unknown outcome, never."""
    returned = None if answer == "unknown" else call + 1
    defaults = {"client": 0, "table": "sales.orders", "epoch": 0, "round": "", "base": "", "lake": LAKE, "offsets": None}
    return {**defaults, "op": op, "call": call, "return": returned, "answer": answer, **fields}


def two_rounds() -> list[Line]:
    """The first one's ack is lost; the second, of another tierer, goes on from what it finds in the lake."""
    first, second = {"epoch": 1, "round": "r1", "offsets": {"0": 5}}, {"epoch": 2, "round": "r2", "offsets": {"0": 9}, "client": 1}
    return [
        line("claim", 10, "assigned", **{**first, "offsets": None}),
        line("read", 20, "read", **{"offsets": None}),
        line("grant", 30, "granted", **first),
        line("commit", 40, "landed", **first),
        line("read", 50, "read", **first),
        line("ack", 60, "unknown", **first),
        line("claim", 70, "assigned", **{**second, "offsets": None}),
        line("read", 80, "read", client=1, round="r1", offsets={"0": 5}),
        line("ack", 90, "recorded", client=1, **first),
        line("grant", 100, "granted", base="r1", **second),
        line("commit", 110, "landed", base="r1", **second),
        line("read", 120, "read", **second),
        line("ack", 130, "recorded", **second),
        line("claim", 140, "assigned", epoch=3, round="r3", offsets={"0": 9}),
    ]


def verdict_on(folder: Path, lines: list[Line]) -> Verdict:
    return check(write_history(folder / "history.jsonl", lines))


def test_a_right_history_passes(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, two_rounds())
    assert (verdict.status, verdict.text) == (0, "Ok: 13 operations on 1 tables; 1 of unknown outcome need not have taken effect\n")


def test_a_commit_without_an_answer_may_have_landed_or_not(tmp_path: Path) -> None:
    lines = two_rounds()
    lines[3] = line("commit", 40, "unknown", epoch=1, round="r1", offsets={"0": 5})
    assert verdict_on(tmp_path, lines).status == 0
    never_met = [*lines[:4], line("claim", 70, "assigned", epoch=2, round="r2"), line("read", 80, "read", client=1)]
    assert verdict_on(tmp_path, never_met).status == 0


def doubled_commit(lines: list[Line]) -> None:
    """The request of the first round is repeated, and lands again behind the second."""
    lines.insert(12, line("commit", 125, "landed", epoch=1, round="r1", base="r2", offsets={"0": 9}))


def doubled_commit_on_its_own_base(lines: list[Line]) -> None:
    """No compare-and-set: both land on an empty table."""
    lines.insert(4, line("commit", 45, "landed", epoch=1, round="r1", offsets={"0": 5}))


def stale_writer(lines: list[Line]) -> None:
    """The second round commits on the base of the first one, and the lake accepts it although another commit was faster."""
    lines[9] |= {"base": ""}
    lines[10] |= {"base": ""}


def ack_of_a_lost_commit(lines: list[Line]) -> None:
    """The second commit never landed, and was acked."""
    del lines[10:12]


def ack_of_other_offsets(lines: list[Line]) -> None:
    lines[12] |= {"offsets": {"0": 12}}


def grant_of_a_fenced_epoch(lines: list[Line]) -> None:
    """The first round asks once more when the table is the second one's."""
    lines.insert(8, line("grant", 85, "granted", epoch=1, round="r1", base="r1", offsets={"0": 7}))


def grant_after_a_refusal(lines: list[Line]) -> None:
    lines.insert(9, line("grant", 95, "fenced", epoch=2, round="r2", base="r1"))


def commit_without_a_grant(lines: list[Line]) -> None:
    del lines[9]


def stale_read(lines: list[Line]) -> None:
    """The second round finds an empty lake table long after the first one's commit was answered."""
    lines[7] |= {"round": "", "offsets": None}


def stale_record(lines: list[Line]) -> None:
    """The coordinator restarted and forgot the second ack."""
    lines[13] |= {"offsets": {"0": 5}}


def hand_over_of_a_granted_round(lines: list[Line]) -> None:
    lines.insert(4, line("claim", 45, "assigned", epoch=1, round="r1", client=2))


def epoch_that_goes_back(lines: list[Line]) -> None:
    lines[13] |= {"epoch": 1, "round": "r0"}


def offsets_that_go_back(lines: list[Line]) -> None:
    for changed in lines[9:14]:
        changed["offsets"] = {"0": 3}


@pytest.mark.parametrize(
    "spoil",
    [
        doubled_commit,
        doubled_commit_on_its_own_base,
        stale_writer,
        ack_of_a_lost_commit,
        ack_of_other_offsets,
        grant_of_a_fenced_epoch,
        grant_after_a_refusal,
        commit_without_a_grant,
        stale_read,
        stale_record,
        hand_over_of_a_granted_round,
        epoch_that_goes_back,
        offsets_that_go_back,
    ],
)
def test_a_wrong_history_is_refused(tmp_path: Path, spoil: Callable[[list[Line]], None]) -> None:
    lines = two_rounds()
    spoil(lines)
    verdict = verdict_on(tmp_path, lines)
    assert verdict.status == 1, verdict.text
    assert verdict.text.startswith("Illegal: table sales.orders\n")
    assert "cannot follow: " in verdict.text


def test_what_is_no_history_is_no_verdict(tmp_path: Path) -> None:
    assert verdict_on(tmp_path, [line("merge", 10, "landed")]).status == 2
    assert verdict_on(tmp_path, [{**line("read", 10, "read"), "return": None}]).status == 2


def test_simulated_runs_are_linearizable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.planning.plan_splits.SPLIT_BYTES", 24)
    lines: list[Line] = []
    for seed in range(SEEDS):
        simulation = RecordedSimulation(seed, tierers=2 + seed % 2)
        for _ in range(STEPS):
            simulation.step()
        simulation.heal()
        lines += [{**noted, "table": f"seed {seed}"} for noted in simulation.history.lines()]
    answers = {(noted["op"], noted["answer"]) for noted in lines}
    assert {("grant", "fenced"), ("commit", "unknown"), ("repair", "landed"), ("ack", "recorded")} <= answers
    verdict = verdict_on(tmp_path, lines)
    assert verdict.status == 0, verdict.text
    assert f"on {SEEDS} tables" in verdict.text


def test_a_run_of_real_tierers_is_linearizable_and_exact(tmp_path: Path) -> None:
    deployment = RecordedDeployment(tmp_path, seed=18)
    try:
        tables = [deployment.table(f"raced_{number}", datalake_freshness="1 s") for number in range(3)]
        deployment.race(tables, tierers=3, turns=20)
        for table in tables:
            deployment.assert_exact(table)
    finally:
        deployment.close()
    assert deployment.asleep > 0
    verdict = verdict_on(tmp_path, deployment.history.lines())
    assert verdict.status == 0, verdict.text


def compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake that takes a commit on whatever it has by now."""
    receive = MemoryLake.receive

    def take(self: MemoryLake, request: Request) -> bool:
        table = self.tables.get(request.path)
        newest = request if table is None else replace(request, head=table.head, tiered=self.tiered(table), identity=None)
        return receive(self, newest)

    monkeypatch.setattr(MemoryLake, "receive", take)


def grants_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator without a fence."""
    monkeypatch.setattr(Commits, "begin_lake_commit", lambda self, request: pb.BeginLakeCommitResponse(granted=True))


@pytest.mark.in_turn("weaken")
@pytest.mark.parametrize("weaken", [compares_nothing, grants_everything])
def test_a_broken_deployment_leaves_a_history_that_is_refused(
    weaken: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the runs above could not fail. The simulator's own checks are taken out: they are quicker."""
    weaken(monkeypatch)
    monkeypatch.setattr(RecordedSimulation, "check", lambda self: None)
    lines: list[Line] = []
    for seed in range(100):
        simulation = RecordedSimulation(seed)
        with suppress(AssertionError, PermanentTieringError):  # of what follows from rows that are there twice
            for _ in range(STEPS):
                simulation.step()
        lines += [{**noted, "table": f"seed {seed}"} for noted in simulation.history.lines()]
    assert verdict_on(tmp_path, lines).status == 1
