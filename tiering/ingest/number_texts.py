"""Finds the type that keeps each number of a column, as it is written in a file, apart from the numbers beside it. Pure."""

from __future__ import annotations

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
