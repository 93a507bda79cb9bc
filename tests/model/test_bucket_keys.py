"""The text of a bucket has one form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import InvalidArgument
from tiering.model.tables import BucketKey
from tiering.union_read.streams.offsets import decode


@given(st.builds(BucketKey, st.none() | st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1)))
def test_each_bucket_is_read_back_from_its_text(bucket: BucketKey) -> None:
    assert BucketKey.parse(str(bucket)) == bucket


@given(st.text("0123456789/ -+_٣", max_size=6))
def test_no_other_text_is_a_bucket(text: str) -> None:
    try:
        bucket = BucketKey.parse(text)
    except ValueError:
        return
    assert str(bucket) == text
    assert min(bucket.bucket_id, bucket.partition_id or 0) >= 0


@pytest.mark.parametrize("text", ["00", " 1", "1 ", "+1", "1_0", "-1", "-0", "3/", "/3", "03/1", "-3/1", "1/2/3", "٣", ""])
def test_an_offset_of_a_checkpoint_names_each_bucket_in_its_one_form(text: str) -> None:
    checkpoint = {"v": 1, "table_id": 1, "buckets": {text: 5}}
    with pytest.raises(InvalidArgument, match="cannot be read"):
        decode(json.dumps(checkpoint))
