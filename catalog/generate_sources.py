"""Generates the plugin's gRPC classes. Run by Maven: `generate_sources.py PROTO TOOLS TARGET`.

TOOLS has protoc and its gRPC plugin for Java; Maven has checked both by then.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = (
    "sys_tables/rpc/v1/sys_catalog.proto",
    "tiering/rpc/v1/common.proto",
    "tiering/rpc/v1/control.proto",
    "tiering/rpc/v1/definitions.proto",
    "tiering/rpc/v1/reads.proto",
    "tiering/rpc/v1/writes.proto",
)


def generate(proto: Path, tools: Path, target: Path) -> int:
    """Replaces what is in `target`; returns protoc's exit status."""
    protoc, plugin = tools / "protoc.exe", tools / "protoc-gen-grpc-java.exe"
    for tool in (protoc, plugin):
        tool.chmod(0o755)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    outputs = [f"--java_out={target}", f"--grpc-java_out=@generated=omit:{target}"]
    command = [str(protoc), f"-I{proto}", f"--plugin=protoc-gen-grpc-java={plugin}", *outputs, *SOURCES]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    proto_folder, tools_folder, target_folder = map(Path, sys.argv[1:])
    sys.exit(generate(proto_folder.resolve(), tools_folder, target_folder))
