"""Draws a profile as a flame graph, root on top: an HTML page, or a PNG that is sharp at Slack's preview size.

Siblings are sorted by name, so that two profiles can be laid side by side. Frames too narrow to see are left out and
counted. The page is self-contained. Every name comes from a foreign process: all text is escaped, and the page allows
no script but its own. The same profile gives the same bytes.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from bot.pprof.hints import is_own
from bot.render.picture_text import FAINT, FRAME, Canvas, Ink, fitted
from bot.render.words import visible
from bot.texts import Text, Texts, together

NARROWEST = 0.0015
"""The least part of the whole width that a frame must have to be drawn."""
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
"""The colours of frames, by the group of their function. Any two are at least 15 apart in CIELAB, also for colour-blind
people, and dark text is legible on all."""
ROOT: Colour = (255, 255, 255)
"""The colour of the root frame, which belongs to no group."""

_GC = ("runtime.gc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.scan", "runtime.greyobject", "runtime.mark")
_PREFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("garbage collection", _GC),
    ("locks", ("sync.", "internal/sync.", "runtime.semacquire", "runtime.semrelease", "runtime.lock", "runtime.futex")),
    ("system calls", ("syscall.", "internal/runtime/syscall", "os.", "internal/poll.", "runtime.cgocall")),
    ("encoding", ("encoding/", "github.com/json-iterator/", "sigs.k8s.io/json", "google.golang.org/protobuf")),
    ("network", ("net.", "net/", "crypto/", "golang.org/x/net/")),
    ("runtime", ("runtime.", "runtime/", "internal/runtime/")),
)


class StackSample(NamedTuple):
    """A stack, the root first, and its weight (not below zero)."""

    stack: Sequence[str]
    value: float


class Box(NamedTuple):
    """A frame of a flame graph. `left` and `width` are parts of the whole width, `row` is 0 for the root."""

    name: str
    row: int
    left: float
    width: float
    value: float


class Flame(NamedTuple):
    """A flame graph. `total` is the weight of all stacks; `hidden` frames were too narrow, `deeper` ones too deep."""

    boxes: tuple[Box, ...]
    total: float
    rows: int
    hidden: int
    deeper: int


def lay_out(samples: Iterable[StackSample]) -> Flame:
    """The frames of these stacks, row by row. To save memory, callees of frames too narrow to see are not laid out."""
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
    """The group that a Go function belongs to by its name: a key of `COLOURS`."""
    for group, prefixes in _PREFIXES:
        if name.startswith(prefixes):
            return group
    return OWN if is_own(name) or package_of(name) == name else "other std"


def colour_of(box: Box) -> Colour:
    return COLOURS[group_of(box.name)] if box.row else ROOT


def package_of(name: str) -> str:
    """The package of a Go function: `k8s.io/klog/v2` of `k8s.io/klog/v2.(*loggingT).output`; else the whole name."""
    slash = name.rfind("/", 0, name.find("(") if "(" in name else len(name)) + 1
    dot = name.find(".", slash)
    return name[:dot] if dot > 0 else name


def short(name: str) -> str:
    """The function's name with only the last element of its package's path: `klog/v2.(*loggingT).output`."""
    package = package_of(name)
    parts = package.split("/")
    versioned = len(parts) > 1 and parts[-1][:1] == "v" and parts[-1][1:].isdigit()
    return "/".join(parts[-2:] if versioned else parts[-1:]) + name[len(package) :]


def legend(boxes: Iterable[Box]) -> Iterator[tuple[str, Colour]]:
    """The groups that occur among the frames, with their colours, own code last."""
    found = {group_of(box.name) for box in boxes if box.row}
    yield from ((group, colour) for group, colour in COLOURS.items() if group in found)


# ------------------------------------------------------------------------------------------------------------- the page

_PAGE_ROW = 20

_STYLE = """
:root{color-scheme:light dark}body{font:13px system-ui,sans-serif;margin:16px}h1{font-size:18px;margin:0 0 4px}
h1,p{overflow-wrap:anywhere}p{margin:0 0 10px;opacity:.75}#bar,#legend{display:flex;flex-wrap:wrap;gap:8px}
#bar,#legend{margin:0 0 10px;padding:0;list-style:none}#legend{gap:4px 16px}
#legend span{display:inline-block;width:12px;height:12px;margin-right:6px;border-radius:1px}
#graph{position:relative;width:100%}
#graph button{position:absolute;height:19px;border:0;padding:0;text-indent:4px;text-align:left;overflow:hidden;
white-space:nowrap;font:12px system-ui,sans-serif;color:#181818;cursor:pointer;border-radius:1px}
#graph button[data-r="0"]{box-shadow:inset 0 0 0 1px #767676}
#graph button:focus{outline:2px solid #0b57d0;z-index:1}#graph .dim{opacity:.35}#graph .off{display:none}
#said{min-height:1.4em}
"""

_SCRIPT = """
const graph=document.getElementById('graph'),said=document.getElementById('said');
const search=document.getElementById('search');
const frames=[...graph.children].map(e=>({e,l:+e.dataset.l,w:+e.dataset.w,r:+e.dataset.r}));
let root=frames[0];
function place(){for(const f of frames){const out=f.l+f.w<=root.l+1e-6||f.l>=root.l+root.w-1e-6;
const above=f.r<root.r&&!out;f.e.classList.toggle('off',out);if(out)continue;
f.e.style.left=(above?0:(f.l-root.l)/root.w*100)+'%';
f.e.style.width='calc('+(above?100:f.w/root.w*100)+'% - 1px)';f.e.classList.toggle('dim',above);}}
function find(){const t=search.value.toLowerCase();let sum=0,edge=-1;
for(const f of frames){const hit=t&&f.e.title.toLowerCase().includes(t);
f.e.style.filter=hit?'saturate(2.5) brightness(.8)':'';}
if(t){const hits=frames.filter(f=>f.e.title.toLowerCase().includes(t)).sort((a,b)=>a.l-b.l||a.r-b.r);
for(const f of hits)if(f.l>=edge-1e-9){sum+=f.w;edge=f.l+f.w;}said.textContent=(sum*100).toFixed(1)+'% matched';}
else said.textContent='';}
graph.addEventListener('click',e=>{const f=frames.find(f=>f.e===e.target);
if(f){root=f;place();said.textContent=f.e.title;}});
document.getElementById('reset').addEventListener('click',()=>{root=frames[0];place();});
search.addEventListener('input',find);
document.addEventListener('keydown',e=>{if(e.key==='Escape'){root=frames[0];place();}});
for(const f of frames)f.e.style.top=f.r*ROW+'px';
for(const e of document.querySelectorAll('[data-c]'))e.style.background=e.dataset.c;
graph.style.height=(Math.max(...frames.map(f=>f.r))+1)*ROW+'px';place();
""".replace("ROW", str(_PAGE_ROW))


def flame_page(flame: Flame, title: str, subtitle: str) -> str:
    """The flame graph as an HTML page. `title` and `subtitle` are foreign text, as all names are."""
    policy = f"default-src 'none'; script-src '{_hash(_SCRIPT)}'; style-src '{_hash(_STYLE)}'"
    head, about = escape(visible(title)), escape(visible(subtitle))
    is_cut = flame.hidden or flame.deeper
    left = f". {flame.hidden} narrow and {flame.deeper} deep frames are left out." if is_cut else ""
    frames = "\n".join(
        f'<button type="button" data-l="{box.left:.7f}" data-w="{box.width:.7f}" data-r="{box.row}" '
        f'data-c="{_css(colour_of(box))}" title="{escape(visible(box.name))} {box.width:.2%}">'
        f"{escape(visible(short(box.name)))}</button>"
        for box in flame.boxes
    )
    colours = "".join(f'<li><span data-c="{_css(colour)}"></span>{group}</li>' for group, colour in legend(flame.boxes))
    script = f"<script>{_SCRIPT}</script>" if flame.boxes else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<title>{head}</title><style>{_STYLE}</style></head>
<body><main><h1>{head}</h1><p>{about}{left}</p>
<div id="bar"><button id="reset" type="button">Whole graph</button>
<input id="search" type="search" aria-label="Search functions" placeholder="Search functions">
<span id="said" role="status"></span></div>
<ul id="legend" aria-label="Colours">{colours}</ul>
<div id="graph">
{frames or "<p>no samples</p>"}
</div></main>{script}</body></html>
"""


def _css(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ---------------------------------------------------------------------------------------------------------- the picture

_WIDTH = 1600
_MARGIN, _HEAD, _FOOT, _ROW, _GAP = 24, 84, 52, 26, 1
_TITLE, _TEXT, _FRAME = 26, 16, 15
_LEAST_ROOM = 26
"""The width in pixels below which a frame has no text, because it would not be legible."""
_INK: Ink = (24, 24, 24)
_GROUPS = {
    OWN: Text("flame-group.own code"),
    "garbage collection": Text("flame-group.garbage collection"),
    "runtime": Text("flame-group.runtime"),
    "encoding": Text("flame-group.encoding"),
    "locks": Text("flame-group.locks"),
    "system calls": Text("flame-group.system calls"),
    "network": Text("flame-group.network"),
    "other std": Text("flame-group.other std"),
}


def flame_picture(flame: Flame, title: str, subtitle: str, say: Texts) -> bytes:
    """The flame graph as PNG. `title`: whose profile; `subtitle`: its kind, total and time; both foreign text."""
    rows = max(flame.rows, 1)
    canvas = Canvas((_WIDTH, _HEAD + rows * _ROW + _FOOT), say)
    room = _WIDTH - 2 * _MARGIN
    canvas.write((_MARGIN, 16), visible(title), size=_TITLE, ink=_INK, room=room)
    canvas.write((_MARGIN, 52), visible(subtitle), size=_TEXT, ink=FAINT, room=room)
    for box in flame.boxes:
        _draw(canvas, box)
    if not flame.boxes:
        canvas.write((_MARGIN, _HEAD), Text("picture.no-samples"), size=_TEXT, ink=FAINT)
    x, y = _MARGIN, canvas.image.height - _FOOT + 18
    for group, colour in legend(flame.boxes):
        canvas.draw.rectangle((x, y + 2, x + 14, y + 16), fill=colour)
        x = canvas.write((x + 20, y), _GROUPS[group], size=_TEXT, ink=_INK) + 22
    narrow = Text("picture.narrow", count=flame.hidden) if flame.hidden else ""
    said = together(narrow, Text("picture.deeper", count=flame.deeper) if flame.deeper else "", by=", ")
    text = fitted(say.words(said), _TEXT, max(_WIDTH - _MARGIN - x, 0))
    canvas.write((_WIDTH - _MARGIN - canvas.wide(text, _TEXT), y), text, size=_TEXT, ink=FAINT)
    return canvas.png(64)


def flame_alt_text(flame: Flame, title: str) -> Text:
    """A flame graph's picture in words: the largest functions of own code, by their cumulative weight."""
    by_name: dict[str, float] = {}
    for box in flame.boxes:
        if box.row and group_of(box.name) == OWN:
            by_name[box.name] = max(by_name.get(box.name, 0.0), box.width)
    largest = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))[:3]
    shares = ", ".join(f"{visible(short(name))} {part:.0%}" for name, part in largest)
    return Text("picture.flame", title=visible(title), shares=shares or Text("words.none"))


def _draw(canvas: Canvas, box: Box) -> None:
    room = _WIDTH - 2 * _MARGIN
    left, right = round(_MARGIN + box.left * room), round(_MARGIN + (box.left + box.width) * room)
    top = _HEAD + box.row * _ROW
    edge = None if box.row else FRAME
    place = (left, top, max(right - 1 - _GAP, left), top + _ROW - 1 - _GAP)
    canvas.draw.rectangle(place, fill=colour_of(box), outline=edge)
    space = right - left - 10
    if space < _LEAST_ROOM:
        return
    name, part = visible(short(box.name)), f"  {box.width:.1%}"
    if canvas.wide(name + part, _FRAME) <= space:
        name += part
    canvas.write((left + 5, top + 4), name, size=_FRAME, ink=_INK, room=space)
