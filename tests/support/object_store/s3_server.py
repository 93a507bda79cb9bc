"""An S3 server of the tests whose conditional PUT is atomic: s3proxy over a folder, which a killed process leaves as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from pyarrow import fs

from support.object_store.jars import class_path
from support.running.processes import wait_for
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.java_process import JavaProcess

REGION = "us-east-1"
BUCKET = "lake-bucket"
_LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""
"""Else it logs every request, at DEBUG."""


@dataclass(frozen=True)
class S3Server:
    """One that runs. `endpoint`: `http://HOST:PORT`; its keys were made for it."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)

    @property
    def place(self) -> dict[str, str]:
        """The properties of a lake there that are no secrets."""
        return {"s3.endpoint": self.endpoint, "s3.region": REGION, "s3.path-style-access": "true"}

    @property
    def keys(self) -> dict[str, str]:
        """Valid keys."""
        return {"s3.access-key-id": self.access_key, "s3.secret-access-key": self.secret_key}

    def file_system(self) -> fs.S3FileSystem:
        """File system for the test's own look at the store."""
        return fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            region=REGION,
            endpoint_override=self.endpoint.removeprefix("http://"),
            scheme="http",
            allow_bucket_creation=True,
        )

    def files(self, folder: str) -> list[str]:
        """Returns the files below a folder of the bucket."""
        infos = self.file_system().get_file_info(fs.FileSelector(f"{BUCKET}/{folder}", recursive=True, allow_not_found=True))
        return sorted(info.path for info in infos if info.type is fs.FileType.File)


@contextmanager
def s3proxy(folder: Path) -> Iterator[S3Server]:
    """Runs an S3 server that has BUCKET and keeps its files in `folder`, and stops it by its process id."""
    held_port = HeldPort()
    server = S3Server(f"http://{held_port.address}", f"id{token_hex(8)}", token_hex(20))
    store, properties, logback = folder / "store", folder / "s3proxy.properties", folder / "logback.xml"
    store.mkdir()
    logback.write_text(_LOGBACK)
    settings = {
        "s3proxy.endpoint": server.endpoint,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": server.access_key,
        "s3proxy.credential": server.secret_key,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(store),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    options = {"JDK_JAVA_OPTIONS": f"-Dlogback.configurationFile={logback}"}
    process = JavaProcess(
        class_path("s3proxy"), "org.gaul.s3proxy.Main", ("--properties", str(properties)), folder / "s3proxy.log", "256m", options
    )
    process.start()
    try:
        wait_for("the S3 server", lambda: _has_bucket(process, server))
        yield server
    finally:
        process.stop()
        held_port.close()


def _has_bucket(process: JavaProcess, server: S3Server) -> bool:
    process.check_running()
    try:
        server.file_system().create_dir(BUCKET)
    except OSError:
        return False
    return True
