"""The Dockerfile's own steps without Docker: `python -m tests.image` runs them all, with packages from the registry.

Each COPY and RUN is carried out in an empty folder. Where root runs this, a user without rights takes the steps, and
the image's user uses the result on a read-only file system. This machine's Python takes the place of the base image.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import mkdtemp

ROOT = Path(__file__).parents[1]
NOBODY = 65534
_INSTALLS_LOCKED = re.compile(r"pip (--python \S+ )?install --require-hashes[^&]*")


class Failed(Exception):  # noqa: N818  # what it is
    """A step that failed, with what it said."""


class Image:
    """`folder` must be empty, and reachable by every user. `version` is the build's argument."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._context = folder / "context"
        self.opt, self._src, self._base = folder / "opt", folder / "src", folder / "base"
        for place in (self._context, self.opt, self._src, self._base):
            place.mkdir()
            _give(place)
        self._environment = {"VERSION": version, "HOME": str(self._src)}
        self._python, self.confined = _open_python()

    def build(self, *, offline: bool) -> None:
        """All steps. `offline`: what locks name comes from this environment, whatever its versions."""
        _send_context(self._context)
        subprocess.run([self._python, "-m", "venv", *(["--without-pip"] if offline else []), self._base], check=True)
        if offline:
            self._base.joinpath("bin", "pip").write_text('#!/bin/sh\nexec python -m pip "$@"\n')
            self._base.joinpath("bin", "pip").chmod(0o755)
        _give(self._base)
        self._path = f"{self._base}/bin:/usr/bin:/bin"
        for word, rest in instructions():
            if word == "ENV":
                self._environment |= dict(word.split("=", 1) for word in shlex.split(self._here(rest)))
            elif word == "COPY" and not rest.startswith("--from"):
                self._copy(rest.split())
            elif word == "RUN":
                self._run(rest, offline=offline)
            elif word == "USER":
                self.user = int(rest.partition(":")[0])
            elif word == "ENTRYPOINT":
                self.entrypoint = shlex.split(rest.strip("[]"))[0]

    def use(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A program of the image with these words, as the image's user on a read-only file system."""
        path = self._environment["PATH"].replace("$PATH", "/usr/bin:/bin")
        command = [str(self.opt / "hami-bot" / "bin" / program), *words]
        if self.confined:
            command = ["unshare", "--mount", "sh", "-c", _CONFINED, "sh", str(self.user), str(self._folder), *command]
        environment = {**self._environment, "PATH": path, "HOME": "/nonexistent"}
        return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)

    def _here(self, text: str) -> str:
        """What stands at the root of an image, in this folder."""
        return text.replace("/opt/", f"{self.opt}/")

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        for source in sources:
            found, place = self._context / source, self._src / ("" if target == "./" else target)
            if found.is_dir():
                shutil.copytree(found, place)
            else:
                shutil.copy(found, place)
        _give(self._src)

    def _run(self, command: str, *, offline: bool) -> None:
        if offline:
            command = _INSTALLS_LOCKED.sub("true ", command)
            for place in (self._base, self.opt / "hami-bot"):
                for site in place.glob("lib/python*/site-packages"):
                    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
        environment = {**os.environ, **self._environment, "PATH": self._path}  # noqa: TID251  # for pip's own settings
        words = [*(_AS_NOBODY if self.confined else []), "sh", "-ec", self._here(command)]
        done = subprocess.run(words, cwd=self._src, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{command}\n{done.stdout}{done.stderr}")


_AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
_CONFINED = """
user=$1 folder=$2; shift 2
mount --bind "$folder" "$folder" && mount -o remount,bind,ro "$folder" && mount -o remount,bind,ro / || exit 125
exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs "$@"
"""


def _open_python() -> tuple[str, bool]:
    """A Python as this one is, and whether this is root and nobody may run it with the packages that are here."""
    ours = str(getattr(sys, "_base_executable", sys.executable))
    code = f"import sys; sys.path.append({sysconfig.get_path('purelib')!r}); import hatchling, pip"
    for python in (ours, f"/usr/bin/python3.{sys.version_info.minor}"):
        if os.geteuid() == 0 and Path(python).exists():
            command = [*_AS_NOBODY, "sh", "-c", 'exec "$@"', "sh", python, "-c", code]
            done = subprocess.run(command, cwd="/", capture_output=True, check=False)
            if done.returncode == 0:
                return python, True
    return ours, False


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile: each instruction and what follows it."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines()) if word]


def _send_context(folder: Path) -> None:
    """What `.dockerignore` leaves of this checkout."""
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        for path in ROOT.glob(line.removeprefix("!")) if line.startswith("!") else ():
            if path.is_dir():
                shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, folder / path.name)


def _give(folder: Path) -> None:
    """The folder becomes nobody's, where that can be."""
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(folder)], check=True)


def main() -> None:
    folder = Path(mkdtemp())
    folder.chmod(0o755)
    try:
        image = Image(folder, "0.0.1")
        image.build(offline=False)
        done = image.use(image.entrypoint, "version")
        sys.stdout.write(done.stdout + done.stderr)
        sys.exit(done.returncode)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
