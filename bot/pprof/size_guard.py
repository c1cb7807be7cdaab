"""A look at a large message before it is parsed: protobuf makes an object of 50 bytes and more of every two bytes.

So a file made for it takes 25 times its size in memory. What a program sends has 50 bytes per field.
"""

from bot.errors import SourceError
from bot.texts import Text

WORTH_SCANNING = 16 << 20
"""Bytes below which a message cannot take more memory than it may."""
_SMALLEST_MEAN = 8
_LARGEST_SAMPLE = 1 << 20
_SAMPLE, _LOCATION = 2, 4
_VARINT, _DATA = 0, 2
_FIXED = {1: 8, 5: 4}
"""Wire types of a fixed size, in bytes."""
_LONGEST_VARINT = 70
_EMPTY_LABEL = b"\x1a\x00"
_HINT = Text("error-pprof.no-program-writes-such")


def check(data: bytes) -> None:
    """Raises SourceError for a message of many tiny fields, or with a sample or location of more than a megabyte.

    Damage is left to the parser.
    """
    if data.count(_EMPTY_LABEL) > len(data) // _SMALLEST_MEAN // 2:
        raise SourceError(Text("error-pprof.profile-is-full-empty-labels"), hint=_HINT)
    try:
        _walk(data, len(data) // _SMALLEST_MEAN)
    except IndexError:
        return


def _walk(data: bytes, most: int) -> None:
    """Field by field. Raises IndexError at what is no message."""
    count, at, end = 0, 0, len(data)
    while at < end:
        count += 1
        if count > most:
            raise SourceError(Text("error-pprof.profile-has-more-fields"), hint=_HINT)
        tag, size = data[at], data[at + 1]
        if tag & 0x87 == _DATA and size < 0x80:  # nearly all of them
            at += 2 + size
            continue
        tag, at = _varint(data, at)
        if tag & 7 == _DATA:
            size, at = _varint(data, at)
            at += size
            if size > _LARGEST_SAMPLE and tag >> 3 in (_SAMPLE, _LOCATION):
                raise SourceError(Text("error-pprof.profile-has-stack-mib", size=size >> 20), hint=_HINT)
        elif tag & 7 == _VARINT:
            _, at = _varint(data, at)
        elif tag & 7 in _FIXED:
            at += _FIXED[tag & 7]
        else:
            raise IndexError


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while shift < _LONGEST_VARINT:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
    raise IndexError
