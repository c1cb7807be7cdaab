"""Profiles written by hand, field by field: what no program would send, too."""

from collections.abc import Sequence

SMALLEST = -(1 << 63)


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)


def data(tag: int, value: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(value)) + value


class Writer:
    """A profile of one or more sample types, in the unit that is given; `cpu/nanoseconds` has its own."""

    def __init__(self, *types: str, unit: str = "count") -> None:
        self._texts: dict[bytes, int] = {b"": 0}
        self._parts: list[bytes] = []
        for type_ in types or ("samples",):
            name, _, own = type_.partition("/")
            self._parts.append(data(1, number(1, self.text(name)) + number(2, self.text(own or unit))))

    def text(self, text: str | bytes) -> int:
        text = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return self._texts.setdefault(text, len(self._texts))

    def raw(self, part: bytes) -> "Writer":
        self._parts.append(part)
        return self

    def function(self, identity: int, name: str | bytes) -> "Writer":
        text = self.text(name)
        return self.raw(data(5, number(1, identity) + number(2, text) + number(3, text)))

    def location(self, identity: int, *functions: int) -> "Writer":
        lines = b"".join(data(4, number(1, function) + number(2, 7)) for function in functions)
        return self.raw(data(4, number(1, identity) + number(3, 0x1000 + identity % 1000) + lines))

    def sample(self, stack: Sequence[int], *values: int, packed: bool = True) -> "Writer":
        if packed:
            found = data(1, b"".join(map(varint, stack))) + data(2, b"".join(map(varint, values)))
        else:
            found = b"".join(number(2, value) for value in values) + b"".join(number(1, location) for location in stack)
        return self.raw(data(2, found))

    def bytes(self) -> bytes:
        return b"".join([*self._parts, *(data(6, text) for text in self._texts)])


def chain(depth: int, value: int = 1) -> Writer:
    """One stack of so many functions."""
    writer = Writer()
    for number in range(1, depth + 1):
        writer.function(number, f"main.f{number}").location(number, number)
    return writer.sample(range(1, depth + 1), value)
