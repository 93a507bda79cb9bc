"""Background work leaves room at any moment, not only on average."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.throttle import LONGEST_REST_S, PIECE_S, Throttle, pause_after, unthrottled


class HandTime:
    """Seconds that pass only in work and in rests; `rests` are how long those were."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.rests: list[tuple[float, float]] = []
        self.ended = False

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> bool:
        self.rests.append((self.seconds, seconds))
        self.seconds += 0 if self.ended else seconds
        return self.ended


@given(st.floats(0.05, 0.9), st.lists(st.floats(0.0001, 0.01), min_size=1, max_size=200))
def test_work_takes_its_share_and_no_more_in_any_stretch(share: float, pieces: list[float]) -> None:
    time = HandTime()
    pace = Throttle(share, time.wait, time.now)
    at = time.now()
    for piece in pieces:
        time.seconds += piece
        assert pace.pause()
        for start, seconds in time.rests[-1:]:
            if start + seconds == time.now():  # just rested: the work since the rest before has its share of the time
                assert start - at == pytest.approx(share * (time.now() - at))
                at = time.now()
        assert time.now() - at < PIECE_S, "what is still owed is less than a piece"


def test_little_work_is_done_without_a_rest() -> None:
    time = HandTime()
    pace = Throttle(0.1, time.wait, time.now)
    time.seconds += PIECE_S / 2
    assert pace.pause()
    assert time.rests == []
    assert unthrottled()


def test_the_end_ends_a_rest_and_the_work() -> None:
    time = HandTime()
    pace = Throttle(0.1, time.wait, time.now)
    time.seconds += 1
    time.ended = True
    assert not pace.pause()
    ended = threading.Event()
    real = Throttle.until(ended, share=1e-9)
    ended.set()
    while real.pause():  # a rest of weeks, once two milliseconds were worked
        pass


def test_work_that_mostly_waited_needs_no_long_rest() -> None:
    assert pause_after(0.1, 0.1) == pytest.approx(0.9)
    assert pause_after(300.0, 0.1) == LONGEST_REST_S
