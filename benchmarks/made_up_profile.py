"""A CPU profile as a large Go service gives: few callees per function, common callers, some calls inlined.

Written field by field as Go's runtime writes it: values before locations, lists of one or two numbers not packed.
"""

import gzip
import random
from pathlib import Path

_PERIOD_NS = 10_000_000
_DEEPEST = 80


def write_profile(path: Path, *, samples: int, functions: int) -> int:
    """Write it, the same each time for the same numbers; its uncompressed size in bytes."""
    made = _MadeUp(functions)
    parts = [
        _number(9, 1_700_000_000 * 10**9),
        made.value_type("samples", "count"),
        made.value_type("cpu", "nanoseconds"),
    ]
    parts += [made.sample() for _ in range(samples)]
    parts += [*made.locations(), *made.functions(), made.mapping(), _number(10, 30 * 10**9), *made.texts()]
    profile = b"".join(parts)
    path.write_bytes(gzip.compress(profile, 1))
    return len(profile)


class _MadeUp:
    def __init__(self, functions: int) -> None:
        self._random = random.Random(1)  # the same each time
        self._texts: dict[str, int] = {"": 0}
        self._count = functions
        choose, near = self._random.choice, 40 / functions
        self._callees = [
            [min(functions - 1, f + 1 + int(self._random.expovariate(near))) for _ in range(choose((1, 2, 2, 3, 4)))]
            for f in range(functions)
        ]
        self._locations: list[list[tuple[int, int]]] = []
        self._sites = [[self._site(f) for _ in range(choose((1, 2, 3, 4)))] for f in range(functions)]
        self._entries = [self._random.randrange(max(1, functions // 50)) for _ in range(20)]

    def _site(self, function: int) -> bytes:
        """A location in the function, in a fifth of them with an inlined callee; its id as it is written."""
        lines = [(function, self._random.randrange(1, 500))]
        if self._random.random() < 0.2:
            lines.insert(0, (self._random.choice(self._callees[function]), self._random.randrange(1, 500)))
        self._locations.append(lines)
        return _varint(len(self._locations))

    def sample(self) -> bytes:
        chance, choose = self._random.random, self._random.choice
        function, stack = choose(self._entries), list[bytes]()
        while len(stack) < _DEEPEST:
            stack.append(choose(self._sites[function]))
            if chance() < 0.03 or function >= self._count - 2:
                break
            function = choose(self._callees[function])
        stack.reverse()
        count = 1 + int(self._random.expovariate(1.2))
        values = _number(2, count) + _number(2, count * _PERIOD_NS)
        few = len(stack) <= 2
        return _data(
            2, values + (b"".join(b"\x08" + location for location in stack) if few else _data(1, b"".join(stack)))
        )

    def locations(self) -> list[bytes]:
        return [
            _data(
                4,
                _number(1, i) + _number(2, 1) + _number(3, 0x400000 + i * 16)
                + b"".join(_data(4, _number(1, function + 1) + _number(2, line)) for function, line in lines),
            )
            for i, lines in enumerate(self._locations, 1)
        ]  # fmt: skip

    def functions(self) -> list[bytes]:
        found: list[bytes] = []
        for f in range(self._count):
            name = self._text(f"example.com/svc/pkg{f % 97}.(*Type{f % 301}).method{f}")
            file = self._text(f"/src/pkg{f % 97}/file{f % 301}.go")
            found.append(_data(5, _number(1, f + 1) + _number(2, name) + _number(3, name) + _number(4, file)))
        return found

    def mapping(self) -> bytes:
        file = self._text("/bin/service")
        return _data(3, _number(1, 1) + _number(2, 0x400000) + _number(3, 0x9000000) + _number(5, file) + _number(7, 1))

    def value_type(self, kind: str, unit: str) -> bytes:
        return _data(1, _number(1, self._text(kind)) + _number(2, self._text(unit)))

    def texts(self) -> list[bytes]:
        return [_data(6, text.encode()) for text in self._texts]

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _data(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(value)) + value
