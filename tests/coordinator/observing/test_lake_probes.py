"""Looks at lake tables end in time, whatever the lake does, and those that were given up leave threads for others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from support.worlds.calling import until
from tiering.coordinator.observing import lake_probes
from tiering.coordinator.observing.lake_probes import LEAST_MS, TABLE_THREADS, THREADS, LakeProbe, LakeProbes, Side, SideReporter
from tiering.errors import ClusterUnavailable, LakeRolledBack, LakeUnavailable, ServiceBusy
from tiering.model.tables import TablePath

BOUND_MS = 50
LONG_MS = 30_000


@dataclass
class Hanging:
    """A lake that does not answer before it is released, and counts concurrent requests."""

    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    asking: int = 0
    started: int = 0

    def look(self) -> str:
        with self.lock:
            self.asking += 1
            self.started += 1
        assert self.released.wait(30)
        with self.lock:
            self.asking -= 1
        return "late"


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeProbes]:
    monkeypatch.setattr(lake_probes, "LEAST_MS", BOUND_MS)
    new_looks = LakeProbes()
    yield new_looks
    new_looks.close()


@pytest.fixture
def lake() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.released.set()


def at(table_id: int, work: Callable[[], str]) -> LakeProbe[str]:
    def ask_the_lake(asking: SideReporter) -> str:
        asking(Side.LAKE)
        return work()

    return LakeProbe(TablePath("sales", f"table_{table_id}"), table_id, ask_the_lake)


def test_a_look_returns_and_raises_what_its_work_does(probes: LakeProbes) -> None:
    def rolled_back() -> str:
        raise LakeRolledBack("by a user")

    assert asyncio.run(probes.within(LONG_MS, at(1, lambda: "there"))) == "there"
    with pytest.raises(LakeRolledBack, match="by a user"):
        asyncio.run(probes.within(LONG_MS, at(1, rolled_back)))


def test_a_table_whose_look_was_given_up_is_not_looked_at_again_before_that_ends(probes: LakeProbes, lake: Hanging) -> None:
    with pytest.raises(LakeUnavailable, match=r"about the table sales.table_1 within 0.05 s"):
        asyncio.run(probes.within(0, at(1, lake.look)))
    began = time.monotonic()
    with pytest.raises(LakeUnavailable, match="earlier request") as refused:
        asyncio.run(probes.within(LONG_MS, at(1, lambda: "there")))
    assert time.monotonic() - began < LONG_MS / 1_000
    assert refused.value.hint
    assert asyncio.run(probes.within(LONG_MS, at(2, lambda: "there"))) == "there", "another table"

    async def again() -> str:
        lake.released.set()
        await until(lambda: lake.asking == 0 and not probes._tables)
        return await probes.within(LONG_MS, at(1, lambda: "there"))

    assert asyncio.run(again()) == "there"


def test_a_crowd_at_one_table_that_hangs_holds_one_thread(probes: LakeProbes, lake: Hanging) -> None:
    async def crowd() -> str:
        calls = [asyncio.ensure_future(probes.within(LONG_MS, at(1, lake.look))) for _ in range(500)]
        await until(lambda: lake.asking == 1)
        answer = await probes.within(LONG_MS, at(2, lambda: "there"))
        assert lake.asking == 1
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        lake.released.set()
        await until(lambda: not probes._tables)
        return answer

    assert asyncio.run(crowd()) == "there"
    assert lake.started == 1, "no caller waits for the other calls any more"


def test_callers_of_many_tables_that_hang_do_not_block_a_table_that_answers(probes: LakeProbes, lake: Hanging) -> None:
    """Several patient callers a table, as many in all as there are threads, and more."""
    hanging = THREADS - 1

    async def crowd() -> list[str]:
        calls = [asyncio.ensure_future(probes.within(LONG_MS, at(number % hanging, lake.look))) for number in range(4 * hanging)]
        await until(lambda: lake.asking == hanging)
        answers = [await probes.within(LONG_MS, at(9_999, lambda: "there")) for _ in range(10)]
        assert not any(call.done() for call in calls)
        lake.released.set()
        assert set(await asyncio.gather(*calls)) == {"late"}
        return answers

    assert asyncio.run(crowd()) == ["there"] * 10


def test_a_table_that_answers_is_looked_at_by_several_at_once(probes: LakeProbes, lake: Hanging) -> None:
    first = threading.Event()

    async def crowd() -> None:
        answered = asyncio.ensure_future(probes.within(LONG_MS, at(1, lambda: str(first.wait(30)))))
        calls = [asyncio.ensure_future(probes.within(LONG_MS, at(1, lake.look))) for _ in range(TABLE_THREADS + 5)]
        await until(lambda: 1 in probes._tables and len(probes._tables[1].waiting) == TABLE_THREADS + 5)
        first.set()
        await answered
        await until(lambda: lake.asking == TABLE_THREADS)
        lake.released.set()
        await asyncio.gather(*calls)

    asyncio.run(crowd())
    assert lake.started == TABLE_THREADS + 5


def test_a_table_whose_lake_did_not_answer_keeps_one_thread_for_those_that_follow(probes: LakeProbes, lake: Hanging) -> None:
    first = threading.Event()

    def unavailable() -> str:
        assert first.wait(30)
        raise LakeUnavailable("after the catalog's deadline")

    async def crowd() -> None:
        answered = asyncio.ensure_future(probes.within(LONG_MS, at(1, unavailable)))
        calls = [asyncio.ensure_future(probes.within(LONG_MS, at(1, lake.look))) for _ in range(5)]
        await until(lambda: 1 in probes._tables and len(probes._tables[1].waiting) == 5)
        first.set()
        with pytest.raises(LakeUnavailable, match="deadline"):
            await answered
        await until(lambda: lake.asking == 1)
        assert len(probes._tables[1].waiting) == 4
        lake.released.set()
        await asyncio.gather(*calls)

    asyncio.run(crowd())


@pytest.mark.parametrize(
    ("side", "error_class", "words"),
    [
        (Side.LAKE, LakeUnavailable, "the lake has not answered"),
        (Side.CLUSTER, ClusterUnavailable, "the source cluster has not answered"),
        (Side.EITHER, LakeUnavailable, "the lake or the source cluster has not answered"),
    ],
)
def test_the_error_names_whom_the_look_waits_for(
    probes: LakeProbes, lake: Hanging, side: Side, error_class: type[Exception], words: str
) -> None:
    def hang(asking: SideReporter) -> str:
        asking(side)
        return lake.look()

    hanging = LakeProbe(TablePath("sales", "orders"), 1, hang)

    async def crowd() -> list[object]:
        patient = asyncio.ensure_future(probes.within(LONG_MS, hanging))
        await until(lambda: lake.asking == 1)
        behind = await asyncio.gather(probes.within(0, hanging), return_exceptions=True)  # it never gets a thread
        patient.cancel()
        await asyncio.gather(patient, return_exceptions=True)
        await until(lambda: probes._tables[1].given_up(time.monotonic()) is not None)
        refused = await asyncio.gather(probes.within(LONG_MS, hanging), return_exceptions=True)
        lake.released.set()
        return [*behind, *refused]

    for error in asyncio.run(crowd()):
        assert type(error) is error_class
        assert words in str(error)
        assert "Check whether" in error.hint  # type: ignore[attr-defined]


def test_a_thread_waits_for_a_look_no_longer_than_it_says(probes: LakeProbes, lake: Hanging) -> None:
    assert probes.wait(LONG_MS, at(1, lambda: "there")) == "there"
    with pytest.raises(LakeUnavailable, match=r"within 0.01 s"):
        probes.wait(10, at(1, lake.look))


def test_a_service_that_stopped_refuses_a_look_by_an_error_of_the_tree(probes: LakeProbes) -> None:
    probes.close()
    with pytest.raises(ServiceBusy, match="the service is stopping") as refused:
        asyncio.run(probes.within(LONG_MS, at(1, lambda: "there")))
    assert refused.value.hint
    with pytest.raises(ServiceBusy):
        probes.wait(LONG_MS, at(1, lambda: "there"))


def test_a_call_that_is_dropped_makes_no_look_of_others_fail(lake: Hanging) -> None:
    """A responsive lake answers the other callers after the dropped look."""
    probes = LakeProbes(clock=lambda: 0.0)

    async def dropped() -> str:
        call = asyncio.ensure_future(probes.within(LONG_MS, at(1, lake.look)))
        await until(lambda: lake.asking == 1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        other = asyncio.ensure_future(probes.within(LONG_MS, at(1, lambda: "there")))
        await until(lambda: len(probes._tables[1].waiting) == 1 or other.done())
        lake.released.set()
        return await other

    assert asyncio.run(dropped()) == "there"
    probes.close()


def test_a_look_whose_caller_went_away_counts_as_given_up_after_the_time_of_a_lake_that_is_well(lake: Hanging) -> None:
    """Else callers who lose patience take all threads, and each that follows waits for the whole of its time."""
    seconds = 0.0
    probes = LakeProbes(clock=lambda: seconds)

    async def impatient() -> None:
        calls = [asyncio.ensure_future(probes.within(LONG_MS, at(number, lake.look))) for number in range(THREADS)]
        await until(lambda: lake.asking == THREADS)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended
        nonlocal seconds
        seconds = LEAST_MS / 1_000
        for table_id in (1, 9_999):
            with pytest.raises(LakeUnavailable, match="earlier request"):
                await probes.within(LONG_MS, at(table_id, lambda: "there"))
        lake.released.set()
        await until(lambda: not probes._tables)
        assert await probes.within(LONG_MS, at(1, lambda: "there")) == "there"

    asyncio.run(impatient())
    probes.close()


def test_no_caller_waits_where_as_many_tables_hang_as_there_are_threads(probes: LakeProbes, lake: Hanging) -> None:
    async def crowd() -> None:
        calls = [probes.within(0, at(number, lake.look)) for number in range(2 * THREADS)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, LakeUnavailable) for end in ended), ended
        await until(lambda: lake.started == lake.asking)
        while lake.asking < THREADS:  # a machine that is busy gives a thread up before it began
            with pytest.raises(LakeUnavailable):
                await probes.within(0, at(1_000 + lake.started, lake.look))
        with pytest.raises(LakeUnavailable, match="earlier request"):
            await probes.within(LONG_MS, at(9_999, lambda: "there"))
        lake.released.set()
        await until(lambda: not probes._tables)
        assert await probes.within(LONG_MS, at(9_999, lambda: "there")) == "there"

    asyncio.run(crowd())
    assert lake.started == THREADS


def test_a_service_that_stops_lets_go_of_looks_that_wait_for_their_turn(probes: LakeProbes, lake: Hanging) -> None:
    async def crowd() -> None:
        calls = [asyncio.ensure_future(probes.within(LONG_MS, at(1, lake.look))) for _ in range(11)]
        await until(lambda: lake.asking == 1)
        probes.close()
        await until(lambda: sum(call.done() for call in calls) == 10)
        assert all(isinstance(call.exception(), ServiceBusy) for call in calls if call.done())
        lake.released.set()
        assert (await asyncio.gather(*calls, return_exceptions=True)).count("late") == 1

    asyncio.run(crowd())
