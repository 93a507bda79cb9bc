"""Finds a type for a column of numbers in text form that loses nothing of the text. Pure.

A number in a JSON file is a number, so only its digits matter. A number in a CSV file is a text, which may be a zip code or a phone number.
So there the type must print each number exactly like the text.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.column_types import MAX_DECIMAL_PRECISION
from tiering.ingest.exact_casts import Column

_INT64_DIGITS = 18
"""Whole numbers with at most this many digits always fit BIGINT."""
_DOUBLE_DIGITS = pa.scalar(15)
"""Numbers with at most this many significant digits are kept by a DOUBLE (IEEE 754)."""
_EXACT_DOUBLE = 2**53
"""Up to this size a DOUBLE can hold every whole number."""

_ENOUGH_DIGITS = Context(prec=2_000, Emin=-400_000, Emax=400_000)


class NumberInference:
    """Records the numbers of a column and finds the narrowest of these types that loses none of their digits:

    BIGINT; DECIMAL(38, 0) for larger whole numbers; DOUBLE, if each number is printed by its DOUBLE with the same digits as in the file;
    DECIMAL(38, s) with the longest fraction of the column; otherwise STRING.
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
        """Records numbers in the text form of the file, without spaces, and the same numbers as DOUBLE; ignores nulls."""
        texts, values = texts.drop_null(), values.drop_null()
        if not len(texts):
            return
        self._has_values = True
        plain = _without_exponent(texts)
        self._see_plain(texts.filter(plain))
        for text in texts.filter(pc.invert(plain)).to_pylist():
            self._see_other(text)
        if self._double:
            self._double = self._are_kept(texts, values)

    def _are_kept(self, texts: Column, values: Column) -> bool:
        """Returns whether DOUBLE keeps all digits of the numbers."""
        return _all_printed_by_doubles(texts, values)

    def see_integers(self, numbers: Column) -> None:
        """Records values of BIGINT; ignores nulls."""
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
            self._int64 = all(-(2**63) <= Decimal(text) < 2**63 for text in long)  # int() refuses more than 4300 digits

    def _see_other(self, text: str) -> None:
        """Records a number with an exponent, an infinity or NaN."""
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
"""Matches numbers without an exponent, a plus sign or leading zeros, except the negative zero."""
_SHORT_DOUBLE = r"^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9]|\.0)?$"
"""Matches numbers in the form in which a DOUBLE with few digits is printed without an exponent; whole ones may end with `.0`."""
_PYTHON, _C, _JAVASCRIPT, _JAVA = "Python", "C", "JavaScript", "Java"
_PRINTERS = frozenset({_PYTHON, _C, _JAVASCRIPT, _JAVA})
"""Languages that print a DOUBLE in different ways. C (like PostgreSQL) differs from Python by printing a whole number without `.0`."""
_WITHOUT_EXPONENT_FROM = {_PYTHON: 1e-4, _C: 1e-4, _JAVASCRIPT: 1e-6, _JAVA: 1e-3}
"""The smallest size that each language prints without an exponent. Java does so up to 1e7, the others at least up to 1e15."""
_JAVASCRIPT_EXPONENT_FROM, _JAVA_EXPONENT_FROM = 1e21, 1e7


class PrintedNumbers(NumberInference):
    """Records the numbers of a column and finds the narrowest of these types that prints each number exactly like the text:

    BIGINT; DECIMAL(38, 0); DOUBLE, if one of the `_PRINTERS` prints all numbers like this; DECIMAL(38, s), if all numbers have s digits
    behind the point; otherwise STRING.
    """

    def __init__(self) -> None:
        super().__init__()
        self._printers = _PRINTERS
        self.misprint = ""
        """A number that, together with those before it, none of the types prints like the file; empty if there is none."""

    def see_texts(self, texts: Column, values: Column) -> None:
        """Records numbers in the text form of the file, without spaces, and the same numbers as DOUBLE; ignores nulls."""
        texts, values = texts.drop_null(), values.drop_null()
        if not len(texts) or self.misprint:
            return
        scale_before = self._scale if self._has_values else None
        super().see_texts(texts, values)
        is_plain = pc.all(pc.match_substring_regex(texts, _PLAIN_NUMBER)).as_py()
        if self._whole and is_plain and self._whole_digits <= _DOUBLE_DIGITS.as_py():
            self._printers &= {_C, _JAVASCRIPT}
            self._double = self._double and bool(self._printers)
            return
        self._whole = self._whole and is_plain
        self._finite = self._finite and is_plain and scale_before in (None, self._scale) and _have_scale(texts, self._scale)
        unprinted = self._first_not_printed(texts, values) if self._double else None
        self._double = self._double and unprinted is None
        if not (self._whole or self._double or self._finite):
            self.misprint = unprinted or texts[0].as_py()

    def _are_kept(self, texts: Column, values: Column) -> bool:
        """Returns True, because `_first_not_printed` checks this."""
        return True

    def _first_not_printed(self, texts: Column, values: Column) -> str | None:
        """Returns a number that none of the remaining printers prints like the file; None if there is none."""
        is_regular = _are_printed_without_exponent(texts, values)
        for selection in (is_regular, pc.invert(is_regular)):
            chosen_texts, chosen_values = texts.filter(selection), values.filter(selection)
            if selection is is_regular and self._all_printed(chosen_texts, chosen_values):
                continue
            for text, value in zip(chosen_texts.to_pylist(), chosen_values.to_pylist(), strict=True):
                # JavaScript prints wrong digits for whole numbers above 2**53.
                self._printers &= printers_of(text, value) if printed_by_double(text) else frozenset()
                if not self._printers:
                    return str(text)
        return None

    def _all_printed(self, texts: Column, values: Column) -> bool:
        """Removes printers that do not print the numbers of `_are_printed_without_exponent` in this form.

        Returns whether a printer remains. If none does, changes nothing.
        """
        if not len(texts):
            return True
        remaining = self._printers
        is_whole, has_zero = pc.invert(pc.match_substring(texts, ".")), pc.ends_with(texts, ".0")
        if pc.any(is_whole).as_py():
            remaining &= {_C, _JAVASCRIPT}
        if pc.any(has_zero).as_py():
            remaining &= {_PYTHON, _JAVA}
        if pc.any(pc.equal(texts, pa.scalar("-0"))).as_py():
            remaining -= {_JAVASCRIPT}
        sizes: Column = pc.abs(values)
        largest, smallest = pc.max(sizes).as_py(), pc.min(sizes.filter(pc.greater(sizes, pa.scalar(0.0)))).as_py()
        if smallest is not None:
            remaining = frozenset(printer for printer in remaining if smallest >= _WITHOUT_EXPONENT_FROM[printer])
            remaining -= {_JAVA} if largest >= _JAVA_EXPONENT_FROM else set()
        self._printers = remaining or self._printers
        return bool(remaining)


def _are_printed_without_exponent(texts: Column, values: Column) -> Column:
    """Returns which numbers have the usual form without exponent and the fewest digits that identify their DOUBLE.

    Numbers of at most 15 digits always have the fewest digits. A longer fraction has them if Arrow prints the same text. Only Arrow is fast
    enough for this check: it prints a million numbers in a second.
    """
    is_plain, is_short = pc.match_substring_regex(texts, _SHORT_DOUBLE), pc.less_equal(pc.utf8_length(texts), _DOUBLE_DIGITS)
    if not pc.all(is_short).as_py():
        is_fraction = pc.match_substring_regex(texts, r"\.[0-9]*[1-9]$")
        is_short = pc.or_(is_short, pc.and_(is_fraction, pc.equal(values.cast(pa.string()), texts)))
    return pc.and_(is_plain, is_short)


def _have_scale(numbers: Column, scale: int) -> bool:
    """Returns whether each of the numbers, which have no exponent, has exactly `scale` digits behind the point."""
    point = pc.find_substring(numbers, ".")
    digits: Column = pc.subtract(pc.subtract(pc.utf8_length(numbers), point), pa.scalar(1, pa.int32()))
    scales = pc.if_else(pc.less(point, pa.scalar(0)), pa.scalar(0, digits.type), digits)
    return bool(pc.all(pc.equal(scales, pa.scalar(scale, scales.type))).as_py())


def printers_of(text: str, value: float) -> frozenset[str]:
    """Returns those of the `_PRINTERS` that print the DOUBLE `value` as `text`."""
    python = repr(value)
    printed = {_PYTHON: python, _C: python.removesuffix(".0"), _JAVASCRIPT: _by_javascript(value), _JAVA: _by_java(value)}
    return frozenset(printer for printer, result in printed.items() if result == text)


def _by_javascript(value: float) -> str:
    if not math.isfinite(value):
        return _words(value)
    if value == 0:
        return "0"
    python = repr(value)
    if _WITHOUT_EXPONENT_FROM[_JAVASCRIPT] <= abs(value) < _JAVASCRIPT_EXPONENT_FROM:
        return (f"{Decimal(python):f}" if "e" in python else python).removesuffix(".0")
    mantissa, exponent = _scientific(value)
    return f"{mantissa}e{exponent:+d}"


def _by_java(value: float) -> str:
    if not math.isfinite(value):
        return _words(value)
    if value == 0 or _WITHOUT_EXPONENT_FROM[_JAVA] <= abs(value) < _JAVA_EXPONENT_FROM:
        return repr(value)
    mantissa, exponent = _scientific(value)
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{exponent}"


def _words(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scientific(value: float) -> tuple[str, int]:
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return mantissa, int(exponent)


def _without_exponent(numbers: Column) -> Column:
    """Returns which numbers consist of digits with at most a sign and a point: no exponent, no infinity, no NaN."""
    return pc.invert(pc.match_substring_regex(numbers, "[eEnN]"))


def _all_printed_by_doubles(texts: Column, values: Column) -> bool:
    short: Column = pc.and_(pc.less_equal(pc.utf8_length(texts), _DOUBLE_DIGITS), _without_exponent(texts))
    if pc.all(short).as_py():
        return True
    long = pc.invert(short)
    texts, values = texts.filter(long), values.filter(long)
    remaining = texts.filter(pc.not_equal(values.cast(pa.string()), texts)).to_pylist()
    return all(printed_by_double(text) for text in remaining)


def _decimal(text: str) -> Decimal | None:
    """Returns the number of a text; None if its exponent is larger than Python's decimals allow (about 10**18)."""
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
    except InvalidOperation:  # the text has more digits than any DOUBLE
        return False
