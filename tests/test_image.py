"""The image's steps, carried out without Docker; what locks name is taken from this environment.

`python -m tests.image` does the same with the locked packages from the registry.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.image import ROOT, Image, instructions

pytestmark = pytest.mark.process  # each process that runs one builds the image

VERSION = "1.2.3"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    folder = Path(mkdtemp())  # pytest's own folders are closed to other users
    folder.chmod(0o755)
    try:
        made = Image(folder, VERSION)
        made.build(offline=True)
        shutil.copytree(RECORDING.parent, folder / "recording", ignore=shutil.ignore_patterns("*.json"))
        yield made
    finally:
        shutil.rmtree(folder)


RECORDING = ROOT / "tests" / "cases" / "hami-2.10" / "recording.tar.gz"


def test_the_image_answers_as_its_user_on_a_read_only_file_system(image: Image) -> None:
    done = image.use(image.entrypoint, "version")
    assert (done.stdout, done.stderr) == (f"hami-bot {VERSION}\n", "")
    recording = str(image.opt.parent / "recording" / RECORDING.name)
    done = image.use(image.entrypoint, "why", "ml/s03-card-insufficient-memory", "--recording", recording)
    assert done.stdout.startswith("WARNING  No GPU of"), done.stderr


def test_the_image_has_no_sandbox_and_says_so(image: Image) -> None:
    done = image.use(image.entrypoint, "demo")
    assert done.returncode == 2
    assert "the image has no demo" in done.stderr


def test_the_image_has_no_pip_and_bytecode_for_every_module(image: Image) -> None:
    assert not list(image.opt.glob("**/bin/pip*"))
    [site] = image.opt.glob("hami-bot/lib/python*/site-packages")
    modules = list((site / "bot").rglob("*.py"))
    assert len(modules) > 100
    assert [path for path in modules if not list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))] == []


def test_the_image_runs_as_its_user_and_can_write_nowhere(image: Image) -> None:
    if not image.confined:
        pytest.skip("only root can take another user, and only if that one may run this Python")
    code = (
        "import os; print(os.getuid()); [os.access(place, os.W_OK) or print('no') for place in ('/', '/tmp', '/opt')]"
    )
    assert image.use("python", "-c", code).stdout.split() == [str(image.user), "no", "no", "no"]


def test_nothing_of_the_image_belongs_to_the_user_that_it_runs_as(image: Image) -> None:
    assert image.user > 0
    assert {path.stat().st_uid for path in image.opt.rglob("*")}.isdisjoint({image.user})


def test_every_instruction_of_the_dockerfile_is_one_that_the_steps_here_know() -> None:
    known = {"FROM", "WORKDIR", "ENV", "ARG", "COPY", "RUN", "USER", "ENTRYPOINT"}
    assert {word for word, _ in instructions()} <= known
