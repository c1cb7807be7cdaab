"""A profile as a tree of frames with places on a page: what the picture and the page of a flame graph share.

The root is on top. Siblings stand in the order of their names, so that pictures of two profiles can be laid side by
side. What is too narrow to see is left out, and said.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

NARROWEST = 0.0015
"""The part of the width below which a frame is left out."""
DEEPEST = 40

Colour = tuple[int, int, int]

OWN = "own code"
COLOURS: dict[str, Colour] = {
    "garbage collection": (122, 144, 137),
    "runtime": (222, 224, 226),
    "encoding": (245, 205, 50),
    "locks": (229, 119, 90),
    "system calls": (164, 124, 185),
    "network": (110, 218, 165),
    "other std": (182, 211, 247),
    OWN: (65, 140, 239),
}
"""What frames are drawn in, by what they belong to: Go's own packages, and the rest.

Any two are at least 15 apart in CIELAB for whoever sees no red, green or blue as well, and dark text is legible on all.
"""
ROOT: Colour = (255, 255, 255)
"""The frame of everything belongs to nothing."""

_GC = ("runtime.gc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.scan", "runtime.greyobject", "runtime.mark")
_PREFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("garbage collection", _GC),
    ("locks", ("sync.", "internal/sync.", "runtime.semacquire", "runtime.semrelease", "runtime.lock", "runtime.futex")),
    ("system calls", ("syscall.", "internal/runtime/syscall", "os.", "internal/poll.", "runtime.cgocall")),
    ("encoding", ("encoding/", "github.com/json-iterator/", "sigs.k8s.io/json", "google.golang.org/protobuf")),
    ("network", ("net.", "net/", "crypto/", "golang.org/x/net/")),
    ("runtime", ("runtime.", "runtime/", "internal/runtime/")),
)


class Sample(NamedTuple):
    """A stack, the root first, and what it weighs (not below zero)."""

    stack: Sequence[str]
    value: float


class Box(NamedTuple):
    """A frame on the page. `left` and `width` are parts of the whole width, `row` counts from the root, which is 0."""

    name: str
    row: int
    left: float
    width: float
    value: float


class Flame(NamedTuple):
    """The frames to draw. `total` is what all stacks weigh; `hidden` frames were too narrow, `deeper` ones too deep."""

    boxes: tuple[Box, ...]
    total: float
    rows: int
    hidden: int
    deeper: int


def lay_out(samples: Iterable[Sample]) -> Flame:
    """The frames of these stacks, row by row: what is too narrow to see takes no memory for what it calls."""
    live = [(stack[:DEEPEST], value, 0) for stack, value in samples if value > 0]
    total = float(sum(value for _, value, _ in live))
    if not total:
        return Flame((), 0.0, 0, 0, 0)
    boxes = callers = [Box("all", 0, 0.0, 1.0, total)]
    hidden = deeper = 0
    for row in range(1, DEEPEST + 1):
        live = [stack for stack in live if len(stack[0]) >= row]
        values: dict[tuple[int, str], float] = {}
        for stack, value, caller in live:
            frame = caller, stack[row - 1]
            values[frame] = values.get(frame, 0.0) + value
        if row == DEEPEST:
            deeper = len(values)
            break
        lefts = [box.left for box in callers]
        shown: dict[tuple[int, str], int] = {}
        callees: list[Box] = []
        for frame in sorted(values):
            caller, name = frame
            width = values[frame] / total
            if width < NARROWEST:
                hidden += 1
            else:
                shown[frame] = len(callees)
                callees.append(Box(name, row, lefts[caller], width, values[frame]))
            lefts[caller] += width
        live = [(stack, value, shown[frame]) for stack, value, at in live if (frame := (at, stack[row - 1])) in shown]
        boxes, callers = [*boxes, *callees], callees
    boxes.sort(key=lambda box: (box.row, box.left))
    return Flame(tuple(boxes), total, boxes[-1].row + 1, hidden, deeper)


def group_of(name: str) -> str:
    """What a Go function's name says it belongs to: a key of `COLOURS`."""
    for group, prefixes in _PREFIXES:
        if name.startswith(prefixes):
            return group
    package = package_of(name)
    return "other std" if package != name and package.split("/")[0] in _STD_TOPS else OWN


def colour_of(box: Box) -> Colour:
    """The colour of a frame."""
    return COLOURS[group_of(box.name)] if box.row else ROOT


def package_of(name: str) -> str:
    """`k8s.io/klog/v2` of `k8s.io/klog/v2.(*loggingT).output`; the whole name where there is no package."""
    slash = name.rfind("/", 0, name.find("(") if "(" in name else len(name)) + 1
    dot = name.find(".", slash)
    return name[:dot] if dot > 0 else name


def short(name: str) -> str:
    """The function with the last element of its package's path: `klog/v2.(*loggingT).output`."""
    package = package_of(name)
    parts = package.split("/")
    versioned = len(parts) > 1 and parts[-1][:1] == "v" and parts[-1][1:].isdigit()
    return "/".join(parts[-2:] if versioned else parts[-1:]) + name[len(package) :]


def legend(boxes: Iterable[Box]) -> Iterator[tuple[str, Colour]]:
    """The groups that occur with their colours, own code last."""
    found = {group_of(box.name) for box in boxes if box.row}
    yield from ((group, colour) for group, colour in COLOURS.items() if group in found)


_STD_TOPS = frozenset(
    {
        "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "database", "embed", "errors", "expvar",
        "flag", "fmt", "go", "hash", "html", "image", "internal", "io", "iter", "log", "maps", "math", "mime", "path",
        "plugin", "reflect", "regexp", "slices", "sort", "strconv", "strings", "testing", "text", "time", "unicode",
        "unique", "unsafe", "weak",
    }
)  # fmt: skip
"""The first elements of the standard library's package paths (Go 1.27) that are in no other group."""
