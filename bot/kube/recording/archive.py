"""Reading a `.tar.gz` that nobody vouches for, in one pass, every size checked before it is read.

All but long logs is kept in memory.

Only the headers are parsed by `tarfile`. Its own loop over the members follows links and sparse maps, reads extension
headers of any length, and in Python 3.11 can be made to run for ever (CVE-2024-6232, CVE-2025-8194).
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bot.errors import SourceError
from bot.texts import Text

MAX_MEMBERS = 20_000
MAX_UNPACKED = 1024 * 1024 * 1024
MAX_JSON = 256 * 1024 * 1024
"""The largest JSON file that is read, from an archive or from a folder, in bytes."""

LONG_LOG = 1024 * 1024
"""A log of more bytes is not kept in memory: it may be a thousand times as large."""

_MAX_EXTENSION = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE
_HINT = Text("error-recording.what-it-is")


class Span(NamedTuple):
    """Where a long log stands in the unpacked archive, in bytes."""

    start: int
    size: int


class _UnsafeError(Exception):
    """The archive holds what a recording never holds."""


def read_archive(path: Path) -> dict[str, bytes | Span]:
    """The regular files of the archive by name (relative, `/` between the parts); nothing is written to disk.

    Of a log with more than `LONG_LOG` bytes only where it stands, for `open_span`.

    Raises SourceError when it is no gzipped tar, is cut off, holds anything but files and folders, leads outside
    itself, or goes beyond the limits above.
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
        raise SourceError(Text("error-recording.archive-refused", path=path, why=str(error)), hint=_HINT) from error
    except (OSError, zlib.error, tarfile.HeaderError) as error:
        raise SourceError(Text("error-recording.no-readable-archive", path=path, why=str(error)), hint=_HINT) from error


@contextmanager
def open_span(path: Path, span: Span) -> Generator[gzip.GzipFile]:
    """The archive, unpacked as far as the log, whose bytes are read next. Raises OSError, EOFError and zlib.error."""
    with gzip.open(path) as stream:
        stream.seek(span.start)
        yield stream


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
    """The name that an extension header gives to the member after it, None when it gives none."""
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
