"""A real PostgreSQL for a test: a folder, a port and processes of its own, stopped by its process id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from tiering.cli.fluss_server.held_ports import HeldPort

DEBIAN = Path("/usr/lib/postgresql")
USER, PASSWORD, DATABASE = "iceberg", "p@ss/word", "iceberg"


@dataclass
class PostgresqlServer:
    """A server on `folder` and `port`, which may be stopped and started again. Its log is in `folder`."""

    folder: Path
    port: int
    prefix: list[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL for `--state`, including the password."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        """Waits until it answers. Raises RuntimeError if it does not start."""
        log = self.folder / "postgresql.log"
        settings = ["-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}"]
        command = [*self.prefix, _program("postgres"), "-D", str(self.folder / "data"), *settings, "-c", "fsync=off"]
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self.folder)
        _wait(self.process, self.port, log)

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"state_{uuid4().hex}"
        create = [_program("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, name]
        subprocess.run(create, check=True, capture_output=True, env={**os.environ, "PGPASSWORD": PASSWORD})
        return self.url.removesuffix(DATABASE) + name

    def stop(self, *, immediate: bool = False) -> None:
        """Ends every session at once; harmless to repeat. `immediate`: without a last word, as `pg_ctl stop -m immediate`."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)  # the latter is its fast shutdown
            self.process.wait(60)
            self.process = None


@contextmanager
def postgresql_server(folder: Path) -> Iterator[PostgresqlServer]:
    """Serves on 127.0.0.1 while the context is open, with a database and a user with a password.

    Raises RuntimeError where PostgreSQL is not installed, or does not start (its log is in `folder`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    prefix = _as_its_user(folder)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)  # also where the process makes its files private
    data = ["-D", str(folder / "data"), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-N"]
    subprocess.run([*prefix, _program("initdb"), *data], check=True, capture_output=True, cwd=folder)
    held_port = HeldPort()
    server = PostgresqlServer(folder, held_port.number, prefix)
    try:
        server.start()
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        create = [_program("createdb"), "-h", "127.0.0.1", "-p", str(server.port), "-U", USER, DATABASE]
        subprocess.run(create, check=True, capture_output=True, env=environment)
        yield server
    finally:
        server.stop()
        held_port.close()


@contextmanager
def running_postgresql(folder: Path) -> Iterator[int]:
    """The port of a `postgresql_server`."""
    with postgresql_server(folder) as server:
        yield server.port


def _as_its_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root: then it runs as the user that its package made, who is given the folder."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    for above in folder.parents:
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o001)
    return [shutil.which("setpriv") or "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _program(name: str) -> str:
    installed = sorted(DEBIAN.glob(f"*/bin/{name}"))
    program = str(installed[-1]) if installed else shutil.which(name)
    if program is None:
        raise RuntimeError(f"{name} was not found: install PostgreSQL (Debian: postgresql)")
    return program


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ready = [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port), "-t", "60"]
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {log.read_text()[-2_000:]}")
