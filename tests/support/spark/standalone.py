"""A Spark standalone cluster on loopback: a master and two workers, each with a folder and an environment of its own."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from support.running.processes import Process, wait_for
from support.running.sessions import processes_of
from support.spark.class_archive import jvm_options
from tiering.cli.fluss_server.held_ports import LOOPBACK
from tiering.cli.spark.java import require_java

SPARK_HOME = Path(pyspark.__file__).parent
BASE_PYTHON = str(Path(sys._base_executable))  # type: ignore[attr-defined]
"""A Python that has none of this environment's packages."""
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Worker:
    """One worker's daemon; its executors are in its session."""

    process: Process
    folder: Path

    def processes(self, holding: str) -> dict[int, str]:
        """Pid -> state letter of those in its session whose command line holds a text."""
        return processes_of(self.process.popen.pid, holding)

    def stopped(self) -> list[int]:
        """Python workers that stopped themselves at a crash point."""
        return [pid for pid, state in self.processes("python").items() if state == "T"]

    def kill(self) -> None:
        """A machine that loses power: SIGKILL for all that runs there."""
        for pid in self.processes(""):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class StandaloneCluster:
    """`uri`: the master's."""

    uri: str
    workers: list[Worker] = field(default_factory=list)

    def stopped(self) -> list[int]:
        """Python workers of all that stopped themselves at a crash point."""
        return [pid for worker in self.workers for pid in worker.stopped()]


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[StandaloneCluster]:
    """Each worker has one core. All processes are ended by their ids."""
    # Nothing of this process's environment: no PYTHONPATH, no virtual environment, no keys.
    environment = {"PATH": "/usr/bin:/bin", "SPARK_HOME": str(SPARK_HOME), "JAVA_HOME": str(require_java().parent.parent)}
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": LOOPBACK}
    environment["SPARK_DAEMON_JAVA_OPTS"] = jvm_options()
    program = ("/usr/bin/env", "-i", *(f"{name}={value}" for name, value in environment.items()), str(SPARK_HOME / "bin" / "spark-class"))
    at = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")  # each says which port it took
    master = Process("org.apache.spark.deploy.master.Master", *at, log=folder / "master.log", program=program, cwd=folder)
    workers_started: list[Worker] = []
    try:
        wait_for("the Spark master", lambda: "New state: ALIVE" in master.output())
        at_master = re.search(r"Starting Spark master at (spark://\S+)", master.output())
        assert at_master is not None, master.output()
        cluster = StandaloneCluster(at_master[1], workers_started)
        for number in range(workers):
            own = folder / f"worker-{number}"
            own.mkdir()
            at = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g")
            words = ("org.apache.spark.deploy.worker.Worker", *at, "--work-dir", str(own / "work"), cluster.uri)
            workers_started.append(Worker(Process(*words, log=own / "worker.log", program=program, cwd=own), own))
        for worker in workers_started:
            wait_for("a Spark worker", lambda worker=worker: "Successfully registered with master" in worker.process.output())  # type: ignore[misc]
        yield cluster
    finally:
        for worker in workers_started:
            worker.process.close()
        master.close()
