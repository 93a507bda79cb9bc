"""Small objects of an S3 store, by requests through boto3: what metadata is made of, on the driver alone.

Reads and hints are requested again after an error of the store or the network, a bounded number of times. What creates an object is
requested once: its client's own repetitions are off, so that no answer can be that to a second request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from threading import Lock
from typing import Any

from tiering.lake.catalog_timeouts import S3_CONNECT, S3_REQUEST
from tiering.lake.outside_errors import describe

READ_ATTEMPTS = 3
"""As many as PyArrow's client makes."""
CONNECTIONS = 32
"""That are kept open: rounds of many tables look at their lake tables at once."""
REMEMBERED = 20_000
"""Contents of objects that never change, by their entity tags."""
NOT_FOUND, EXISTS = 404, 412
NEVER_DONE = (405, 501)
"""Statuses of a store that does not know a request's condition."""


class StoreError(OSError):
    """The store answered an error, or nothing. `status`: that of the answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class S3Objects:
    """One store, by the properties of a lake's storage."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._lock = Lock()
        self._known: dict[tuple[str, str, str], bytes] = {}

    @property
    def name(self) -> str:
        """What to call the store."""
        return self._properties.get("s3.endpoint", "Amazon S3")

    def etags(self, bucket: str, prefix: str) -> dict[str, str]:
        """Entity tags of the objects right below `prefix`, which ends in `/`, by the rest of their names; "" where the store tells none."""
        tags: dict[str, str] = {}
        with store_errors("list", bucket, prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            for page in pages:
                tags |= {entry["Key"][len(prefix) :]: entry.get("ETag", "") for entry in page.get("Contents", ())}
        tags.pop("", None)  # what stands for the folder itself
        return tags

    def etag(self, bucket: str, key: str) -> str | None:
        """None if there is no such object. Raises StoreError, too, if the store tells none, as of an object that is being written."""
        try:
            with store_errors("look at", bucket, key):
                etag = self._client.head_object(Bucket=bucket, Key=key).get("ETag")
        except FileNotFoundError:
            return None
        if not etag:
            raise StoreError(f"cannot look at s3://{bucket}/{key}: the store tells no entity tag of it")
        return str(etag)

    def read(self, bucket: str, key: str) -> bytes | None:
        """An object's content; None if there is no such object."""
        try:
            with store_errors("read", bucket, key):
                return bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except FileNotFoundError:
            return None

    def read_known(self, bucket: str, key: str, etag: str) -> bytes | None:
        """The content of an object that never changes, from memory if it was read before."""
        with self._lock:
            known = self._known.get((bucket, key, etag))
        if known is not None:
            return known
        content = self.read(bucket, key)
        if content is not None:
            with self._lock:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[bucket, key, etag] = content
        return content

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """In the place of one of that name, if there is one."""
        with store_errors("write", bucket, key):
            self._client.put_object(Bucket=bucket, Key=key, Body=content)

    def create(self, bucket: str, key: str, content: bytes) -> None:
        """Requests once that the object be made. Raises FileExistsError if the store says that there is one."""
        with store_errors("create", bucket, key):
            self._client_that_sends_once.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object. The store answers the same if there is none."""
        with store_errors("delete", bucket, key):
            self._client.delete_object(Bucket=bucket, Key=key)

    @cached_property
    def _client(self) -> Any:
        return s3_client(self._properties, READ_ATTEMPTS)

    @cached_property
    def _client_that_sends_once(self) -> Any:
        return s3_client(self._properties, 1)


def s3_client(properties: Mapping[str, str], attempts: int) -> Any:
    """boto3's client, with the endpoint, keys and time-outs that PyArrow gets of the same properties."""
    import boto3  # executors have none
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
        # Checksums that not every store knows are left out, as PyArrow leaves them out.
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
    """`s3.<name>`, or else `client.<name>`, as pyiceberg takes them."""
    return properties.get(f"s3.{name}") or properties.get(f"client.{name}") or None


@contextmanager
def store_errors(action: str, bucket: str, key: str) -> Iterator[None]:
    """Raises FileNotFoundError, FileExistsError, or another OSError for what boto3 raises inside, without keys and signatures."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    where = f"{action} s3://{bucket}/{key}"
    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if status == NOT_FOUND:
            raise FileNotFoundError(f"cannot {where}: there is none") from error
        if status == EXISTS:
            raise FileExistsError(f"cannot {where}: it is there already") from error
        raise StoreError(f"cannot {where}: {describe(error)}", status) from error
    except (BotoCoreError, HTTPClientError) as error:
        raise StoreError(f"cannot {where}: {describe(error)}") from error
