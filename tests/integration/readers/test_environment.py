"""The environment of the other readers: the first test that needs it creates it."""

from __future__ import annotations

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.readers.environment import Environment
from tiering.errors import SetupError


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    (tmp_path / "requirements.lock").write_text("# of no package\n")
    return Environment(tmp_path / "readers", tmp_path / "requirements.lock")


def test_of_two_that_make_it_the_second_waits(environment: Environment) -> None:
    with ThreadPoolExecutor(2) as pool:
        with environment.requirements.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            both = [pool.submit(environment.make) for _ in range(2)]
            assert not environment.folder.exists()
        assert sorted(making.result() for making in both) == [False, True]
    assert environment.python.is_file()


def test_an_outdated_or_interrupted_one_is_made_anew(environment: Environment) -> None:
    assert environment.make()
    environment.requirements.write_text("# of still no package\n")
    left_over = environment.folder / "left over"
    left_over.touch()
    assert environment.make()
    assert not left_over.exists()
    assert not environment.make()


def test_a_package_that_cannot_be_had_is_named_and_nothing_counts_as_made(environment: Environment) -> None:
    environment.requirements.write_text(f"./no_such_package-1.0-py3-none-any.whl --hash=sha256:{'0' * 64}\n")
    for _ in range(2):
        with pytest.raises(SetupError, match="no_such_package") as raised:
            environment.make()
        assert "make test-setup" in str(raised.value.hint)
