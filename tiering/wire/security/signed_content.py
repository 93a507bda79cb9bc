"""Content that the service gives to a client and gets back unchanged: compressed JSON, signed with HMAC-SHA256 (RFC 2104)."""

from __future__ import annotations

import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping
from typing import Any

_DIGEST_BYTES = hashlib.sha256().digest_size


class ContentSigner:
    """Signs content and reads it back. `key` is a secret of the service; `version` is the first byte of signed content."""

    def __init__(self, key: bytes, version: bytes) -> None:
        self._key = key
        self._version = version

    def sign(self, content: Mapping[str, Any]) -> bytes:
        """Returns the signed bytes of the content."""
        data = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)
        return self._version + self._digest(data) + data

    def read(self, signed: bytes) -> Mapping[str, Any] | None:
        """Returns the content; None for bytes that were not signed with this key and version."""
        version, digest, data = signed[:1], signed[1 : 1 + _DIGEST_BYTES], signed[1 + _DIGEST_BYTES :]
        if version != self._version or not hmac.compare_digest(digest, self._digest(data)):
            return None
        content: Mapping[str, Any] = json.loads(zlib.decompress(data))
        return content

    def _digest(self, data: bytes) -> bytes:
        return hmac.digest(self._key, self._version + data, "sha256")
