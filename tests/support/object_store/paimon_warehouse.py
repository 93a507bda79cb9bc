"""A Paimon warehouse in S3: there is no catalog but its folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from secrets import token_hex

from support.object_store.s3_server import BUCKET, S3Server


@dataclass(frozen=True)
class PaimonWarehouse:
    """One of its own in `store`."""

    store: S3Server
    folder: str = field(default_factory=lambda: f"paimon-{token_hex(4)}")

    @property
    def lake(self) -> dict[str, str]:
        """The properties of the lake that are no secrets."""
        return {"type": "filesystem", "warehouse": f"s3://{BUCKET}/{self.folder}", **self.store.place}

    @property
    def secrets(self) -> dict[str, str]:
        """Properties that a process of ours needs beside these."""
        return self.store.keys

    @property
    def all_properties(self) -> dict[str, str]:
        """All properties, including secrets."""
        return {**self.lake, **self.secrets}
