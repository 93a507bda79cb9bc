"""How long a table waits after failures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.background import tick
from support.worlds.coordinator_world import World
from tiering.coordinator.decisions.retries import backoff_ms
from tiering.coordinator.options import CoordinatorOptions

OPTIONS = CoordinatorOptions()


@given(failures=st.integers(0, 10_000), jitter=st.floats(0, 1, exclude_max=True))
def test_a_back_off_stays_within_its_bounds_and_jitter_takes_at_most_half(failures: int, jitter: float) -> None:
    full = backoff_ms(failures, 0.0, OPTIONS)
    wait = backoff_ms(failures, jitter, OPTIONS)
    assert OPTIONS.backoff_min_ms <= wait <= full <= OPTIONS.backoff_max_ms
    assert wait >= full / 2 - 1
    assert full <= backoff_ms(failures + 1, 0.0, OPTIONS)


def test_failures_back_off_from_a_second_to_five_minutes_and_success_resets(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    waits = []
    for _ in range(11):
        tierer.fail(assignment)
        deadline = world.record().retry_deadline
        assert deadline is not None
        wait = (deadline - world.coordinator.table_records.now().steady).total_seconds()
        waits.append(wait)
        world.later(wait - 0.001)
        assert world.state() == "Failed"
        world.later(0.001)
        assignment = tierer.get()
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert world.record().consecutive_failures == 11
    tierer.run(assignment)
    record = world.record()
    assert (record.error, record.consecutive_failures, record.retry_deadline, record.error_count) == (None, 0, None, 11)


def test_a_stopped_tierer_does_not_raise_the_back_off(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, tierer_stopped=True, error_class="TiererStopped")
    assert world.record().consecutive_failures == 0
    tick(world.coordinator)
    assert world.state() == "Pending"
