"""Decodes the bytes of a file or an answer to a `Profile`. The bytes are untrusted: a foreign process made them."""

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from google.protobuf.message import DecodeError

from bot.errors import SourceError
from bot.pprof import profile_pb2
from bot.pprof.profile import (
    BASE_LABEL,
    Function,
    Label,
    Location,
    Mapping,
    Profile,
    ProfileSample,
    SourceLine,
    ValueType,
)
from bot.texts import Text

MAX_BYTES = 8 << 20
"""The largest uncompressed profile that the bot reads, in bytes: five times a busy scheduler's in 30 s. It takes 2 s to
read and up to 12 s to explain and draw.
"""

_MOST = {
    "sample_type": 1_000,
    "mapping": 100_000,
    "function": 1_000_000,
    "location": 4_000_000,
    "string_table": 4_000_000,
    "comment": 100_000,
}
"""The most entries in each table of a profile, above what any program has: an entry is an object of some 100 bytes."""

LONGEST_TEXT = 4096
"""The most characters of a name, path, label or comment; the rest is cut off, because every row of a table would repeat
it. (go tool pprof prints it whole.)
"""
_MOST_COMMENTS = 1 << 20
"""The most characters of all comments together, which stand above every table."""

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's number for "with a gzip header"
_CHUNK = 1 << 20
_ORDERS: tuple[Literal["little", "big"], ...] = ("little", "big")
_LEGACY = (b"heap profile:", b"goroutine profile:", b"threadcreate profile:", b"--- ", b"MAPPED_LIBRARIES:")
_GOROUTINE_DUMP = re.compile(rb"goroutine \d+ [^\n]*\[")
_LEGACY_CPU = tuple((0).to_bytes(size, order) + (3).to_bytes(size, order) for size in (4, 8) for order in _ORDERS)
"""How gperftools' binary CPU profiles begin: a word of 0, then the header's length in words."""
_NO_MAPPING = Mapping(1, 0, 0, 0, "", "")  # what pprof gives a profile that has none: patterns are tried on its name
_WEB_PAGE = (b"<!doctype", b"<html", b"<?xml")


def read(data: bytes, *, limit: int = MAX_BYTES) -> Profile:
    """The profile in these bytes, gzipped or not. Raises SourceError for bytes that are damaged, no profile (a web
    page, an old text format), or more than `limit` bytes uncompressed. Samples are checked only when they are read.
    """
    data = _uncompressed(data, limit)
    try:
        message = profile_pb2.Profile.FromString(data)
    except DecodeError as error:
        raise _not_a_profile(data) from error
    try:
        return _Tables(message).profile()
    except _MalformedError as error:
        raise SourceError(
            Text("error-pprof.malformed", why=str(error)), hint=Text("error-pprof.profile-is-damaged-fetch-again")
        ) from error


def uncompressed_size(data: bytes) -> int:
    """The bytes that `read` would decode; 0 for data that it refuses. Takes 0.1 s for `MAX_BYTES`."""
    try:
        return len(_uncompressed(data, MAX_BYTES))
    except SourceError:
        return 0


def _uncompressed(data: bytes, limit: int) -> bytes:
    if data.startswith(_GZIP):
        data = _gunzip(data, limit)
    if not data:
        raise SourceError(Text("error-pprof.profile-is-empty"), hint=Text("error-pprof.fetch-again-program-stopped"))
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _gunzip(data: bytes, limit: int) -> bytes:
    """Uncompresses gzip members in steps, so that a small file that would fill the memory is stopped in time."""
    found: list[bytes] = []
    size = 0
    rest = data
    try:
        while rest.startswith(_GZIP):
            member = zlib.decompressobj(_GZIP_WINDOW)
            while not member.eof:
                part = member.decompress(rest, _CHUNK)
                rest = member.unconsumed_tail
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                if not part and not rest and not member.eof:
                    raise SourceError(
                        Text("error-pprof.profile-is-cut-short-gzip"), hint=Text("error-pprof.fetch-again")
                    )
                found.append(part)
            rest = member.unused_data
    except zlib.error as error:
        raise SourceError(
            Text("error-pprof.profile-cannot-be-uncompressed", why=str(error)), hint=Text("error-pprof.fetch-again")
        ) from error
    return b"".join(found)


def _too_large(limit: int) -> SourceError:
    return SourceError(
        Text("error-pprof.profile-holds-more-than-mib", limit=limit >> 20),
        hint=Text("error-pprof.take-shorter-one-read"),
    )


def _not_a_profile(data: bytes) -> SourceError:
    start = data[:200].lstrip().lower()
    if start.startswith(_WEB_PAGE):
        return SourceError(Text("error-pprof.web-page"), hint=Text("error-pprof.check-address"))
    if _GOROUTINE_DUMP.match(start):
        return SourceError(Text("error-pprof.goroutine-dump"), hint=Text("error-pprof.fetch-without-debug-2"))
    if start.startswith(_LEGACY) or (b"@ 0x" in start and start.isascii()):
        return SourceError(Text("error-pprof.text-format"), hint=Text("error-pprof.fetch-without-debug"))
    if data.startswith(_LEGACY_CPU):
        return SourceError(Text("error-pprof.binary-format"), hint=Text("error-pprof.take-new-profile-program-built"))
    return SourceError(Text("error-pprof.no-profile"), hint=Text("error-pprof.a-profile-is"))


class _MalformedError(Exception):
    """What is wrong with the message, in pprof's words."""


class _Tables:
    def __init__(self, message: Any) -> None:
        self._message = message
        for what, most in _MOST.items():
            if len(getattr(message, what)) > most:
                raise _MalformedError(f"it has more than {most:,} of {what}")
        self._whole = [text.decode("utf-8", "surrogateescape") for text in message.string_table]
        if not self._whole or self._whole[0]:
            raise _MalformedError("its string table does not begin with an empty text")
        self._texts = self._whole
        if max(map(len, self._whole)) > LONGEST_TEXT:
            self._texts = [
                text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…" for text in self._whole
            ]

    def profile(self) -> Profile:
        message = self._message
        mappings = self._mappings()
        functions = self._functions()
        types = [self._value_type(sample_type) for sample_type in message.sample_type]
        if not types:
            raise _MalformedError("missing sample type information")
        comments = [self._text(index) for index in message.comment]
        if sum(map(len, comments)) > _MOST_COMMENTS:
            raise _MalformedError(f"it has more than {_MOST_COMMENTS:,} characters of comments")
        return Profile(
            sample_types=types,
            samples=EncodedSamples(message.sample, len(types), self._label),
            mappings=list(mappings.values()) or [_NO_MAPPING],
            locations=self._locations(mappings, functions),
            functions=list(functions.values()),
            drop_frames=self._pattern(message.drop_frames),
            keep_frames=self._pattern(message.keep_frames),
            time_nanos=message.time_nanos,
            duration_nanos=message.duration_nanos,
            period_type=self._value_type(message.period_type),
            period=message.period,
            comments=comments,
            default_sample_type=self._text(message.default_sample_type),
            doc_url=self._text(message.doc_url),
            may_hold_base=BASE_LABEL[0] in self._texts,
        )

    def _text(self, index: int) -> str:
        if not 0 <= index < len(self._texts):
            raise _MalformedError(f"there is no text {index} in its string table")
        return self._texts[index]

    def _pattern(self, index: int) -> str:
        """A regular expression is never cut off, because half of one means something else."""
        return self._text(index) and self._whole[index]

    def _value_type(self, message: Any) -> ValueType:
        return ValueType(self._text(message.type), self._text(message.unit))

    def _label(self, message: Any) -> Label:
        return Label(self._text(message.key), self._text(message.str), message.num, self._text(message.num_unit))

    def _mappings(self) -> dict[int, Mapping]:
        found: dict[int, Mapping] = {}
        for mapping in self._message.mapping:
            _new_id("mapping", mapping.id, found)
            file, build_id = self._text(mapping.filename), self._text(mapping.build_id)
            start, limit, offset = mapping.memory_start, mapping.memory_limit, mapping.file_offset
            found[mapping.id] = Mapping(mapping.id, start, limit, offset, file, build_id)
        return found

    def _functions(self) -> dict[int, Function]:
        found: dict[int, Function] = {}
        texts, count = self._texts, len(self._texts)
        for function in self._message.function:
            number, name, system_name, filename = function.id, function.name, function.system_name, function.filename
            _new_id("function", number, found)
            if not (0 <= name < count and 0 <= system_name < count and 0 <= filename < count):
                raise _MalformedError(f"function {number} has a text that is not in its string table")
            found[number] = Function(number, texts[name], texts[system_name], texts[filename], function.start_line)
        return found

    def _locations(self, mappings: dict[int, Mapping], functions: dict[int, Function]) -> dict[int, Location]:
        found: dict[int, Location] = {}
        no_mapping = None if mappings else _NO_MAPPING
        try:
            for location in self._message.location:
                number = location.id
                _new_id("location", number, found)
                lines = tuple(
                    [SourceLine(functions[line.function_id], line.line, line.column) for line in location.line]
                )
                mapping = mappings.get(location.mapping_id, no_mapping)
                found[number] = Location(number, mapping, location.address, lines, location.is_folded)
        except KeyError as error:
            raise _MalformedError(f"a location has a line of function {error}, which is not in the profile") from error
        return found


def _new_id(what: str, number: int, found: dict[int, Any]) -> None:
    if number == 0:
        raise _MalformedError(f"a {what} has the reserved id 0")
    if number in found:
        raise _MalformedError(f"several {what}s have the id {number}")


class EncodedSamples:
    """Samples as protobuf holds them, in a tenth of the memory of Python objects. Iterating raises SourceError."""

    def __init__(self, messages: Any, values: int, label: Any) -> None:
        self._messages, self._values, self._label = messages, values, label

    def __length_hint__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ProfileSample]:
        for message in self._messages:
            values = message.value
            if len(values) != self._values:
                raise _wrong_values(len(values), self._values)
            try:
                labels = tuple([self._label(label) for label in message.label])
            except _MalformedError as error:
                raise SourceError(Text("error-pprof.malformed", why=str(error))) from error
            yield ProfileSample(message.location_id, values, labels)

    def stacks(self, index: int) -> Iterator[tuple[Sequence[int], int]]:
        count = self._values
        for message in self._messages:
            values = message.value
            if len(values) != count:
                raise _wrong_values(len(values), count)
            yield message.location_id, values[index]


def _wrong_values(found: int, wanted: int) -> SourceError:
    return SourceError(
        Text("error-pprof.sample-has-values", found=found, wanted=wanted),
        hint=Text("error-pprof.profile-is-damaged-fetch-again"),
    )
