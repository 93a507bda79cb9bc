"""Many patterns with wildcards, matched in one walk over a name: an automaton over its bytes, whose states are made when names need them.

A state is the set of places in all patterns that a name has reached (a bit a place), so the walk costs the same for one pattern and for a
thousand. Many names walk together: their states are an array, which moves on by one byte at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Pattern = tuple[str, ...]
"""The texts of which a name consists, in their order, with anything between two of them: `("sales_", "")` is `sales_*`."""
Codes = npt.NDArray[np.intp]

MAX_STATES = 2_048
"""Of one automaton. Patterns that match independently of each other multiply its states: above this bound they are parted in two."""

MAX_TABLE = 1 << 20
"""Codes above are numbered anew by sorting them: a table by code would be larger than the codes themselves."""

_BYTES = 256


class NamePatterns:
    """What names match of some patterns. Thread-safe."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._lock = threading.Lock()
        self._automata = [_Automaton(list(enumerate(patterns)))] if patterns else []

    def matches(self, name: str) -> int:
        """The patterns that the name matches: bit n stands for the nth."""
        with self._lock:
            return sum(self._read(lambda automaton: automaton.match(name.encode())))

    def outcomes(self, names: Any) -> tuple[Codes, list[int]]:
        """A number for each name of an Arrow array of strings, and by number which patterns such names match, as `matches` says it."""
        codes, matches = np.zeros(len(names), np.intp), [0]
        with self._lock:
            for part, part_matches in self._read(lambda automaton: automaton.match_all(names)):
                codes, examples = renumbered(codes * len(part_matches) + part)
                pairs = (divmod(pair, len(part_matches)) for pair in examples.tolist())
                matches = [matches[at] | part_matches[part_at] for at, part_at in pairs]
        return codes, matches

    def _read(self, read: Any) -> Iterator[Any]:
        """What `read` returns of each automaton; one that would grow too large is parted before."""
        waiting = list(reversed(self._automata))
        self._automata = []
        try:
            while waiting:
                try:
                    result = read(waiting[-1])
                except _TooManyStates:
                    waiting.extend(reversed(waiting.pop().parted()))
                    continue
                self._automata.append(waiting.pop())
                yield result
        finally:
            self._automata.extend(reversed(waiting))


def renumbered(codes: Codes) -> tuple[Codes, Codes]:
    """The codes without gaps between them, and by their new number what they were."""
    bound = int(codes.max(initial=0)) + 1
    if bound > MAX_TABLE:
        before, numbers = np.unique(codes, return_inverse=True)
        return numbers.reshape(-1), before
    occurs = np.zeros(bound, np.bool_)
    occurs[codes] = True
    before = np.flatnonzero(occurs)
    new = np.zeros(bound, np.intp)
    new[before] = np.arange(len(before))
    return new[codes], before


class _TooManyStates(Exception):
    """These names need more states than one automaton may have."""


class _Automaton:
    """Some patterns, with their numbers. Each has a bit for each place in its texts: so much of a name's beginning is matched."""

    def __init__(self, patterns: Sequence[tuple[int, Pattern]]) -> None:
        self._patterns = patterns
        self._reached_by = [0] * _BYTES
        """By byte the places that it reaches from the place before."""
        self._stays = 0
        """The places before a wildcard, where any byte may come."""
        self._passed: dict[int, int] = {}
        """By place before a wildcard the earlier ones of its pattern, which have nothing to add once it is reached."""
        self._ends: dict[int, int] = {}
        """By last place of a pattern its number."""
        start = 0
        place = 1
        for number, texts in patterns:
            start |= place
            place = self._lay_out(number, [text.encode() for text in texts], place)
        used = sorted(byte for byte, places in enumerate(self._reached_by) if places)
        self._width = len(used) + 1
        columns = {byte: column for column, byte in enumerate(used, 1)}
        self._columns = bytes(columns.get(byte, 0) for byte in range(_BYTES))
        """By byte its column; all that stand in no pattern share the first. UTF-8 has no more than 244 bytes, so a column is one, too."""
        self._reached_in = [0, *(self._reached_by[byte] for byte in used)]
        self._states: dict[int, int] = {}
        self._places: list[int] = []
        self._matches: list[int] = []
        self._end_places, self._passing = sum(self._ends), sum(self._passed)
        self._next = np.full(0, -1, np.intp)
        """By cell, a state's first one plus a column: the first cell of the following state; -1 = nobody has needed it."""
        self._state(self._without_passed(start))

    def _lay_out(self, number: int, texts: Sequence[bytes], first: int) -> int:
        """Gives the places of one pattern their bits, from `first` on, and returns the bit behind them."""
        place = first
        for at, text in enumerate(texts):
            for byte in text:
                place <<= 1
                self._reached_by[byte] |= place
            if at < len(texts) - 1:
                self._stays |= place
                if place != first:
                    self._passed[place] = place - first  # all bits from the first up to this one
        self._ends[place] = number
        return place << 1

    def parted(self) -> list[_Automaton]:
        """Two automata with half of the patterns each."""
        half = len(self._patterns) // 2
        return [_Automaton(self._patterns[:half]), _Automaton(self._patterns[half:])]

    def match(self, name: bytes) -> int:
        """The patterns that a name matches, by the bits of their numbers. Raises _TooManyStates."""
        first = 0
        for column in name.translate(self._columns):
            following = self._next.item(first + column)
            first = self._follow(first + column) if following < 0 else following
        return self._matches[first // self._width]

    def match_all(self, names: Any) -> tuple[Codes, list[int]]:
        """A number for each name, and by number what `match` says of such names. Raises _TooManyStates."""
        data, starts, lengths = _bytes_of(names)
        firsts = self._walk(np.frombuffer(data.translate(self._columns), np.uint8), starts, lengths)
        numbers: dict[int, int] = {}
        by_first = np.zeros(len(self._next), np.intp)
        by_first[: len(self._matches) * self._width : self._width] = [numbers.setdefault(match, len(numbers)) for match in self._matches]
        return by_first[firsts], list(numbers)

    def _walk(self, columns: npt.NDArray[np.uint8], starts: Codes, lengths: Codes) -> Codes:
        """The first cells of the states at the ends of the names. The longest names come first: those that go on are always in front."""
        longest = int(lengths.max(initial=0))
        order = np.argsort((longest - lengths).astype(np.uint16 if longest < 1 << 16 else np.intp), kind="stable")
        going_on = len(lengths) - np.cumsum(np.bincount(lengths, minlength=1))
        firsts, at = np.zeros(len(lengths), np.intp), starts[order]
        for number in going_on[:longest].tolist():
            firsts[:number] += columns.take(at[:number])
            firsts[:number] = self._moved(firsts[:number])
            at[:number] += 1
        ended = np.empty_like(firsts)
        ended[order] = firsts
        return ended

    def _moved(self, cells: Codes) -> Codes:
        firsts = self._next.take(cells)
        if firsts.min(initial=0) < 0:
            needed = np.zeros(len(self._next), np.bool_)
            needed[cells[firsts < 0]] = True
            for cell in np.flatnonzero(needed).tolist():
                self._follow(cell)
            firsts = self._next.take(cells)
        return firsts

    def _follow(self, cell: int) -> int:
        state, column = divmod(cell, self._width)
        places = self._places[state]
        reached = ((places << 1) & self._reached_in[column]) | (places & self._stays)
        following = self._state(self._without_passed(reached)) * self._width
        self._next[cell] = following
        return following

    def _state(self, places: int) -> int:
        state = self._states.get(places)
        if state is None:
            state = len(self._places)
            if state >= MAX_STATES and len(self._patterns) > 1:
                raise _TooManyStates
            self._states[places] = state
            self._places.append(places)
            self._matches.append(sum(1 << self._ends[place] for place in single_bits(places & self._end_places)))
            if len(self._next) < len(self._places) * self._width:
                self._next = np.concatenate([self._next, np.full(max(64 * self._width, len(self._next)), -1, np.intp)])
        return state

    def _without_passed(self, places: int) -> int:
        for place in single_bits(places & self._passing):
            places &= ~self._passed[place]
        return places


def single_bits(bits: int) -> Iterator[int]:
    """Each bit that is set, by itself."""
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit


def _bytes_of(names: Any) -> tuple[bytes, Codes, Codes]:
    """The bytes of an Arrow array of strings, and where in them each begins, and its length."""
    if isinstance(names, pa.ChunkedArray):
        names = names.combine_chunks()
    if len(names) == 0:  # may have no buffers
        return b"", np.zeros(0, np.intp), np.zeros(0, np.intp)
    _, offsets, data = names.cast(pa.string()).buffers()
    bounds = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1].astype(np.intp)
    first, last = int(bounds[0]), int(bounds[-1])
    content = b"" if data is None else bytes(memoryview(data)[first:last])
    return content, bounds[:-1] - first, bounds[1:] - bounds[:-1]
