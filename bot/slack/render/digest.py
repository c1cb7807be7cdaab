"""Renders a digest, as one line if nothing changed; the list of a channel's digests; and the form that adds one."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from bot.digest.figures import Difference, Figures, OwnerRow, Point, anything_compared, differences, not_compared, step
from bot.render.picture import amount
from bot.report import Report
from bot.slack.message import Block, File, Message
from bot.slack.render import blocks
from bot.slack.render.blocks import Pressed, action_button, value_of
from bot.slack.render.text import SECTION, bullets, escape, inert, line, lines, pieced, rich_text, span
from bot.texts import Prose, Text, clauses, together

_AREAS = {
    "pending": Text("digest-area.pending"),
    "node-faults": Text("digest-area.node-faults"),
    "faulty-nodes": Text("digest-area.faulty-nodes"),
    "locks": Text("digest-area.locks"),
    "locked-nodes": Text("digest-area.locked-nodes"),
    "memory-MiB": Text("digest-area.memory-MiB"),
    "largest-slice-MiB": Text("digest-area.largest-slice-MiB"),
    "idle-GPU-hours": Text("digest-area.idle-GPU-hours"),
    "memory-given-MiB": Text("digest-area.memory-given-MiB"),
    "over-subscription": Text("digest-area.over-subscription"),
    "quotas": Text("digest-area.quotas"),
    "hami": Text("digest-area.hami"),
    "scheduler-restarts": Text("digest-area.scheduler-restarts"),
    "plugin-restarts": Text("digest-area.plugin-restarts"),
    "changes": Text("digest-area.changes"),
}
_WORST, _OWNERS, _KINDS = 3, 2, 4
_NAMED = 4
"""How many changed names of one area are shown: a phone shows ten lines."""
_NAME, _CLAIM, _LINE = 200, 400, 300
_WORD = 80
"""The longest name of a GPU model, an owner or a team."""
_PROMISED = "1.00"
"""The factor of memory that is promised once, and so not over-subscribed."""
OPEN = FORM = "digest_add"
WHEN, AT, ZONE, INPUT = "when", "at", "zone", "text"
_USUAL, _AT, _SOMEWHERE = "weekdays", "09:00", "Asia/Shanghai"


class DigestPost(msgspec.Struct, frozen=True):
    """The content of a digest. `before` is None for the first one; `late` is the time it was due, if that is past.
    `rooms` has each GPU model's newest memory figures. `newer` says that HAMi is newer than any version that the bot
    knows.
    """

    report: Report
    before: Figures | None
    after: Figures
    changes_open: int
    late: str
    owners: Sequence[OwnerRow]
    rooms: Mapping[str, Point]
    newer: str = ""


def render_digest(post: DigestPost, files: Sequence[File] = ()) -> blocks.Draft:
    """A digest as a message; if nothing that could be compared has changed, one line without a picture."""
    report = post.report
    title = together(report.cluster or Text("digest.here"), report.verdict, by=": ")
    notes: list[Prose] = [Text("digest.late", day=post.late)] if post.late else []
    notes += [inert(post.newer, _LINE)] if post.newer else []
    notes += [Text("digest.changes-open", count=post.changes_open)] if post.changes_open else []
    changed = differences(post.before, post.after) if post.before is not None else []
    blind = not_compared(post.before, post.after) if post.before is not None else []
    notes += [Text("digest.not-compared", what=together(*map(_area, blind), by=", "))] if blind else []
    if post.before is not None and not changed and anything_compared(post.before, post.after):
        aloud = pieced("{}. {}", title, Text("digest.unchanged-seen") if blind else Text("digest.unchanged"))
        small = [blocks.context(*notes)] if notes else []
        return blocks.Draft(escape(aloud, 3 * _NAME), (rich_text(line(span(inert(aloud, 3 * _NAME)))), *small))
    built: list[Block] = [rich_text(line(span(inert(title, 3 * _NAME), "bold")))]
    by_area = {area: list(some) for area, some in groupby(changed, key=lambda difference: difference.area)}
    if by_area:
        shown = [
            line(span(_area(area), "bold"), span(pieced(": {}", inert(_items(some), _LINE))))
            for area, some in by_area.items()
        ]
        built.append(rich_text(line(span(Text("digest.changes"), "bold")), bullets(*shown)))
    built += _worst(post)
    built += _rooms(post)
    if post.before is None:
        notes.append(Text("digest.first"))
    if notes:
        built.append(blocks.context(*notes))
    aloud = [escape(pieced("{}: {}", _area(area), _items(some)), _NAME) for area, some in by_area.items()]
    return blocks.Draft(lines([escape(title, 3 * _NAME), *aloud[:3]]), tuple(built), tuple(files))


# --------------------------------------------------------------------------------------------------- what changed


def _area(area: str) -> Prose:
    """The area's name in words, or its key where another version of the bot kept the figures."""
    return _AREAS.get(area) or inert(area, _NAME)


def _items(changed: Sequence[Difference]) -> Text:
    moved = [_moved(difference) for difference in changed if difference.before and difference.after]
    new = [
        difference.what + ("" if difference.after == "1" else f" ({_value(difference.area, difference.after)})")
        for difference in changed
        if not difference.before
    ]
    gone = [difference.what for difference in changed if not difference.after]
    parts = [clauses(_few(moved))] if moved else []
    parts += [Text("digest.new", what=together(*_few(new), by=", "))] if new else []
    parts += [Text("digest.gone", what=together(*_few(gone), by=", "))] if gone else []
    return clauses(parts)


def _few(items: Sequence[Prose], most: int = _NAMED) -> list[Prose]:
    more = len(items) - most
    return [*items[:most], *([Text("digest.more", count=more)] if more > 0 else [])]


def _moved(difference: Difference) -> Text:
    grown = "" if difference.area.endswith("MiB") else step(difference.before, difference.after)
    values = {"before": _value(difference.area, difference.before), "after": _value(difference.area, difference.after)}
    return Text("digest.changed", what=difference.what, step=f" ({grown})" if grown else "", **values)


def _value(area: str, value: str) -> str:
    if area.endswith("MiB") and value.isdecimal():
        return amount(int(value))
    if area.endswith("hours"):
        return f"{value} h"
    return f"{value} %" if area == "quotas" else f"x{value}" if area == "over-subscription" else value


# ------------------------------------------------------------------------------------------- the worst, the room


def _worst(post: DigestPost) -> list[Block]:
    report = post.report
    found: list[Block] = []
    bad = [finding for finding in report.findings if finding.severity != "info"]
    for number, finding in enumerate(bad[:_WORST]):
        action = next((each for each in finding.next_actions if each.is_ours), None)
        button = action_button(action, report.cluster, number) if action else None
        found.append(blocks.plain_section(f"{number + 1}. {inert(finding.claim, _CLAIM)}", accessory=button))
        owners = [_owner(each) for each in post.owners if each.finding == number + 1]
        if owners:
            whose = Text("digest.whose", owners=together(*_few(owners, _OWNERS), by=", "))
            found.append(blocks.context(inert(whose, _LINE)))
    return [rich_text(line(span(Text("digest.worst"), "bold"))), *found] if found else []


def _owner(row: OwnerRow) -> Prose:
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    headline = f"{row.kind} {inert(name, _WORD)}"
    details = [Text("digest.team", team=inert(row.team, _WORD))] if row.team else []
    details += [Text("digest.pods", count=row.pods)] if row.pods > 1 else []
    return pieced("{} ({})", headline, together(*details, by=", ")) if details else headline


def _rooms(post: DigestPost) -> list[Block]:
    """What is given and what is left by GPU model; by how much it is promised, if by more than there is."""
    words: list[Text] = []
    for kind, room in list(post.rooms.items())[:_KINDS]:
        given, memory, largest = map(amount, (room.given, room.memory, room.largest))
        factor = post.after.get(f"over-subscription/{kind} memory", _PROMISED)
        promised = Text("digest.promised", factor=factor) if factor != _PROMISED else ""
        words.append(
            Text("digest.kind", type=inert(kind, _WORD), given=given, memory=memory, largest=largest, promised=promised)
        )
    more = [Text("digest.more", count=len(post.rooms) - _KINDS)] if len(post.rooms) > _KINDS else []
    shown = [line(span(inert(word, _LINE))) for word in (*words, *more)]
    return [rich_text(line(span(Text("digest.room"), "bold")), bullets(*shown))] if shown else []


# --------------------------------------------------------------------------------------------- the digests of a channel


class DigestPlace(Pressed, frozen=True):
    """Where a digest is to be posted, and about which cluster: the values of its button and form."""

    cluster: str = ""
    channel: str = ""


def render_list(digests: Sequence[Prose], ways: Sequence[tuple[str, Prose]], cluster: str) -> blocks.Draft:
    """The channel's digests, the commands for them with what each does, and the button that opens the form."""
    rows = [line(span(inert(digest, SECTION))) for digest in digests or [Text("digest.none")]]
    typed = [
        line(span(inert(words, SECTION), "code"), span(pieced(" {}", inert(does, SECTION)))) for words, does in ways
    ]
    button = blocks.button(Text("digest.form-open"), OPEN, value_of(DigestPlace(cluster)))
    aloud = escape(digests[0] if digests else Text("digest.none"))
    shown = rich_text(bullets(*rows) if digests else rows[0]), rich_text(bullets(*typed))
    return blocks.Draft(aloud, (*shown, blocks.actions(button)))


def render_added(text: str) -> Message:
    """A digest that was added, as rich text, so that the asterisks of a cron expression stay and can be copied."""
    return Message(escape(text), (rich_text(line(span(inert(text, SECTION)))),))


def form(place: DigestPlace, own_zone: str) -> blocks.Element:
    """The form that adds a digest, with the person's time zone where it is known."""
    when = blocks.text_input(INPUT, initial=_USUAL)
    at = {"type": "timepicker", "action_id": INPUT, "initial_time": _AT}
    zone = blocks.text_input(INPUT, initial=own_zone, placeholder=_SOMEWHERE)
    return blocks.modal(
        Text("digest.form-open"),
        [
            blocks.asking(Text("digest.form-when"), when, WHEN, hint=Text("digest.form-hint")),
            blocks.asking(Text("digest.form-at"), at, AT),
            blocks.asking(Text("digest.form-zone"), zone, ZONE),
        ],
        submit=Text("digest.form-open"),
        callback_id=FORM,
        private_metadata=value_of(place),
    )
