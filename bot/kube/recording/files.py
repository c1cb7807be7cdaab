"""The files of a recording, a folder or an archive. Names are relative, with `/` between the parts.

A recording is untrusted, and so is every name built from its content: nothing outside the recording is read. A
`.tar.gz` is read in one pass, every size checked before. `tarfile` parses only the headers: its own loop over the
members follows links and sparse maps, reads extension headers of any length, and in Python 3.11 can be made to run for
ever (CVE-2024-6232, CVE-2025-8194).
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bot.errors import SourceError
from bot.kube.models import Kind
from bot.texts import Text

T = TypeVar("T")

PIECE = 256 * 1024
Take = Callable[[bytes], None]

FORMAT = "hami-bot.recording/v1"
META = "meta.json"

_HINT = Text("error-recording.what-it-holds", meta=META)

MAX_MEMBERS = 20_000
MAX_UNPACKED = 1024 * 1024 * 1024
MAX_JSON = 256 * 1024 * 1024
"""The largest JSON file that is read, from an archive or from a folder, in bytes."""

LONG_LOG = 1024 * 1024
"""A log of more bytes is not kept in memory: unpacked, it may be a thousand times as large as in the archive."""

_MAX_EXTENSION = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE
_ARCHIVE_HINT = Text("error-recording.what-it-is")


class Span(NamedTuple):
    """The place of a long log in the unpacked archive, in bytes."""

    start: int
    size: int


class NotRecordedError(SourceError):
    """The recording has no such file. Not `NotFound`, which would say that the cluster has no such object."""


def file_name(kind: Kind[Any]) -> str:
    """The kind's file under `objects/` of a recording: `pods.json`, `leases.coordination.k8s.io.json`."""
    return f"{kind.plural}.{kind.group}.json" if kind.group else f"{kind.plural}.json"


def open_files(path: Path) -> "RecordingFiles":
    """The files of the recording at `path`: a folder, a `.tar.gz`, or its only sub-folder. Raises SourceError."""
    try:
        if not path.exists():
            raise SourceError(
                Text("error-recording.does-not-exist", path=path),
                hint=Text("error-recording.give-path-recording-folder-tar"),
            )
        return FolderFiles(path) if path.is_dir() else ArchiveFiles(path)
    except (OSError, ValueError) as error:
        raise SourceError(Text("error-recording.could-not-be-opened", path=path, why=str(error)), hint=_HINT) from error


def archive_stem(path: Path) -> str | None:
    """The file name without `.tar.gz` or `.tgz`; None where it is not the name of an archive."""
    stems = (path.name.removesuffix(suffix) for suffix in (".tar.gz", ".tgz") if path.name.endswith(suffix))
    return next(stems, None)


def log_name(namespace: str, pod: str, container: str, *, previous: bool = False) -> str:
    """The file name of a container's log in a recording. Raises SourceError for a name that leads elsewhere."""
    for part in (namespace, pod, container):
        if part in ("", ".", "..") or any(character in part for character in "/\\\0"):
            raise SourceError(Text("error-recording.no-name-of-container", part=repr(part)))
    return f"logs/{namespace}/{pod}/{container}{'.previous' if previous else ''}.log"


class ArchiveFiles:
    """A `.tar.gz`'s files, in memory but for long logs. Methods raise SourceError for a file absent or unreadable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        members = read_archive(path)
        parts, root = [name.split("/") for name in members], ""
        if not any(part[0] == "objects" or part == [META] for part in parts):  # then they stand in one sub-folder
            tops = {part[0] for part in parts if part[1:2] == ["objects"] or part[1:] == [META]}
            root = f"{_only_one(path, sorted(tops))}/"
        self._files = {name.removeprefix(root): data for name, data in members.items() if name.startswith(root)}

    def names(self, prefix: str = "") -> list[str]:
        """The names of the files that start with `prefix`, sorted."""
        return sorted(name for name in self._files if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        """The whole file, which must not be larger than `MAX_JSON`."""
        found = self._files.get(name)
        if found is None:
            raise _absent(name)
        if isinstance(found, Span):
            _check_size(name, found.size)
            with self._open(name, found) as stream:
                return stream.read(found.size)
        return found

    def tail(self, name: str, limit: int, take: Take) -> bool:
        """Gives `take` the newest lines of a log, as `give_tail` does. Returns whether older ones were left out."""
        found = self._files.get(name)
        if isinstance(found, Span):
            with self._open(name, found) as stream:
                return give_tail(stream, found.size, limit, take)
        data = self.read(name)
        return give_tail(io.BytesIO(data), len(data), limit, take)

    @contextmanager
    def _open(self, name: str, span: Span) -> Generator[io.BufferedIOBase]:
        try:
            with gzip.open(self._path) as stream:
                stream.seek(span.start)
                yield stream
        except (OSError, EOFError, zlib.error) as error:  # another archive stands there by now
            raise _unreadable(name, error) from error


class FolderFiles:
    """The files of a recording's folder, read at each call; the methods are those of `ArchiveFiles`."""

    def __init__(self, path: Path) -> None:
        self._root = path.resolve()
        if not _is_recording(self._root):
            inside = (folder for folder in sorted(self._root.iterdir()) if folder.is_dir() and not folder.is_symlink())
            self._root = _only_one(path, [folder for folder in inside if _is_recording(folder)])

    def names(self, prefix: str = "") -> list[str]:
        try:
            files = [path.relative_to(self._root).as_posix() for path in self._root.rglob("*") if path.is_file()]
        except OSError as error:
            raise _unreadable(prefix or "a folder", error) from error
        return sorted(name for name in files if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        file = self._file(name)
        try:
            _check_size(name, file.stat().st_size)
            return file.read_bytes()
        except OSError as error:
            raise _unreadable(name, error) from error

    def tail(self, name: str, limit: int, take: Take) -> bool:
        file = self._file(name)
        try:
            with file.open("rb") as stream:
                return give_tail(stream, file.stat().st_size, limit, take)
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


RecordingFiles = ArchiveFiles | FolderFiles


def give_tail(stream: io.BufferedIOBase, size: int, limit: int, take: Take) -> bool:
    """Gives `take` at most the last `limit` of a log's `size` bytes, from the first whole line on. `stream` stands at
    the log's beginning. Returns whether anything was left out.
    """
    is_cut = size > limit
    if is_cut:
        stream.seek(size - limit - 1, io.SEEK_CUR)  # one byte more: it tells whether a line begins there
    left, in_line = min(size, limit + 1), is_cut
    while left > 0 and (piece := stream.read(min(PIECE, left))):
        left -= len(piece)
        if in_line:
            _, newline, piece = piece.partition(b"\n")
            in_line = not newline
        if piece:
            take(piece)
    return is_cut


def _check_size(name: str, size: int) -> None:
    if size > MAX_JSON:
        raise SourceError(Text("error-recording.part-is-too-large", name=name, size=f"{size:,}", most=f"{MAX_JSON:,}"))


def _is_recording(folder: Path) -> bool:
    return (folder / META).exists() or (folder / "objects").is_dir()


def _only_one(path: Path, found: Sequence[T]) -> T:
    if not found:
        raise SourceError(Text("error-recording.no-recording", path=path, meta=META), hint=_HINT)
    if len(found) > 1:
        raise SourceError(
            Text("error-recording.holds-recordings", path=path, count=len(found)),
            hint=Text("error-recording.name-one-of-them"),
        )
    return found[0]


def _absent(name: str) -> NotRecordedError:
    return NotRecordedError(
        Text("error-recording.not-in-recording", name=name), hint=Text("error-recording.record-again")
    )


def _unreadable(name: str, error: Exception) -> SourceError:
    return SourceError(
        Text("error-recording.part-could-not-be-read", name=name, why=str(error)),
        hint=Text("error-recording.check-file-permissions"),
    )


class _UnsafeError(Exception):
    """The archive holds what a recording never holds."""


def read_archive(path: Path) -> dict[str, bytes | Span]:
    """The regular files of the archive by name; nothing is written to disk. A log with more than `LONG_LOG` bytes comes
    as a `Span`. Raises SourceError when the file is no gzipped tar, is cut off, holds anything but files and folders,
    leads outside itself, or exceeds the limits of this module.
    """
    try:
        with gzip.open(path) as stream:
            return dict(_members(stream))
    except EOFError as error:
        raise SourceError(
            Text("error-recording.archive-is-cut-off", path=path, why=str(error)),
            hint=Text("error-recording.copy-again-record-again"),
        ) from error
    except _UnsafeError as error:
        raise SourceError(
            Text("error-recording.archive-refused", path=path, why=str(error)), hint=_ARCHIVE_HINT
        ) from error
    except (OSError, zlib.error, tarfile.HeaderError) as error:
        raise SourceError(
            Text("error-recording.no-readable-archive", path=path, why=str(error)), hint=_ARCHIVE_HINT
        ) from error


def _members(stream: gzip.GzipFile) -> Iterator[tuple[str, bytes | Span]]:
    count = unpacked = 0
    long_name: str | None = None
    while (header := stream.read(_BLOCK)).strip(b"\0"):
        member = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        count, unpacked = count + 1, unpacked + member.size
        if count > MAX_MEMBERS:
            raise _UnsafeError(f"it has more than {MAX_MEMBERS:,} members")
        if member.size < 0 or unpacked > MAX_UNPACKED:
            raise _UnsafeError(f"it unpacks to more than {MAX_UNPACKED:,} bytes")
        match member.type:
            case tarfile.XHDTYPE | tarfile.XGLTYPE | tarfile.GNUTYPE_LONGNAME:
                long_name = _long_name(member, _body(stream, member, _MAX_EXTENSION)) or long_name
                continue
            case tarfile.DIRTYPE:
                _relative(long_name or member.name)
            case tarfile.REGTYPE | tarfile.AREGTYPE:
                name = _relative(long_name or member.name)
                limit = MAX_JSON if name.endswith(".json") else MAX_UNPACKED
                is_long = name.endswith(".log") and member.size > LONG_LOG
                yield name, _span(stream, member) if is_long else _body(stream, member, limit)
            case _:
                raise _UnsafeError(f"{member.name!r} is neither a file nor a folder")
        long_name = None
    # gzip compares its checksum at the very end, which lies behind tar's padding.
    stream.read(_MAX_EXTENSION)


def _body(stream: gzip.GzipFile, member: tarfile.TarInfo, limit: int) -> bytes:
    if member.size > limit:
        raise _UnsafeError(f"{member.name!r} has {member.size:,} bytes, more than {limit:,}")
    body = stream.read(member.size)
    if len(body) < member.size:
        raise EOFError(f"{member.name!r} ends after {len(body):,} of {member.size:,} bytes")
    stream.read(-member.size % _BLOCK)
    return body


def _span(stream: gzip.GzipFile, member: tarfile.TarInfo) -> Span:
    span = Span(stream.tell(), member.size)
    stream.seek(member.size, io.SEEK_CUR)
    if (reached := stream.tell() - span.start) < member.size:
        raise EOFError(f"{member.name!r} ends after {reached:,} of {member.size:,} bytes")
    stream.read(-member.size % _BLOCK)
    return span


def _long_name(member: tarfile.TarInfo, body: bytes) -> str | None:
    if member.type == tarfile.GNUTYPE_LONGNAME:
        return body.rstrip(b"\0").decode("utf-8", "replace")
    name = None
    position = 0
    while position < len(body):
        digits = body[position : position + 8].partition(b" ")[0]
        end = position + int(digits) if digits.isdigit() else 0
        if end <= position + len(digits):
            raise tarfile.HeaderError("bad pax header")
        key, _, value = body[position + len(digits) + 1 : end].rstrip(b"\n").partition(b"=")
        if key == b"path" and member.type == tarfile.XHDTYPE:
            name = value.decode("utf-8", "replace")
        position = end
    return name


def _relative(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        raise _UnsafeError(f"{name!r} leads outside of it")
    return "/".join(part for part in parts if part not in ("", "."))
