"""Small objects of an S3 store, which hold metadata, through boto3 and on the driver only.

Reads and writes of hints are repeated after an error of the store or the network, a bounded number of times. The creation of an object is
requested once: the client's retries are off, so that an answer is never the answer to a second request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any

from tiering.lake.catalog_timeouts import S3_CONNECT, S3_REQUEST
from tiering.lake.outside_errors import describe

READ_ATTEMPTS = 3
"""Number of attempts, as in PyArrow's client."""
CONNECTIONS = 32
"""Maximum number of open connections: rounds of many tables read their lake tables concurrently."""
REMEMBERED = 20_000
"""Maximum number of cached contents of objects that never change, by entity tag."""
NOT_FOUND, EXISTS = 404, 412
NEVER_DONE = (405, 501)
"""Statuses of a store that does not support the condition of a request."""


class StoreError(OSError):
    """The store answered with an error, or did not answer. `status` is the status of the answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class S3Objects:
    """One store, accessed with the properties of a lake's storage."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._immutable = lru_cache(REMEMBERED)(lambda bucket, key, etag: self._read(bucket, key))

    @property
    def name(self) -> str:
        """Returns the name of the store for messages."""
        return self._properties.get("s3.endpoint", "Amazon S3")

    def etags(self, bucket: str, prefix: str) -> dict[str, str]:
        """Returns the entity tags of the objects directly below `prefix`, which ends in `/`, by the remainder of their names; "" if the
        store returns no tag.
        """
        tags: dict[str, str] = {}
        with store_errors("list", bucket, prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            for page in pages:
                tags |= {entry["Key"][len(prefix) :]: entry.get("ETag", "") for entry in page.get("Contents", ())}
        tags.pop("", None)  # the object that represents the folder itself
        return tags

    def etag(self, bucket: str, key: str) -> str | None:
        """Returns the entity tag of an object; None if it does not exist. Raises StoreError also if the store returns no tag, for example
        while the object is being written.
        """
        try:
            with store_errors("look at", bucket, key):
                etag = self._client.head_object(Bucket=bucket, Key=key).get("ETag")
        except FileNotFoundError:
            return None
        if not etag:
            raise StoreError(f"cannot look at s3://{bucket}/{key}: the store returned no entity tag for it")
        return str(etag)

    def read(self, bucket: str, key: str) -> bytes | None:
        """Returns an object's content; None if it does not exist."""
        try:
            return self._read(bucket, key)
        except FileNotFoundError:
            return None

    def read_immutable(self, bucket: str, key: str, etag: str) -> bytes | None:
        """Returns the content of an object that never changes, from memory if it was read before."""
        try:
            return self._immutable(bucket, key, etag)
        except FileNotFoundError:
            return None

    def _read(self, bucket: str, key: str) -> bytes:
        with store_errors("read", bucket, key):
            return bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Writes an object, and replaces one with that name."""
        with store_errors("write", bucket, key):
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def create(self, bucket: str, key: str, content: bytes) -> None:
        """Requests the creation of the object once. Raises FileExistsError if the store reports that it exists."""
        with store_errors("create", bucket, key):
            self._client_that_sends_once.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object. The store's answer is the same if it does not exist."""
        with store_errors("delete", bucket, key):
            self._client.delete_object(Bucket=bucket, Key=key)

    @cached_property
    def _client(self) -> Any:
        return s3_client(self._properties, READ_ATTEMPTS)

    @cached_property
    def _client_that_sends_once(self) -> Any:
        return s3_client(self._properties, 1)


def s3_client(properties: Mapping[str, str], attempts: int) -> Any:
    """Returns a boto3 client with the endpoint, keys and timeouts that PyArrow takes from the same properties."""
    import boto3  # executors do not have boto3
    from botocore.config import Config

    endpoint, proxy = properties.get("s3.endpoint"), properties.get("s3.proxy-uri")
    if endpoint and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    is_virtual = not endpoint or properties.get("s3.force-virtual-addressing", "").lower() in ("true", "1", "yes")
    config = Config(
        connect_timeout=float(properties.get(S3_CONNECT.name, S3_CONNECT.default)),
        read_timeout=float(properties.get(S3_REQUEST.name, S3_REQUEST.default)),
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        proxies={"http": proxy, "https": proxy} if proxy else None,
        s3={"addressing_style": "virtual" if is_virtual else "path"},
        # Optional checksums are off, as in PyArrow, because not every store supports them.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=_first(properties, "region"),
        aws_access_key_id=_first(properties, "access-key-id"),
        aws_secret_access_key=_first(properties, "secret-access-key"),
        aws_session_token=_first(properties, "session-token"),
        config=config,
    )


def _first(properties: Mapping[str, str], name: str) -> str | None:
    """Returns `s3.<name>`, or else `client.<name>`, as pyiceberg does."""
    return properties.get(f"s3.{name}") or properties.get(f"client.{name}") or None


@contextmanager
def store_errors(action: str, bucket: str, key: str) -> Iterator[None]:
    """Converts errors of boto3 to FileNotFoundError, FileExistsError or another OSError, without keys and signatures."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    where = f"{action} s3://{bucket}/{key}"
    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if status == NOT_FOUND:
            raise FileNotFoundError(f"cannot {where}: it does not exist") from error
        if status == EXISTS:
            raise FileExistsError(f"cannot {where}: it exists already") from error
        raise StoreError(f"cannot {where}: {describe(error)}", status) from error
    except (BotoCoreError, HTTPClientError) as error:
        raise StoreError(f"cannot {where}: {describe(error)}") from error
