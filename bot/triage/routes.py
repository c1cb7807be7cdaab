"""Which alerts go where: the settings' routes, with matchers as prometheus/alertmanager reads them (`pkg/labels`)."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import re2 as untyped

from bot.errors import WrongValue
from bot.texts import Prose, Text
from bot.triage.cause import Cause

re2: Any = untyped

EXAMPLE = """severity="critical", team!="storage" or alertname=~"GPU.*\""""
_MATCHER = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r'[^"\\]*')
_ESCAPE = re.compile(r'\\(["\\n])')
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MAX_MEMORY = 8 << 20  # of one compiled pattern: RE2 refuses what needs more

Holds = Callable[[str], bool]


class Matcher(NamedTuple):
    """A condition on a label's value; a label that is not there has an empty value."""

    label: str
    holds: Holds


class Route(NamedTuple):
    """A rule for alerts that fit all `matchers`: they go to `channel`, or are ignored if that is empty. `group_by` are
    labels: alerts with equal values of them share a thread, instead of those of one cause. `name` tells this route from
    others.
    """

    name: str
    matchers: tuple[Matcher, ...]
    channel: str
    group_by: tuple[str, ...] = ()


class Ignored(NamedTuple):
    """The alerts that routes ignore: how many are `firing`, how many `alerts` are kept, and the firing `names`."""

    firing: int = 0
    alerts: int = 0
    names: tuple[str, ...] = ()


def read_route(match: Sequence[str], channel: str, group_by: Sequence[str] = ()) -> Route:
    """A route of the settings. Raises ValueError that says which matcher or label is wrong, by its place."""
    for place, label in enumerate(group_by, 1):
        if not _LABEL.fullmatch(label):
            raise WrongValue(Text("error-settings.entry-is-no-label", place=place))
    matchers = [
        read_matcher(text, Text("error-settings.entry-of-match", place=place)) for place, text in enumerate(match, 1)
    ]
    return Route("\0".join(match), tuple(matchers), channel, tuple(group_by))


def read_matcher(text: str, place: Prose = "this") -> Matcher:
    """The matcher in a text: a label, `=`, `!=`, `=~` or `!~`, and a value, with or without quotation marks. Raises
    ValueError, which calls the text `place`.
    """
    found = _MATCHER.fullmatch(text)
    value = _value(found[3]) if found else None
    if found is None or value is None:
        raise WrongValue(Text("error-settings.no-matcher", place=place, example=EXAMPLE))
    holds: Holds = _pattern(value, place) if "~" in found[2] else lambda given: given == value

    def fails(given: str) -> bool:
        return not holds(given)

    return Matcher(found[1], fails if "!" in found[2] else holds)


def route_of(labels: Mapping[str, str], routes: Sequence[Route]) -> Route | None:
    """The first route whose matchers all fit the alert's labels; None if no route does."""
    return next((route for route in routes if all(it.holds(labels.get(it.label, "")) for it in route.matchers)), None)


def threaded(cause: Cause, labels: Mapping[str, str], route: Route | None, usual: str) -> Cause:
    """The cause with the signature of the thread that an alert with these labels belongs to; all else stays as it is.
    In the `usual` channel a cause has its own thread, in any other one for each channel, and with `group_by` alerts of
    one route with equal label values share a thread.
    """
    if route is None or (route.channel == usual and not route.group_by):
        return cause
    values = [labels.get(label, "") for label in route.group_by]
    facts = (route.name, route.group_by, values) if route.group_by else (cause.signature,)
    signature = hashlib.sha256(msgspec.json.encode(("routed", route.channel, *facts))).hexdigest()[:16]
    return msgspec.structs.replace(cause, signature=signature)


def _value(text: str) -> str | None:
    """The matcher's value without its quotation marks; None for a text that is no value."""
    if quoted := _QUOTED.fullmatch(text):
        return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], quoted[1])
    return text if text and _BARE.fullmatch(text) else None


def _pattern(pattern: str, place: Prose) -> Holds:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        fullmatch: Callable[[str], object] = re2.compile(pattern, options=options).fullmatch
    except re2.error as error:
        raise WrongValue(Text("error-settings.wrong-regexp", place=place)) from error
    return lambda given: fullmatch(given) is not None
