"""A real PostgreSQL for a test: a folder, a port and processes of its own, stopped by its process id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEBIAN = Path("/usr/lib/postgresql")
USER, PASSWORD, DATABASE = "iceberg", "p@ss/word", "iceberg"


@contextmanager
def running_postgresql(folder: Path) -> Iterator[int]:
    """Serves on 127.0.0.1 while the context is open, with a database and a user with a password; the port.

    Raises RuntimeError where PostgreSQL is not installed, or does not start (its log is in `folder`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    prefix = _as_its_user(folder)
    data, log = folder / "data", folder / "postgresql.log"
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)  # also where the process makes its files private
    initdb = [*prefix, _program("initdb"), "-D", str(data), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-N"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder)
    port = _free_port()
    settings = ["-c", f"port={port}", "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
    with log.open("wb") as output:
        server = subprocess.Popen([*prefix, _program("postgres"), "-D", str(data), *settings], stdout=output, stderr=output, cwd=folder)
    try:
        _wait(server, port, log)
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        create = [_program("createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", USER, DATABASE]
        subprocess.run(create, check=True, capture_output=True, env=environment)
        yield port
    finally:
        server.send_signal(signal.SIGINT)  # its fast shutdown
        server.wait(60)


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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ready = [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port), "-t", "60"]
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {log.read_text()[-2_000:]}")
