"""The links between the bot and what it needs, and how they are shown."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from bot.errors import BotError
from bot.texts import Prose, Texts

State = Literal["ok", "degraded", "failed"]
STATES: tuple[State, ...] = get_args(State)
"""The states of a link, the best first."""


class Link(NamedTuple):
    """A link between the bot and what it needs. `about` is its cluster or channel; `seen` what was found, `fix` what to
    do unless it is ok. `error` is that of a failed check. Degraded: the bot runs, but cannot do something that it
    should. Failed: it cannot run, or answer.
    """

    name: str
    state: State
    seen: Prose
    fix: Prose = ""
    about: str = ""
    error: BotError | None = None


def broken(name: str, error: BotError, about: str = "", state: State = "failed") -> Link:
    """A link whose check ended with this error."""
    return Link(name, state, error.message, error.hint, about, error)


def has_failed(links: Iterable[Link]) -> bool:
    """Whether any of the links failed."""
    return any(link.state == "failed" for link in links)


def wrong_with(links: Iterable[Link]) -> Prose:
    """What was found at the first link that failed, else empty."""
    return next((link.seen for link in links if link.state == "failed"), "")


def in_words(links: Iterable[Link], say: Texts) -> list[Link]:
    """The links in the language of `say`."""
    return [link._replace(seen=say.words(link.seen), fix=say.words(link.fix)) for link in links]


def as_text(links: Iterable[Link], say: Texts) -> str:
    """The links as text, a line for each, with its fix under it."""
    shown = [(link, f"{link.name} {link.about}".strip()) for link in in_words(links, say)]
    wide = max((len(name) for _, name in shown), default=0)
    lines: list[str] = []
    for link, name in shown:
        lines.append(f"{link.state:<8}  {name:<{wide}}  {link.seen}")
        if link.fix:
            lines.append(f"{'':<{wide + 12}}{say('doctor.fix')}: {link.fix}")
    return "\n".join(lines)


def as_json(links: Iterable[Link]) -> str:
    """Links in words as JSON: `{"links": [{"name": …, "state": …, "seen": …, "fix": …, "about": …}]}`."""
    rows: list[dict[str, Any]] = [dict(zip(Link._fields[:-1], link[:-1], strict=True)) for link in links]
    return msgspec.json.format(msgspec.json.encode({"links": rows})).decode()
