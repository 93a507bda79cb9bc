"""Casts values to a column's type without a loss. A value that the type cannot hold raises ArrowInvalid.

DOUBLE and FLOAT store the nearest number for a number with a fraction or an exponent, as in all programs. A whole number that they cannot
hold, and a number that would become infinite or zero, are refused.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = Any
"""An Arrow array. The type stubs of pyarrow reject compute functions on an array of unknown type."""

_VIA_DECIMAL = pa.decimal128(38, 0)
_EXACT_DIGITS_OF_FLOAT, _EXACT_DIGITS_OF_DOUBLE = pa.scalar(7), pa.scalar(15)
"""Whole numbers with at most this many digits are always exact in the type (IEEE 754)."""
_INFINITY = r"^[+-]?inf(inity)?$"
_NOT_ZERO = r"^[^eE]*[1-9]"
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHORT_NUMBER = r"^[^eE]{0,30}$"
"""Matches decimals that Arrow parses correctly. For long fractions and exponents, Arrow reads beyond its table of powers of ten."""


def cast_exactly(column: Column, target: pa.DataType) -> Column:
    """Returns the values as `target`, including nested values; structs may lack fields. Raises ArrowInvalid, ArrowNotImplementedError."""
    kind = column.type
    if kind == target:
        return column
    if isinstance(kind, pa.StructType) and isinstance(target, pa.StructType):
        return _cast_structs(column, target)
    if isinstance(kind, pa.MapType) and isinstance(target, pa.MapType):
        entries = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        keys, values = entries.flatten().flatten()
        keys, values = cast_exactly(keys, target.key_type), cast_exactly(values, target.item_type)
        return pa.MapArray.from_arrays(_offsets(entries), keys, values).cast(target)
    if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType) and isinstance(target, pa.ListType):
        lists: Column = pa.ListArray.from_arrays(_offsets(column), cast_exactly(column.flatten(), target.value_type), type=target)
        return lists
    return _cast_leaf(column, target)


def changes_meaning(kind: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether a cast would change the kind of a value: truth values, numbers, bytes, dates, timestamps."""
    if pa.types.is_timestamp(kind) and pa.types.is_date(target):
        return True  # the cast would drop the time of day
    families = {_family(kind), _family(target)}
    return len(families) == 2 and "" not in families


def _family(kind: pa.DataType) -> str:
    """Returns the family of a type; "" for texts and nulls."""
    if pa.types.is_boolean(kind):
        return "truth"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "time" if pa.types.is_temporal(kind) else ""


def _cast_structs(column: Column, target: pa.StructType) -> Column:
    given_names = [column.type.field(index).name for index in range(column.type.num_fields)]
    given_values = dict(zip(given_names, column.flatten(), strict=True))
    fields = [target.field(index) for index in range(target.num_fields)]
    values = [
        cast_exactly(given_values[field.name], field.type) if field.name in given_values else pa.nulls(len(column), field.type)
        for field in fields
    ]
    structs: Column = pa.StructArray.from_arrays(values, fields=fields, mask=column.is_null())
    return structs


def _offsets(column: Column) -> Column:
    """Returns the begin of each list of a column in the column's flattened values; null for a list that is null."""
    lengths: Column = pc.list_value_length(column)
    stops = pc.cumulative_sum(lengths.fill_null(0).cast(pa.int64()))
    starts = pa.concat_arrays([pa.array([0], pa.int64()), stops]).cast(pa.int32())
    is_null = pa.concat_arrays([column.is_null(), pa.array([False])])
    offsets: Column = pc.if_else(is_null, pa.scalar(None, pa.int32()), starts)
    return offsets


def _cast_leaf(values: Column, target: pa.DataType) -> Column:
    kind = values.type
    if pa.types.is_null(kind):
        return values.cast(target)
    if pa.types.is_decimal(target) and not pa.types.is_decimal(kind):
        return _as_decimals(values.cast(pa.string()), target)
    if pa.types.is_decimal(target):
        _check_size(values, target)
    if pa.types.is_floating(target):
        return _as_floats(values, target)
    if pa.types.is_integer(target) and pa.types.is_string(kind):
        return _as_integers(values, target)
    return values.cast(target)


def _as_integers(texts: Column, target: pa.DataType) -> Column:
    """Returns texts as integers. Accepts whole numbers such as 1.0, 1e3 or +1 too."""
    try:
        numbers = texts.cast(target)
    except pa.ArrowInvalid:
        return _as_decimals(texts, _VIA_DECIMAL).cast(target)
    # Arrow parses 0xFF as the bits of a negative number.
    wrapped = pc.and_(pc.starts_with(texts, "0x", ignore_case=True), pc.less(numbers, pa.scalar(0, target)))
    _refuse_any(texts, wrapped, f"does not fit {target}")
    return numbers


def _as_decimals(texts: Column, target: Any) -> Column:
    long: Column = pc.invert(pc.match_substring_regex(texts, _SHORT_NUMBER))
    if pc.any(long).as_py():
        plain = [None if text is None else _plain_decimal(text, target) for text in texts.filter(long).to_pylist()]
        texts = pc.replace_with_mask(texts, long.fill_null(False), pa.array(plain, pa.string()))
    if not pc.all(pc.match_substring_regex(texts, r"^[+-]?[0-9.]+$")).as_py():
        return texts.cast(target)  # at least one text is not a number; Arrow raises the error
    _check_size(texts, target)
    return texts.cast(target)


def _plain_decimal(text: str, target: pa.Decimal128Type[Any, Any]) -> str:
    """Returns a number without an exponent and without zeros at its end; other texts unchanged. Raises ArrowInvalid."""
    if _NUMBER.fullmatch(text) is None:
        return text
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise pa.ArrowInvalid(f"{text!r} does not fit {target}") from error
    if number == 0:
        return "0"
    sign, digits, exponent = number.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    scale = len(significant) - len(digits) - int(exponent)
    if scale > target.scale or number.adjusted() >= target.precision - target.scale:
        raise pa.ArrowInvalid(f"{text!r} does not fit {target}")
    return f"{'-' * sign}{Decimal(f'{significant}e{-scale}'):f}"


def _check_size(numbers: Column, target: Any) -> None:
    """Raises ArrowInvalid for a number with more digits before the point than a decimal type has.

    Arrow checks this too late: its multiplication overflows 128 bits without an error, and 140 becomes 0.48... as DECIMAL(38, 38).
    """
    size = pc.abs(numbers.cast(pa.float64(), safe=False))
    _refuse_any(numbers, pc.greater(size, 1.5 * 10.0 ** (target.precision - target.scale)), f"does not fit {target}")


def _as_floats(values: Column, target: pa.DataType) -> Column:
    zero = pa.scalar(0.0, target)
    if pa.types.is_floating(values.type):
        floats = values.cast(target)
        lost = pc.not_equal(pc.is_inf(values), pc.is_inf(floats))
        _refuse_any(
            values,
            pc.or_(lost, pc.and_(pc.equal(floats, zero), pc.not_equal(values, pa.scalar(0.0, values.type)))),
            f"does not fit {target}",
        )
        return floats
    texts = values.cast(pa.string())
    floats = texts.cast(target)
    infinite = texts.filter(pc.is_inf(floats))
    _refuse_any(infinite, pc.invert(pc.match_substring_regex(infinite, _INFINITY, ignore_case=True)), f"does not fit {target}")
    zeros = texts.filter(pc.equal(floats, zero))
    _refuse_any(zeros, pc.match_substring_regex(zeros, _NOT_ZERO), f"does not fit {target}")
    long = pc.greater(pc.utf8_length(texts), _EXACT_DIGITS_OF_FLOAT if target == pa.float32() else _EXACT_DIGITS_OF_DOUBLE)
    whole = pc.and_(long, pc.invert(pc.match_substring(texts, ".")))
    for text, value in zip(texts.filter(whole).to_pylist(), floats.filter(whole).to_pylist(), strict=True):
        if _WHOLE_NUMBER.fullmatch(text) and Decimal(text) != Decimal(value):
            raise pa.ArrowInvalid(f"{text!r} is a whole number that {target} cannot hold")
    return floats


def _refuse_any(values: Column, refused: Column, reason: str) -> None:
    if pc.any(refused).as_py():
        raise pa.ArrowInvalid(f"{values.filter(refused)[0].as_py()!r} {reason}")
