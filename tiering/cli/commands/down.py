"""`lakeward down`: stops the service that runs on a data folder."""

from __future__ import annotations

from pathlib import Path

from tiering.cli.terminal.options import DataOption


def down(data: DataOption = Path("lakeward-data")) -> None:
    """Stop the service on a data folder of this machine, as Ctrl-C does, and wait until it has ended.

    Example: lakeward down --data ./lakeward-data
    """
    from tiering.cli.processes.data_folder import read_data_folder
    from tiering.cli.processes.detached import stop_service

    folder = read_data_folder(data)
    process = stop_service(folder)
    print(f"no service runs on {folder.root}" if process is None else f"the service on {folder.root} (process {process}) has ended")
