"""Answers that come packed, unpacked whole by zlib-ng.

58 MB of nodes, the pages of 5,000, take 0.04 s. Python's own zlib takes 0.08 s to 0.19 s, by machine: that would be a
third of the budget of a sweep. aiohttp's way, piece by piece, takes twice that.

So its session is told to leave bodies as they come. Only lists are asked for with gzip, but a pod or a proxy may pack
whatever it likes: every body is read through here.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
from zlib_ng import zlib_ng

_zlib: Any = zlib_ng  # its stubs take the class of its errors for an error
_GZIP = 16 + zlib_ng.MAX_WBITS
MOST_BYTES = 128 * 2**20
"""Of an unpacked body: a page of 500 objects, each with as many annotations as Kubernetes takes (256 KiB). Packed, it
may be a thousandth of that, so the size of what came bounds nothing."""
_PIECE = 256 * 1024


async def whole_body(answer: aiohttp.ClientResponse) -> bytes:
    """The body. Raises aiohttp.ClientError or OSError for one that breaks off, ClientPayloadError for a damaged one and
    for a packed one of more than MOST_BYTES.
    """
    body = await answer.read()
    if not _is_packed(answer):
        return body
    # Its last field says so, or lies: no more is unpacked.
    size = int.from_bytes(body[-4:], "little")
    if size > MOST_BYTES:
        raise aiohttp.ClientPayloadError(f"unpacked it is larger than {MOST_BYTES >> 20} MiB, or it is cut short")
    unpacking = _Unpacking()
    found = next(unpacking.pieces(body, size + 1), b"")
    unpacking.end()
    return found


def unpacked(answer: aiohttp.ClientResponse, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of its body as they come, in small pieces again where they were packed. Raises as `whole_body`."""
    return _unpacked(pieces) if _is_packed(answer) else pieces


def beginning(answer: aiohttp.ClientResponse, body: bytes, limit: int) -> bytes:
    """At most so many bytes of a body of which a part was read: what a refusal says, as far as it can be read."""
    if not _is_packed(answer):
        return body[:limit]
    try:
        return _zlib.decompressobj(_GZIP).decompress(body, limit)
    except _zlib.error:
        return b""


async def _unpacked(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    unpacking = _Unpacking()
    async for packed in pieces:
        for piece in unpacking.pieces(packed, _PIECE):
            yield piece
    unpacking.end()


class _Unpacking:
    """One gzip member. A body of several (RFC 1952 allows it, no API server sends it) is refused, not cut short."""

    def __init__(self) -> None:
        self._gzip = _zlib.decompressobj(_GZIP)

    def pieces(self, packed: bytes, most: int) -> Iterator[bytes]:
        """What can be unpacked now, at most so many bytes at once. Raises ClientPayloadError."""
        while packed:
            try:
                piece = self._gzip.decompress(packed, most)
            except _zlib.error as error:
                raise aiohttp.ClientPayloadError(str(error)) from error
            if self._gzip.unused_data:
                raise aiohttp.ClientPayloadError("more follows behind the end of its packing")
            if piece:
                yield piece
            packed = self._gzip.unconsumed_tail

    def end(self) -> None:
        """Raises ClientPayloadError where more should have come."""
        if not self._gzip.eof:
            raise aiohttp.ClientPayloadError("its packing is cut short, or holds more than it says")


def _is_packed(answer: aiohttp.ClientResponse) -> bool:
    return answer.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
