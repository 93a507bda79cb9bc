"""How long the redactor takes for the worst text that a fuzzer finds: the beginnings of its patterns, repeated and mixed.

    PYTHONPATH=bench .venv/bin/python bench/redaction/redactor.py [--texts 400] [--seed 1] [--characters 1000000]

Prints the slowest texts; the last line is one JSON object. A time is the processor's, so that a busy machine does not show.
"""

from __future__ import annotations

import argparse
import random
import time

from running.figures import finish, parse

from tiering.redaction.redact import outside_text, redact

WORDS = (
    *("password", "pwd", "secret", "token", "access_key", "access key", "authorization", "cookie", "key", "pass", "auth", "value"),
    *("eyJ", "AKIA", "sk-", "ghp_", "basic ", "bearer ", "mysql ", "curl -u ", "login ", "jdbc:oracle:a:", "private-lines:", "begin"),
)
SIGNS = (
    *("=", ":", " ", ",", "'", '"', "\\", "=>", "%3D", "<", ">", "</", "&", "?", "@", "://", "-----BEGIN ", "-----", "\n", "\n ", "[", "{"),
    *("(", "--", ";", ".", "a", "1", "\u200b", "\u0430", "&quot;", "\\u0022", "\\n", "%25", "==", "_", "|", "- ", "@tcp(", "x-amz-"),
    "sig=",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--characters", type=int, default=1_000_000)
    options = parse(parser, texts=80, characters=2_000)
    choose = random.Random(options.seed)
    units = {*WORDS, *SIGNS}
    while len(units) < options.texts:
        units.add("".join(choose.choices((*WORDS, *SIGNS), k=choose.randint(2, 6))))
    timed = sorted(((_seconds(unit, options.characters), unit) for unit in sorted(units)), reverse=True)
    slowest, unit = timed[0]
    begun = time.process_time()
    outside_text(unit * (options.characters // len(unit)))
    message = time.process_time() - begun
    figures = {"texts": len(units), "characters": options.characters, "slowest_s": round(slowest, 3), "message_s": round(message, 5)}
    finish({"bench": "redactor", **figures}, lambda: show(timed))


def show(timed: list[tuple[float, str]]) -> None:
    """The slowest texts."""
    for seconds, unit in timed[:10]:
        print(f"{seconds:7.3f} s  {unit!r}")


def _seconds(unit: str, characters: int) -> float:
    text = unit * (characters // len(unit))
    begun = time.process_time()
    redact(text)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
