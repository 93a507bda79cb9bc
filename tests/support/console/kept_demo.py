"""`make demo KEEP=1` as a user does it: runs the demo, opens the console at the printed address, and stops the service as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from urllib.error import URLError
from urllib.request import urlopen


def main() -> int:
    """Prints the output of the demo, then a line about the console, and a line about its end. Returns the status of the process."""
    demo = subprocess.run(["lakeward", "demo", "--keep"], stdout=subprocess.PIPE, text=True, check=False)
    print(demo.stdout, flush=True)
    [folder] = re.findall(r"lakeward down --data (\S+)", demo.stdout)
    [address] = re.findall(r"The console is at (\S+):", demo.stdout)
    [uri] = set(re.findall(r"lakeward console --uri (\S+)", demo.stdout))
    try:
        link = subprocess.run(
            ["lakeward", "console", "--uri", uri, "--print"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.strip()
        titles = [re.findall("<h1>(.*?)</h1>", urlopen(page, timeout=60).read().decode()) for page in (address, link)]
        print(f"kept: {titles}, {link.startswith(address)}", flush=True)
    finally:
        subprocess.run(["lakeward", "down", "--data", folder], check=True)
    try:
        urlopen(address, timeout=60)
    except URLError:
        print("stopped")
    return demo.returncode


if __name__ == "__main__":
    sys.exit(main())
