"""The Home tab: which changes and incidents are open, what to try, who may do what."""

from collections.abc import Mapping, Sequence

import msgspec

from bot.access import Role
from bot.slack.message import Block
from bot.slack.render import blocks
from bot.slack.render.blocks import ASK, AskButton, value_of
from bot.slack.render.text import bullets, inert, line, rich_text, told
from bot.slack.render.triage_head import Head, in_short
from bot.texts import Prose, Text

OPEN_FORM = "ask-form"
_QUESTIONS = {
    "pending": Text("desk.home-ask-pending"),
    "gpus": Text("desk.home-ask-gpus"),
    "status": Text("desk.home-ask-status"),
}
_MAY: Mapping[Role, Text] = {
    "viewer": Text("desk.home-viewer"),
    "operator": Text("desk.home-operator"),
    "approver": Text("desk.home-approver"),
}
_SHOWN = 10
_LONGEST = 600


class HomeContent(msgspec.Struct, frozen=True):
    """The content of one person's Home tab. `opened` are open changes, a line each; `unread` is why they and incidents
    are not known. `running` questions are being answered, `waiting` messages are on their way to Slack.
    """

    opened: Sequence[Prose]
    unread: str
    running: int
    waiting: int
    clusters: Sequence[str]
    role: Role
    two_person: bool
    incidents: Sequence[Head] = ()


def render_home(seen: HomeContent, example: str) -> blocks.Element:
    """The Home tab's view; `example` is a question as it is typed."""
    asked = [blocks.button(asks, f"{ASK}{words}", value_of(AskButton(words, ""))) for words, asks in _QUESTIONS.items()]
    return blocks.home(
        [
            blocks.header(Text("desk.home-title")),
            blocks.plain_section(Text("desk.home-what")),
            blocks.actions(
                blocks.button(Text("desk.home-ask"), OPEN_FORM, style="primary"),
                blocks.button(Text("desk.home-help"), f"{ASK}help", value_of(AskButton("help", ""))),
            ),
            blocks.header(Text("desk.home-open")),
            *_opened(seen),
            blocks.context(
                Text("desk.home-running", running=seen.running, waiting=seen.waiting),
                Text("desk.home-clusters", clusters=", ".join(seen.clusters) or Text("desk.home-default")),
            ),
            blocks.header(Text("desk.home-try")),
            blocks.actions(*asked),
            blocks.context(
                Text("desk.home-type", example=example), Text("desk.home-thread"), Text("desk.home-shortcut")
            ),
            blocks.header(Text("desk.home-who")),
            blocks.plain_section(_MAY[seen.role]),
            *([blocks.context(Text("desk.home-two-person"))] if seen.two_person else []),
        ]
    )


def _opened(seen: HomeContent) -> list[Block]:
    if seen.unread:
        return [blocks.plain_section(Text("desk.home-unread", why=seen.unread))]
    shown = [rich_text(line(*told(inert(text, _LONGEST)))) for text in seen.opened[:_SHOWN]]
    if seen.incidents:
        shown.append(rich_text(bullets(*(line(*in_short(incident)) for incident in seen.incidents[:_SHOWN]))))
    left = sum(max(0, len(some) - _SHOWN) for some in (seen.opened, seen.incidents))
    shown += [blocks.plain_section(Text("desk.home-more", more=left))] if left else []
    return shown or [blocks.plain_section(Text("desk.home-open-none"))]
