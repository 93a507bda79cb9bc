"""The places of the rows of one split, according to the partition spec of an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IcebergType

from tiering.lake.iceberg.schema.types import arrow_type
from tiering.lake.writing.row_guard import RowPlaces
from tiering.library_guards.bucket_hash import bucket_ids_of, combined_bucket_ids


def row_places(
    schema: Schema, spec: PartitionSpec, values: Sequence[int | str], bucket_count: int = 1, combined: Sequence[str] = ()
) -> RowPlaces:
    """Returns the places. `values`: the partition record of the files, in the order of `spec`. `combined`: the bucket keys, if the formula
    `combined-v1` over them determines the bucket and no partition field does."""
    fields = [(schema.find_field(field.source_id), field.transform, value) for field, value in zip(spec.fields, values, strict=True)]
    hashes: list[tuple[Sequence[str], Callable[[Sequence[pa.Array[Any]]], npt.NDArray[np.int32]]]] = [
        ((field.name,), partial(_bucket_ids, transform.num_buckets))
        for field, transform, _ in fields
        if isinstance(transform, BucketTransform)
    ]
    if combined:
        hashes.append((combined, partial(_combined_ids, bucket_count)))
    return RowPlaces(
        [(field.name, _scalar(field.field_type, value)) for field, transform, value in fields if isinstance(transform, IdentityTransform)],
        hashes,
    )


def _bucket_ids(bucket_count: int, columns: Sequence[pa.Array[Any]]) -> npt.NDArray[np.int32]:
    return bucket_ids_of(columns[0], bucket_count)


def _combined_ids(bucket_count: int, columns: Sequence[pa.Array[Any]]) -> npt.NDArray[np.int32]:
    return combined_bucket_ids(columns, bucket_count)


def _scalar(kind: IcebergType, value: int | str) -> pa.Scalar[pa.DataType]:
    """Returns a partition value in the type of the rows. Iceberg stores a date as a number of days."""
    scalar: pa.Scalar[pa.DataType] = pa.scalar(value, arrow_type(kind))
    return scalar
