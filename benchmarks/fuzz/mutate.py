"""Real inputs, changed at random. Far more of them a second than a generator by grammar makes."""

from collections.abc import Sequence
from random import Random

LONGEST = 6000
_PIECES = (
    *(b"\0", b"\xff", b"\xc3\x28", "\u202e".encode(), "—".encode(), "“".encode(), "\ufeff".encode()),
    *(b"\n", b"\r\n", b"\t", b" ", b"'", b'"', b"`", b"\\", b"<!channel>", b"<@U1|x>", b"&amp;", b"*", b"|"),
    *(b"{", b"}", b"[", b"]", b"(", b")", b",", b":", b";", b"=", b"%", b"/", b"..", b"../", b"--", b"-", b"&a *a"),
    *(b"0", b"-1", b"1e999", b"NaN", b"9223372036854775808", b"18446744073709551616", b"0.1", b"null", b"true"),
    *(b"2026-11-21T05:00:00Z", b"9999-12-31T23:59:59Z", b"0000-00-00", b"Gi", b"ml/", b"hami.io/"),
)


def changed(seeds: Sequence[bytes], random: Random, *, is_whole: bool = False) -> bytes:
    """One of the seeds, or a window of a long one unless `is_whole`, with one to six changes."""
    seed = random.choice(seeds)
    data = bytearray(seed if is_whole else _window(seed, random))
    for _ in range(random.choice((1, 1, 2, 2, 3, 6))):
        _change(data, seeds, random)
    return bytes(data)


def _window(seed: bytes, random: Random) -> bytes:
    start = random.randrange(len(seed) - LONGEST + 1) if len(seed) > LONGEST else 0
    return seed[start : start + LONGEST]


def _change(data: bytearray, seeds: Sequence[bytes], random: Random) -> None:
    at = random.randrange(len(data) + 1)
    some = random.choice((1, 1, 2, 4, 16, 64))
    match random.randrange(9):
        case 0 if data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        case 1 if data:
            data[at % len(data)] = random.randrange(256)
        case 2:
            del data[at : at + some]
        case 3:
            data[at:at] = random.choice(_PIECES)
        case 4:
            data[at : at + some] = random.choice(_PIECES)
        case 5:
            data[at:at] = data[at : at + some] * random.choice((1, 2, 8))
        case 6:
            other = random.choice(seeds)
            begin = random.randrange(len(other) + 1)
            data[at : at + some] = other[begin : begin + 2 * some]
        case 7:
            del data[at:]
        case _:
            data[at:at] = bytes(random.randrange(256) for _ in range(some))
