"""Runs `lakeward up`: coordinator and embedded cluster in this process, and a tierer as a child process, on one data folder."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import structlog

from tiering.child_process import module_command
from tiering.cli.processes.coordinator import RunningCoordinator, announce, running_coordinator, stop_signal
from tiering.cli.processes.detached import UP_LOG
from tiering.cli.processes.service_access import check_tierer_access, tierer_access, tierer_uri
from tiering.cli.spark.java import require_java
from tiering.cli.terminal.options import TiererOptions
from tiering.cli.terminal.service_options import ServiceOptions
from tiering.errors import SetupError
from tiering.files.rotated_log import MOST_BYTES, rotate
from tiering.lake.catalog_properties import lake_environment

log = structlog.get_logger(__name__)

READY_SECONDS = 120
"""A tierer that is not ready after this time is restarted. Each restart doubles the time, because the machine may be slow."""
TIERER_END_SECONDS = 11
"""A tierer ends within ten seconds of a SIGTERM."""
RESTART_SECONDS = (1, 2, 5, 10, 30)
"""Wait before a restart of the tierer, by the number of its deaths in a row."""
LOG_SECONDS = 30
"""Time between two checks of the size of the tierer's log."""
TIERER_LOG = "tierer.log"
LASTED_SECONDS = 60
"""After a run of this length, the count of deaths in a row starts again."""


@dataclass(frozen=True)
class UpSettings:
    """The options of `lakeward up`."""

    service: ServiceOptions
    tierer: TiererOptions
    tierer_metrics_port: int | None = None


async def serve_up(settings: UpSettings) -> None:
    """Runs until SIGTERM or SIGINT, also while no tierer starts. Prints the ready line when all parts are ready. Raises SetupError."""
    _check_ports(settings)
    check_tierer_access(settings.service.access, settings.service.host)
    require_java()
    stopping = stop_signal()
    async with running_coordinator(settings.service, stopping) as running:
        if running is not None:
            await _serve(settings, running, stopping)
    log.info("lakeward stopped")


def _check_ports(settings: UpSettings) -> None:
    """Raises SetupError if both processes would use the same port: the tierer would fail at every start."""
    port = settings.tierer_metrics_port
    if port and port in (settings.service.metrics.port, settings.service.port):
        raise SetupError(
            f"port {port} is used twice: as --tierer-metrics-port, and as another port of this service",
            hint="Choose different ports; 0 picks a free port.",
        )


async def _serve(settings: UpSettings, running: RunningCoordinator, stopping: asyncio.Event) -> None:
    keeper = asyncio.create_task(_keep_tierer(settings, running))
    rotations = [asyncio.create_task(keep_log_small(_data(settings) / "logs" / name)) for name in (TIERER_LOG, UP_LOG)]
    announcing = asyncio.create_task(_announce_when_ready(running))
    serving = asyncio.create_task(running.wait(stopping))
    try:
        pending: set[asyncio.Task[None]] = {keeper, announcing, serving}
        while not serving.done():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        tasks = (keeper, *rotations, announcing, serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _announce_when_ready(running: RunningCoordinator) -> None:
    await _tierer_connected(running)
    announce(running.uri)


async def _tierer_connected(running: RunningCoordinator) -> None:
    while not running.tierer_connected():
        await asyncio.sleep(0.1)


async def keep_log_small(file: Path, most_bytes: int = MOST_BYTES, every_seconds: float = LOG_SECONDS) -> None:
    """Rotates a log whenever it is larger than `most_bytes`, until the task is cancelled. The log may be missing."""
    while True:
        await asyncio.sleep(every_seconds)
        try:
            await asyncio.to_thread(rotate, file, most_bytes)
        except OSError as error:
            log.warning("a log could not be rotated", file=str(file), error=str(error))


async def _keep_tierer(settings: UpSettings, running: RunningCoordinator) -> None:
    """Runs the tierer, and restarts it when it dies or does not become ready. Ends it when this task is cancelled."""
    deaths, patience = 0, float(READY_SECONDS)
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        status = await _tierer_status(settings, running, patience)
        patience *= 2
        deaths = deaths_in_a_row(deaths, loop.time() - started)
        pause = restart_pause(deaths)
        log.warning("the tierer ended; starting it again", status=status, in_seconds=pause, log=str(_log_file(settings)))
        await asyncio.sleep(pause)


def deaths_in_a_row(before: int, lasted_seconds: float) -> int:
    """Returns the number of deaths in a row, with the death of a tierer that ran for `lasted_seconds`."""
    return 1 if lasted_seconds > LASTED_SECONDS else before + 1


def restart_pause(deaths: int) -> int:
    """Returns the seconds until the restart of a tierer after this many deaths in a row."""
    return RESTART_SECONDS[min(deaths, len(RESTART_SECONDS)) - 1]


async def _tierer_status(settings: UpSettings, running: RunningCoordinator, patience: float) -> int | str:
    """Runs the tierer once. Returns its exit status, or the reason why it did not start or was ended."""
    try:
        process = await _start_tierer(settings, running.uri)
    except OSError as error:
        return f"not started: {error}"
    ended, connected = asyncio.create_task(process.wait()), asyncio.create_task(_tierer_connected(running))
    try:
        done, _ = await asyncio.wait({ended, connected}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            await _end(process)
            return f"not ready within {patience:g} s"
        return await ended
    except asyncio.CancelledError:
        await _end(process)
        raise
    finally:
        for task in (ended, connected):
            task.cancel()


async def _start_tierer(settings: UpSettings, uri: str) -> asyncio.subprocess.Process:
    service, tierer = settings.service, settings.tierer
    command = module_command("tiering.cli.main", "tierer", "--uri", tierer_uri(service.access, uri), "--master", tierer.master)
    command += ["--slots", str(tierer.slots), "--log-level", service.log_level, "--log-format", service.log_format.value]
    command += ["--stalled-after", tierer.stalled_after, "--parent-pid", str(os.getpid())]
    if settings.tierer_metrics_port is not None:
        command += ["--metrics-port", str(settings.tierer_metrics_port), "--metrics-host", service.metrics.host]
        command += ["--insecure"] if service.access.insecure else []
    for pair in tierer.conf or ():
        command += ["--conf", pair]
    environment = {
        **os.environ,
        **lake_environment(service.coordinator.lake_properties),
        **tierer_access(service.access, _data(settings)),
    }
    with _log_file(settings).open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends the process with SIGTERM, then the whole process group, which includes Spark's JVM, with SIGKILL."""
    for number, patience in ((signal.SIGTERM, TIERER_END_SECONDS), (signal.SIGKILL, 5)):
        if process.returncode is not None:
            return
        if number == signal.SIGTERM:
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            log.warning("the tierer did not end in time", pid=process.pid)


def _log_file(settings: UpSettings) -> Path:
    return _data(settings) / "logs" / TIERER_LOG


def _data(settings: UpSettings) -> Path:
    return settings.service.data.expanduser().resolve()
