"""The codec of values that travel between the driver and executors: compressed JSON with a version. Never pickled."""

from __future__ import annotations

from typing import Generic, TypeVar

import zstandard
from pydantic import TypeAdapter

T = TypeVar("T")


class Packed(Generic[T]):
    """The codec of one dataclass. `name` names its values in errors: "the files of a bucket"."""

    def __init__(self, kind: type[T], name: str, version: int) -> None:
        self._adapter = TypeAdapter(kind)
        self._name = name
        self._version = version

    def encode(self, value: T) -> bytes:
        """Returns `value` as bytes. Equal values give equal bytes."""
        return zstandard.ZstdCompressor().compress(bytes((self._version,)) + self._adapter.dump_json(value))

    def decode(self, data: bytes) -> T:
        """Returns the value of these bytes. Raises ValueError, also for an unknown version, which it names."""
        try:
            version, *_ = text = zstandard.ZstdDecompressor().decompress(data)
        except zstandard.ZstdError as error:
            raise ValueError(f"{self._name} cannot be decompressed: {error}") from error
        if version != self._version:
            raise ValueError(f"{self._name} have version {version}; this Lakeward reads version {self._version}")
        return self._adapter.validate_json(text[1:])
