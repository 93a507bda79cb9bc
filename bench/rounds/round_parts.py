"""Where a round's time and memory go: its steps from the tierer's log, its work without Spark, its processes' peak memory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tiering.cluster.base import SplitSource
from tiering.lake.base import Committable, Lake, WriterInitContext
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import TablePath, TableType
from tiering.round.ports import SplitTask
from tiering.round.tasks.split_work import run_split

_STEP = re.compile(r"^(?P<time>\S+Z) .*round (started|step.* action=(?P<action>\w+)) ")
LOG_LINE_SECONDS = 0.002
"""How exact a difference of two log lines is, with the time that writing them takes."""
STARTED = "started"
"""The tierer has its assignment."""
COMMIT_STEPS = ("BeginCommit", "CommitLake", "ReadLake", "Ack")


def step_seconds(log: Path, since: float) -> dict[str, float]:
    """Seconds of the newest round's steps by action, from the lines of a debug log that are later than `since` (wall time)."""
    return durations([(action, at) for action, at in timeline(log, since) if action != STARTED], until="Ack")


def timeline(log: Path, since: float) -> list[tuple[str, float]]:
    """The start of the newest round and its steps by action, with the wall times when they were over, from `since` on."""
    ansi = re.compile(r"\x1b\[[0-9;]*m")
    lines = [match for line in log.read_text(errors="replace").splitlines() if (match := _STEP.match(ansi.sub("", line)))]
    times = [(match["action"] or STARTED, datetime.fromisoformat(match["time"]).timestamp()) for match in lines]
    return [(action, at) for action, at in times if at >= since]


def durations(times: Sequence[tuple[str, float]], until: str) -> dict[str, float]:
    """Seconds by action, up to and with the first one of that name."""
    seconds: dict[str, float] = {}
    for (_, before), (action, at) in pairwise(times):
        seconds[action] = seconds.get(action, 0.0) + at - before
        if action == until:
            break
    return seconds


def parts_of_work(step: float, read: float, whole: float, cores: int) -> dict[str, float]:
    """Wall seconds of the step with a round's splits: `read`, `write`, and `spark`, what the step took beyond them.

    `read` and `whole` (reading and writing) are core seconds of the same work done alone, which take their share of the wall time on all
    cores. The work never counts for more than the step took: alone it may take longer, on a machine that other work slows down. Nor does
    reading count for more than both: they are measured one after the other, and a tiny run has little to write.
    """
    read = min(read, whole)
    alone = whole / cores
    share = 1.0 if alone <= step else step / alone
    return {"read": share * read / cores, "write": share * (whole - read) / cores, "spark": step - share * alone}


def rest_of(total: float, parts: Mapping[str, float]) -> float:
    """Seconds of `total` beyond its parts. Log lines have milliseconds, so parts may seem to take a little longer than the total."""
    rest = total - sum(parts.values())
    return 0.0 if -LOG_LINE_SECONDS * len(parts) <= rest < 0 else rest


def work_seconds(cluster: SplitSource, path: TablePath, scratch: Path) -> tuple[float, float]:
    """Core seconds of all splits in one process, without Spark: (reading alone, reading and writing)."""
    (scratch / "lake").mkdir(parents=True)
    return work_ahead(cluster, path, open_lake(cluster.table(path).lake_format, local_lake_properties(scratch)), scratch)


def work_ahead(cluster: SplitSource, path: TablePath, lake: Lake, scratch: Path) -> tuple[float, float]:
    """Returns the same seconds as `work_seconds` for the next round of `lake`. A missing lake table is created in `scratch`."""
    table, view = cluster.table(path), lake.view(path)
    if view is None:
        (scratch / "lake").mkdir(parents=True, exist_ok=True)
        lake = open_lake(table.lake_format, local_lake_properties(scratch))
        view = lake.ensure_table(table)
    factory, results = lake.tiering_factory(table), []
    offsets = cluster.offsets(table)
    bases = {} if table.table_type is TableType.LOG else lake.bucket_files(table, view, dict.fromkeys(offsets))
    tiered = {} if view.marker is None else {bucket: known.tiered for bucket, known in view.marker.buckets.items()}
    read = whole = 0.0
    for bucket, log in offsets.items():
        split = TieringLogSplit(path, bucket, None, tiered.get(bucket, log.log_start), log.log_end, log.log_end)
        reader = cluster.reader(table, split)
        start = time.perf_counter()
        for _ in reader.read():
            pass
        read += time.perf_counter() - start
        start = time.perf_counter()
        context = WriterInitContext(table, view.table_uuid, bucket, None, "bench", "", bases.get(bucket, b""))
        outcome = run_split(SplitTask(reader, split, factory, context), lambda: False)
        whole += time.perf_counter() - start
        if outcome.error is not None or outcome.result is None:
            raise outcome.error or SystemExit(f"{split} was not read")
        results.append(outcome.result)
    factory.create_committer().abort(Committable("bench", tuple(results)))
    return read, whole


def peak_memory_mb(root_pid: int) -> dict[str, float]:
    """Peak resident memory (VmHWM) below a process: of the tierer, its JVM, and the largest Python worker."""
    processes = processes_of(root_pid)
    return {kind: round(max(map(peak_mb, processes[kind]), default=0.0)) for kind in ("tierer", "jvm", "worker")}


def processes_of(root_pid: int) -> dict[str, list[int]]:
    """A service and what it started: its coordinator, tierer, the tierer's JVM, and Python workers with their daemon."""
    words = {"/java ": "jvm", "worker_daemon": "worker", " tierer ": "tierer"}
    processes: dict[str, list[int]] = {"coordinator": [], "tierer": [], "jvm": [], "worker": []}
    for pid in (root_pid, *_descendants(root_pid)):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        kind = next((kind for word, kind in words.items() if word in command), "coordinator")
        processes[kind].append(pid)
    return processes


def peak_mb(pid: int) -> float:
    return _status_kb(pid, "VmHWM") / 1_024


def cpu_seconds(pid: int) -> float:
    """Used so far by a process and by those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _descendants(root: int) -> list[int]:
    parents = {int(path.name): _status_kb(int(path.name), "PPid") for path in Path("/proc").iterdir() if path.name.isdigit()}
    descendants, parents_wanted = [], {root}
    while parents_wanted:
        parents_wanted = {pid for pid, parent in parents.items() if parent in parents_wanted}
        descendants += sorted(parents_wanted)
    return descendants


def _status_kb(pid: int, field: str) -> int:
    """A number of /proc/PID/status; 0 if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    match = re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else 0
