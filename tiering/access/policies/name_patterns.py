"""Matches many patterns with wildcards in one walk over a name: an automaton over its bytes, whose states are created on demand.

A state is the set of places in all patterns that a name has reached (one bit per place), so the walk costs the same for one pattern and for
a thousand. Many names are matched together: their states are an array, which advances by one byte at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Pattern = tuple[str, ...]
"""The texts of a pattern in order, with anything between two of them: `("sales_", "")` is `sales_*`."""
Codes = npt.NDArray[np.intp]

MAX_STATES = 2_048
"""Upper bound of one automaton's states. Independent patterns multiply its states; above this bound, it is split in two."""

MAX_TABLE = 1 << 20
"""Largest code for renumbering with a table by code. Larger codes are sorted, because the table would be larger than the codes."""

_BYTES = 256


class NamePatterns:
    """Matches names against some patterns. It is thread-safe."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._lock = threading.Lock()
        self._automata = [_Automaton(list(enumerate(patterns)))] if patterns else []

    def matches(self, name: str) -> int:
        """Returns the patterns that the name matches: bit n stands for the nth pattern."""
        with self._lock:
            return sum(self._read(lambda automaton: automaton.match(name.encode())))

    def outcomes(self, names: Any) -> tuple[Codes, list[int]]:
        """Returns a number for each name in an Arrow array of strings, and by number the matching patterns, in the form of `matches`."""
        codes, matches = np.zeros(len(names), np.intp), [0]
        with self._lock:
            for part, part_matches in self._read(lambda automaton: automaton.match_all(names)):
                codes, examples = renumbered(codes * len(part_matches) + part)
                pairs = (divmod(pair, len(part_matches)) for pair in examples.tolist())
                matches = [matches[at] | part_matches[part_at] for at, part_at in pairs]
        return codes, matches

    def _read(self, read: Any) -> Iterator[Any]:
        """Yields the result of `read` for each automaton. An automaton that would grow too large is split before."""
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
    """Returns the codes renumbered without gaps, and the former code by new number."""
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
    """Some patterns with their numbers. Each place in a pattern's texts has a bit, which means that a name has matched up to it."""

    def __init__(self, patterns: Sequence[tuple[int, Pattern]]) -> None:
        self._patterns = patterns
        self._reached_by = [0] * _BYTES
        """The places that a byte reaches from the place before, by byte."""
        self._stays = 0
        """The places before a wildcard, where any byte may come."""
        self._passed: dict[int, int] = {}
        """The earlier places of the same pattern, by place before a wildcard. They add nothing once that place is reached."""
        self._ends: dict[int, int] = {}
        """The number of a pattern by its last place."""
        start = 0
        place = 1
        for number, texts in patterns:
            start |= place
            place = self._lay_out(number, [text.encode() for text in texts], place)
        used = sorted(byte for byte, places in enumerate(self._reached_by) if places)
        self._width = len(used) + 1
        columns = {byte: column for column, byte in enumerate(used, 1)}
        self._columns = bytes(columns.get(byte, 0) for byte in range(_BYTES))
        """The column of each byte. Bytes in no pattern share the first one. UTF-8 has at most 244 bytes, so a column fits into one, too."""
        self._reached_in = [0, *(self._reached_by[byte] for byte in used)]
        self._states: dict[int, int] = {}
        self._places: list[int] = []
        self._matches: list[int] = []
        self._end_places, self._passing = sum(self._ends), sum(self._passed)
        self._next = np.full(0, -1, np.intp)
        """The first cell of the next state by cell, which is a state's first cell plus a column; -1 if not needed yet."""
        self._state(self._without_passed(start))

    def _lay_out(self, number: int, texts: Sequence[bytes], first: int) -> int:
        """Assigns bits to the places of one pattern, starting with `first`. Returns the next free bit."""
        place = first
        for at, text in enumerate(texts):
            for byte in text:
                place <<= 1
                self._reached_by[byte] |= place
            if at < len(texts) - 1:
                self._stays |= place
                if place != first:
                    self._passed[place] = place - first  # all bits from the first one up to this one
        self._ends[place] = number
        return place << 1

    def parted(self) -> list[_Automaton]:
        """Returns two automata with half of the patterns each."""
        half = len(self._patterns) // 2
        return [_Automaton(self._patterns[:half]), _Automaton(self._patterns[half:])]

    def match(self, name: bytes) -> int:
        """Returns the patterns that a name matches, as bits of their numbers. Raises _TooManyStates."""
        first = 0
        for column in name.translate(self._columns):
            following = self._next.item(first + column)
            first = self._follow(first + column) if following < 0 else following
        return self._matches[first // self._width]

    def match_all(self, names: Any) -> tuple[Codes, list[int]]:
        """Returns a number for each name, and by number the result of `match` for such names. Raises _TooManyStates."""
        data, starts, lengths = _bytes_of(names)
        firsts = self._walk(np.frombuffer(data.translate(self._columns), np.uint8), starts, lengths)
        numbers: dict[int, int] = {}
        by_first = np.zeros(len(self._next), np.intp)
        by_first[: len(self._matches) * self._width : self._width] = [numbers.setdefault(match, len(numbers)) for match in self._matches]
        return by_first[firsts], list(numbers)

    def _walk(self, columns: npt.NDArray[np.uint8], starts: Codes, lengths: Codes) -> Codes:
        """Returns the first cells of the states at the ends of the names. The longest names come first, so unfinished ones are in front."""
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
    """Yields each bit that is set."""
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit


def _bytes_of(names: Any) -> tuple[bytes, Codes, Codes]:
    """Returns the bytes of an Arrow array of strings, and the start and length of each string in them."""
    if isinstance(names, pa.ChunkedArray):
        names = names.combine_chunks()
    if len(names) == 0:  # such an array may have no buffers
        return b"", np.zeros(0, np.intp), np.zeros(0, np.intp)
    _, offsets, data = names.cast(pa.string()).buffers()
    bounds = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1].astype(np.intp)
    first, last = int(bounds[0]), int(bounds[-1])
    content = b"" if data is None else bytes(memoryview(data)[first:last])
    return content, bounds[:-1] - first, bounds[1:] - bounds[:-1]
