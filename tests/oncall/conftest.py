"""What the tests of on-call start once for all of a file."""

import subprocess
from collections.abc import Generator

import pytest

from tests.oncall.killing import forked


@pytest.fixture(scope="module")
def forking() -> Generator[subprocess.Popen[str]]:
    with forked() as process:
        yield process
