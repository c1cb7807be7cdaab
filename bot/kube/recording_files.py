"""The files of a recording, whether it is a folder or an archive. Names are relative, with `/` between the parts.

A recording is untrusted, and so is every name that is built from what it says: nothing here reads outside of it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from bot.errors import SourceError
from bot.kube.archive import MAX_JSON, read_archive

FORMAT = "hami-bot.recording/v1"
META = "meta.json"
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz")

_HINT = f"a recording holds {META} and objects/<plural>.json, as `kubectl get <plural> -A -o json` prints them"


class RecordingFiles(Protocol):
    """Reads by name; raises SourceError when the file is not there or cannot be read."""

    def names(self, prefix: str = "") -> list[str]:
        """The files whose name starts so, sorted."""
        ...

    def read(self, name: str) -> bytes:
        """The whole file, which must not be larger than `MAX_JSON`."""
        ...

    def tail(self, name: str, limit: int) -> tuple[bytes, bool]:
        """The newest lines of a log, at most so many bytes, and whether older ones were left out."""
        ...


def open_files(path: Path) -> RecordingFiles:
    """The files of the recording at `path`: a folder or a `.tar.gz`, which may hold them in one sub-folder."""
    try:
        if not path.exists():
            raise SourceError(f"{path} does not exist", hint="name a recording: a folder or a .tar.gz")
        return FolderFiles(path) if path.is_dir() else ArchiveFiles(path)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} could not be opened: {error}", hint=_HINT) from error


def log_name(namespace: str, pod: str, container: str) -> str:
    """Where a recording keeps a container's log; SourceError when a name could lead elsewhere."""
    for part in (namespace, pod, container):
        if part in ("", ".", "..") or any(character in part for character in "/\\\0"):
            raise SourceError(f"{part!r} is no name of a namespace, pod or container")
    return f"logs/{namespace}/{pod}/{container}.log"


class ArchiveFiles:
    """The files of a `.tar.gz`, held in memory."""

    def __init__(self, path: Path) -> None:
        members = read_archive(path)
        root = _root(path, members)
        self._files = {name.removeprefix(root): data for name, data in members.items() if name.startswith(root)}

    def names(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self._files if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        if (data := self._files.get(name)) is None:
            raise _absent(name)
        return data

    def tail(self, name: str, limit: int) -> tuple[bytes, bool]:
        data = self.read(name)
        return whole_lines(data[max(0, len(data) - limit - 1) :], limit)


class FolderFiles:
    """The files of a folder, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        candidates = [path, *sorted(one for one in path.iterdir() if one.is_dir())]
        entries = [
            f"{one.relative_to(path)}/{entry}".removeprefix("./")
            for one in candidates
            for entry in (META, "objects/")
            if (one / entry).exists()
        ]
        self._root = (path / _root(path, entries)).resolve()

    def names(self, prefix: str = "") -> list[str]:
        files = (one for one in self._root.rglob("*") if one.is_file())
        return sorted(name for one in files if (name := one.relative_to(self._root).as_posix()).startswith(prefix))

    def read(self, name: str) -> bytes:
        file = self._file(name)
        try:
            if (size := file.stat().st_size) > MAX_JSON:
                raise SourceError(f"{name} of the recording has {size:,} bytes, more than {MAX_JSON:,}")
            return file.read_bytes()
        except OSError as error:
            raise _unreadable(name, error) from error

    def tail(self, name: str, limit: int) -> tuple[bytes, bool]:
        file = self._file(name)
        try:
            with file.open("rb") as stream:
                stream.seek(max(0, file.stat().st_size - limit - 1))
                return whole_lines(stream.read(limit + 1), limit)
        except OSError as error:
            raise _unreadable(name, error) from error

    def _file(self, name: str) -> Path:
        try:
            file = (self._root / name).resolve()
            # is_file also keeps us from waiting for ever on a named pipe.
            if not file.is_relative_to(self._root) or not file.is_file():
                raise _absent(name)
        except (OSError, ValueError) as error:
            raise _unreadable(name, error) from error
        return file


def whole_lines(newest: bytes, limit: int) -> tuple[bytes, bool]:
    """At most the last `limit` bytes, without the line that this cuts in two, and whether anything was left out.

    `newest` holds one byte more than the limit where the log is longer: the one that tells whether a line begins there.
    """
    if len(newest) <= limit:
        return newest, False
    return newest[newest.find(b"\n", len(newest) - limit - 1) + 1 or len(newest) :], True


def _root(path: Path, names: Iterable[str]) -> str:
    """The folder that the recording is in, seen from `path`: empty, or one name and a slash."""
    roots: set[str] = set()
    for name in names:
        top, _, rest = name.partition("/")
        if name == META or (top == "objects" and "/" in name):
            return ""
        if rest == META or rest.startswith("objects/"):
            roots.add(f"{top}/")
    if len(roots) != 1:
        found = f"{len(roots)} recordings: {', '.join(sorted(roots))}" if roots else f"no {META} and no objects/"
        raise SourceError(f"{path} holds {found}", hint="name one of them" if roots else _HINT)
    return roots.pop()


def _absent(name: str) -> SourceError:
    return SourceError(
        f"{name} is not in the recording", hint="record again where it can be read, or add the file by hand"
    )


def _unreadable(name: str, error: Exception) -> SourceError:
    return SourceError(f"{name} of the recording could not be read: {error}", hint="check the file and its permissions")
