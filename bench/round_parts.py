"""Where a round's time and memory go: its steps from the tierer's log, its work without Spark, its processes' peak memory."""

from __future__ import annotations

import re
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tiering.cluster.base import SplitSource
from tiering.lake.base import WriterInitContext
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import TablePath
from tiering.round.ports import SplitTask
from tiering.round.tasks.split_work import run_split

_STEP = re.compile(r"^(?P<time>\S+Z) .*round step.* action=(?P<action>\w+) ")
COMMIT_STEPS = ("BeginCommit", "CommitLake", "ReadLake", "Ack")


def step_seconds(log: Path, since: float) -> dict[str, float]:
    """Seconds of the newest round's steps by action, from the lines of a debug log that are later than `since` (wall time)."""
    ansi = re.compile(r"\x1b\[[0-9;]*m")
    steps = [match for line in log.read_text(errors="replace").splitlines() if (match := _STEP.match(ansi.sub("", line)))]
    times = [(match["action"], datetime.fromisoformat(match["time"]).timestamp()) for match in steps]
    times = [(action, at) for action, at in times if at >= since]
    seconds: dict[str, float] = {}
    for (_, before), (action, at) in pairwise(times):
        seconds[action] = seconds.get(action, 0.0) + at - before
        if action == "Ack":
            break
    return seconds


def work_seconds(cluster: SplitSource, path: TablePath, scratch: Path) -> tuple[float, float]:
    """Core seconds of all splits in one process, without Spark: (reading alone, reading and writing)."""
    table = cluster.table(path)
    (scratch / "lake").mkdir(parents=True)
    lake = open_lake("iceberg", local_lake_properties(scratch))
    view = lake.ensure_table(table)
    factory = lake.tiering_factory(table)
    read = whole = 0.0
    for bucket, log in cluster.offsets(table).items():
        split = TieringLogSplit(path, bucket, None, log.log_start, log.log_end, log.log_end)
        reader = cluster.reader(table, split)
        start = time.perf_counter()
        for _ in reader.read():
            pass
        read += time.perf_counter() - start
        start = time.perf_counter()
        context = WriterInitContext(table, view.table_uuid, bucket, None, "bench", "")
        outcome = run_split(SplitTask(reader, split, factory, context), lambda: False)
        whole += time.perf_counter() - start
        if outcome.error is not None:
            raise outcome.error
    return read, whole


def peak_memory_mb(root_pid: int) -> dict[str, float]:
    """Peak resident memory (VmHWM) below a process: of the tierer, its JVM, and the largest Python worker."""
    peaks = {"tierer": 0.0, "jvm": 0.0, "worker": 0.0}
    for pid in _descendants(root_pid):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        kind = "jvm" if "/java " in command else "worker" if "worker_daemon" in command else "tierer" if " tierer " in command else None
        if kind is not None:
            peaks[kind] = max(peaks[kind], _status_kb(pid, "VmHWM") / 1_024)
    return {name: round(peak) for name, peak in peaks.items()}


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
