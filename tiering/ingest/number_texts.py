"""Finds the type of the numbers of a column, as they are written in a file, that loses nothing of them. Pure.

A number of a JSON file is a number, so its digits count. A number of a CSV file is a text that may be a zip code or a phone number.
So there each text must be what the type prints.
"""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.embedded.metadata.types import MAX_DECIMAL_PRECISION

Column: TypeAlias = Any
"""An Arrow array. The stubs of pyarrow refuse compute functions of an array whose type is not known."""

_INT64_DIGITS = 18
"""Whole numbers of so many digits always fit BIGINT."""
_DOUBLE_DIGITS = pa.scalar(15)
"""Numbers of so many significant digits survive a DOUBLE (IEEE 754)."""
_EXACT_DOUBLE = 2**53
"""Up to this size a DOUBLE holds each whole number."""

_ENOUGH_DIGITS = Context(prec=2_000, Emin=-400_000, Emax=400_000)


class NumberInference:
    """Takes in the numbers of a column, and names the narrowest type of these that loses none of their digits:

    BIGINT; for whole numbers beyond it DECIMAL(38, 0); DOUBLE, if each number is printed by its DOUBLE with the digits that the file
    has; DECIMAL(38, s) with the longest fraction of the column; else STRING.
    """

    def __init__(self) -> None:
        self._has_values = False
        self._whole = True
        self._int64 = True
        self._double = True
        self._finite = True
        self._whole_digits = 0
        self._scale = 0

    def see_texts(self, texts: Column, values: Column) -> None:
        """Takes in numbers as the file has them, without spaces, and the same numbers as DOUBLE; nulls are passed over."""
        texts, values = texts.drop_null(), values.drop_null()
        if not len(texts):
            return
        self._has_values = True
        plain = _without_exponent(texts)
        self._see_plain(texts.filter(plain))
        for text in texts.filter(pc.invert(plain)).to_pylist():
            self._see_other(text)
        if self._double:
            self._double = _all_printed_by_doubles(texts, values)

    def see_integers(self, numbers: Column) -> None:
        """Takes in values of BIGINT; nulls are passed over."""
        if numbers.null_count == len(numbers):
            return
        largest = max(abs(pc.min(numbers).as_py()), abs(pc.max(numbers).as_py()))
        self._has_values = True
        self._whole_digits = max(self._whole_digits, len(str(largest)))
        if largest > _EXACT_DOUBLE and self._double:
            values = numbers.cast(pa.float64(), safe=False)
            self._double = _all_printed_by_doubles(numbers.cast(pa.string()).drop_null(), values.drop_null())

    @property
    def kind(self) -> pa.DataType:
        """The type of the column; STRING if it has no value."""
        if not self._has_values:
            return pa.string()
        if self._whole and self._int64:
            return pa.int64()
        if self._whole and self._whole_digits <= MAX_DECIMAL_PRECISION:
            return pa.decimal128(MAX_DECIMAL_PRECISION, 0)
        if self._double:
            return pa.float64()
        if self._finite and self._whole_digits + self._scale <= MAX_DECIMAL_PRECISION:
            return pa.decimal128(MAX_DECIMAL_PRECISION, self._scale)
        return pa.string()

    def _see_plain(self, texts: Column) -> None:
        if not len(texts):
            return
        digits = pc.utf8_ltrim(pc.utf8_ltrim(texts, "+-"), "0")
        point = pc.find_substring(digits, ".")
        length = pc.utf8_length(digits)
        has_point = pc.greater_equal(point, pa.scalar(0))
        whole_digits = pc.if_else(has_point, point, length)
        scale = pc.if_else(has_point, pc.subtract(pc.subtract(length, point), 1), 0)
        self._whole = self._whole and not pc.any(has_point).as_py()
        self._whole_digits = max(self._whole_digits, pc.max(whole_digits).as_py())
        self._scale = max(self._scale, pc.max(scale).as_py())
        if self._whole and self._int64 and self._whole_digits > _INT64_DIGITS:
            long = texts.filter(pc.greater(whole_digits, pa.scalar(_INT64_DIGITS))).to_pylist()
            self._int64 = all(-(2**63) <= Decimal(text) < 2**63 for text in long)  # int() refuses above 4300 digits

    def _see_other(self, text: str) -> None:
        """Takes in a number with an exponent, an infinity or NaN."""
        self._whole = False
        number = _decimal(text)
        if number is None:
            self._double = self._finite = False
            return
        if not number.is_finite():
            self._finite = False
            return
        exponent = number.as_tuple().exponent
        self._whole_digits = max(self._whole_digits, number.adjusted() + 1)
        self._scale = max(self._scale, -exponent if isinstance(exponent, int) else 0)


_PLAIN_NUMBER = r"^(-?[1-9][0-9]*(\.[0-9]+)?|-?0\.[0-9]*[1-9][0-9]*|0(\.0+)?)$"
"""Numbers without an exponent, a plus, zeros before them, or a negative zero."""
_SHORT_DOUBLE = r"^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9]|\.0)?$"
"""Numbers without an exponent that a DOUBLE prints, if they have few digits; whole ones may end with `.0`."""
_JAVA_EXPONENT_FROM, _JAVA_EXPONENT_BELOW = 1e7, 1e-3
"""Java prints numbers of this size, and smaller ones than that, with an exponent."""


class PrintedNumbers(NumberInference):
    """Takes in the numbers of a column, and names the narrowest of these types that prints each number as the file has it:

    BIGINT; DECIMAL(38, 0); DOUBLE; DECIMAL(38, s), if all numbers have s digits behind the point; else STRING.
    """

    def __init__(self) -> None:
        super().__init__()
        self.misprint = ""
        """The first number that none of the types prints as the file has it; empty if there is none."""

    def see_texts(self, texts: Column, values: Column) -> None:
        """Takes in numbers as the file has them, without spaces, and the same numbers as DOUBLE; nulls are passed over."""
        texts, values = texts.drop_null(), values.drop_null()
        if not len(texts) or self.misprint:
            return
        scale_before = self._scale if self._has_values else None
        super().see_texts(texts, values)
        is_plain = pc.all(pc.match_substring_regex(texts, _PLAIN_NUMBER)).as_py()
        if self._whole and is_plain and self._whole_digits <= _DOUBLE_DIGITS.as_py():
            return
        self._whole = self._whole and is_plain
        self._finite = self._finite and is_plain and scale_before in (None, self._scale) and _have_scale(texts, self._scale)
        unprinted = _first_not_printed(texts, values) if self._double else None
        self._double = self._double and unprinted is None
        if not (self._whole or self._double or self._finite):
            self.misprint = unprinted or texts[0].as_py()


def _have_scale(numbers: Column, scale: int) -> bool:
    """Returns whether each of the numbers, which have no exponent, has so many digits behind its point."""
    point = pc.find_substring(numbers, ".")
    digits: Column = pc.subtract(pc.subtract(pc.utf8_length(numbers), point), pa.scalar(1, pa.int32()))
    scales = pc.if_else(pc.less(point, pa.scalar(0)), pa.scalar(0, digits.type), digits)
    return bool(pc.all(pc.equal(scales, pa.scalar(scale, scales.type))).as_py())


def _first_not_printed(texts: Column, values: Column) -> str | None:
    """Returns the first number that its DOUBLE does not print as the file has it; None if there is none."""
    short = pc.and_(pc.match_substring_regex(texts, _SHORT_DOUBLE), pc.less_equal(pc.utf8_length(texts), _DOUBLE_DIGITS))
    long = pc.invert(short)
    remaining = zip(texts.filter(long).to_pylist(), values.filter(long).to_pylist(), strict=True)
    return next((text for text, value in remaining if not is_printed_by(text, value)), None)


def is_printed_by(text: str, value: float) -> bool:
    """Returns whether a program prints a DOUBLE as `text`: without an exponent, or as Python, JavaScript or Java print one."""
    if math.isinf(value) or math.isnan(value):
        return text.removeprefix("-") in ("inf", "Infinity", "nan", "NaN")
    if re.fullmatch(_SHORT_DOUBLE, text):
        return Decimal(text) == Decimal(repr(value))
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    python = repr(value)
    java = f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"
    has_exponent = abs(value) >= _JAVA_EXPONENT_FROM or abs(value) < _JAVA_EXPONENT_BELOW
    javascript = f"{mantissa}e{int(exponent):+d}"
    return text == python or ("e" in python and text == javascript) or (has_exponent and text == java)


def _without_exponent(numbers: Column) -> Column:
    """Returns which of the numbers are digits with at most a sign and a point: no exponent, no infinity, no NaN."""
    has_exponent = pc.match_substring(numbers, "e", ignore_case=True)
    return pc.invert(pc.or_(has_exponent, pc.match_substring(numbers, "n", ignore_case=True)))


def _all_printed_by_doubles(texts: Column, values: Column) -> bool:
    short: Column = pc.and_(pc.less_equal(pc.utf8_length(texts), _DOUBLE_DIGITS), _without_exponent(texts))
    if pc.all(short).as_py():
        return True
    long = pc.invert(short)
    texts, values = texts.filter(long), values.filter(long)
    remaining = texts.filter(pc.not_equal(values.cast(pa.string()), texts)).to_pylist()
    return all(printed_by_double(text) for text in remaining)


def _decimal(text: str) -> Decimal | None:
    """Returns the number that a text has; None if its exponent is beyond what Python's decimals hold (some 10**18)."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def printed_by_double(text: str) -> bool:
    """Returns whether the DOUBLE nearest to a number, printed with as many digits as `text` has, is the same number."""
    written, value = _decimal(text), float(text)
    if written is None:
        return False
    if not written.is_finite():
        return True
    if value in (float("inf"), float("-inf")):
        return False
    try:
        return Decimal(value).quantize(written, context=_ENOUGH_DIGITS) == written
    except InvalidOperation:  # more digits than any DOUBLE has
        return False
