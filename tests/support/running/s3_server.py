"""An S3 server for tests: moto's, a process of its own that forgets everything at its end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from support.running.processes import wait_for
from tiering.cli.fluss_server.held_ports import LOOPBACK, HeldPort

ACCESS_KEY, SECRET_KEY, REGION = "fluss", "Zt4-of-tests", "us-east-1"


@contextmanager
def s3_server(log: Path, bucket: str) -> Iterator[str]:
    """Yields the endpoint, `http://HOST:PORT`, of a server with the bucket, and stops it afterwards."""
    held_port = HeldPort()
    port = held_port.number
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(f"an S3 server, see {log}", lambda: _has_bucket(port, bucket))
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.wait(20)
        held_port.close()


def s3_file_system(endpoint: str) -> fs.S3FileSystem:
    """Returns a file system for the test's own look at the store."""
    return fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        allow_bucket_creation=True,
    )


def _has_bucket(port: int, bucket: str) -> bool:
    try:
        s3_file_system(f"http://{LOOPBACK}:{port}").create_dir(bucket)
    except OSError:
        return False
    return True
