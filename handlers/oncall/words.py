"""Reads the words that people write to a triage thread: `triage ack`, `triage note rebooted gpu-7`, `oncall`."""

import difflib
import re
from collections.abc import Sequence
from typing import Literal, get_args

import click
import msgspec

from bot.digest.schedule import DAYS, Schedule, read_schedule
from bot.errors import UsageError, not_understood
from bot.kube.times import read_duration
from bot.texts import Prose, Text
from bot.triage.state import Deed
from handlers.parsing.grammar import plain_command

Verb = Literal["list", "report", "export", "show", "remind"]
_SOME_ID = "3fa29c1b"
REPORT_EXAMPLE, REPORT_OFF = "oncall report weekly mon 09:00 Asia/Shanghai", Text("error-oncall.report-off-ends-it")
REPORT_EXAMPLES = f"/hami oncall report, /hami {REPORT_EXAMPLE}"
EXAMPLES = {"triage": f"triage note {_SOME_ID} rebooted gpu-7", "oncall": "oncall"}
SUMMARIES = {
    "triage": "Act on an incident by its id, or in its thread: "
    "ack, take, note, handover, mute, unmute, remind, close, export.",
    "oncall": "Which incidents are open, whose they are, and who is called; oncall report sums up the last 7 days; "
    f"{REPORT_EXAMPLE} posts that here every week, oncall report off ends it.",
}
DIGEST_EXAMPLE, CRON_EXAMPLE = "digest daily 09:00 Asia/Shanghai", "digest 0 9 * * 1-5 Europe/Berlin"
DIGEST_SUMMARY = "Post the digest in this channel every day, or as often as you say."
DIGEST_GRAMMAR = f"""\b
digest now
  posts it here now.
{DIGEST_EXAMPLE} (or weekdays, or mon,thu)
  posts it here on that schedule.
{CRON_EXAMPLE}
  does the same with a cron expression.
digest
  lists this channel's digests.
digest stop ID
  removes one."""
r"""The forms of `digest`. Click wraps no line of a paragraph after `\b`: a broken form cannot be copied."""
DEEDS: dict[str, Deed] = {**{deed: deed for deed in get_args(Deed)}, "acknowledge": "ack"}
"""What each word does to an incident."""
_OTHERS: dict[str, Verb] = {"open": "list", "list": "list", "export": "export", "show": "show", "remind": "remind"}
_INCIDENT = re.compile(r"[0-9a-f]{8}")
_NODE = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_PERSON = re.compile(r"<?[@]?([UWS][A-Z0-9]{2,})(?:\|[^>]*)?>?")
_CLOCK = re.compile(r"\d{1,2}(:\d\d){1,2}([ap]m)?|\d{1,2}[ap]m", re.IGNORECASE)
_LONGEST_MUTE_S = 7 * 86400.0


class IncidentRequest(msgspec.Struct, frozen=True):
    """A request about an incident; `incident` is empty for that of the thread.

    A reminder comes in `seconds`, 0: tomorrow at 9:00 where the person is. A mute lasts for `seconds`, or until `node`
    is registered, or with neither as long as its cause. `posted`: the schedule of a weekly report, or `off` to end it.
    """

    what: Deed | Verb
    incident: str = ""
    text: str = ""
    to: str = ""
    seconds: float = 0.0
    node: str = ""
    posted: Schedule | Literal["off"] | None = None


def oncall_commands(program: str) -> list[click.Command]:
    """The verbs `triage` and `oncall` for the grammar's help, with `program` before them. `read_words` reads them."""
    words = click.Argument(["words"], nargs=-1, metavar="[WORDS]…")
    return [plain_command(verb, [words], SUMMARIES[verb], f"{program} {EXAMPLES[verb]}") for verb in EXAMPLES]


def read_words(words: Sequence[str], *, mentioned: bool = False) -> IncidentRequest:
    """Reads the request from the words, `triage` or `oncall` first. Raises UsageError, whose hint is an example. People
    are ids, as Slack writes them (`<@U0123ABCD>`) or bare; if the bot was not `mentioned`, they are only names.
    """
    verb, rest = (words[0].casefold() if words else ""), list(words[1:])
    if verb == "oncall":
        return _of_oncall(rest)
    if not rest:
        return IncidentRequest("show")
    word, *rest = rest
    incident = ""
    if rest and _INCIDENT.fullmatch(rest[0]):
        incident, *rest = rest
    known: dict[str, Deed | Verb] = {**DEEDS, **_OTHERS}
    what = known.get(word.casefold())
    if what is None:
        raise _wrong(not_understood(word, known))
    return _with_rest(IncidentRequest(what, incident), rest, mentioned=mentioned)


def _of_oncall(rest: Sequence[str]) -> IncidentRequest:
    if not rest:
        return IncidentRequest("list")
    if (word := rest[0].casefold()) != "report":
        near = difflib.get_close_matches(word, ["report"])
        known = Text("error-oncall.only-report-follows", word=repr(rest[0]))
        raise UsageError(not_understood(rest[0], ["report"]) if near else known, example=REPORT_EXAMPLES)
    match [rest[1].casefold(), *rest[2:]] if len(rest) > 1 else []:
        case []:
            return IncidentRequest("report")
        case ["weekly", *when]:
            return IncidentRequest("report", posted=_every_week(when))
        case ["off" | "stop"]:
            return IncidentRequest("report", posted="off")
        case _:
            raise UsageError(Text("error-oncall.too-much-for-report", rest=repr(rest[1])), example=REPORT_EXAMPLES)


def _every_week(when: Sequence[str]) -> Schedule:
    """A day, a time and a zone, in this order; each may be left out, for Monday, 09:00 and UTC."""
    left = list(when)
    day = left.pop(0) if left and left[0][:3].casefold() in DAYS and "," not in left[0] else "mon"
    at = left.pop(0) if left and ":" in left[0] else "09:00"
    zone = left.pop(0) if left else "UTC"
    if left:
        raise UsageError(Text("error-oncall.too-much", words=repr(left[0])), example=REPORT_EXAMPLES)
    schedule = read_schedule(day, at, zone)
    if isinstance(schedule, Text):
        raise UsageError(schedule, example=REPORT_EXAMPLES)
    return schedule


def _with_rest(asked: IncidentRequest, rest: list[str], *, mentioned: bool) -> IncidentRequest:
    match asked.what:
        case "note" if not rest:
            raise _wrong(Text("error-oncall.note-needs-text"), "triage note rebooted gpu-7")
        case "note" | "close":
            return msgspec.structs.replace(asked, text=" ".join(rest))
        case "handover":
            found = _PERSON.fullmatch(rest[0]) if len(rest) == 1 else None
            if found is None and mentioned:
                where = f"triage handover {asked.incident}" if asked.incident else "handover"
                raise UsageError(Text("error-oncall.handover-needs-person"), example=f"@hami-bot {where} @ada")
            if found is None:
                raise _wrong(Text("error-oncall.handover-in-command"), "triage handover @ada")
            return msgspec.structs.replace(asked, to=found[1])
        case "mute":
            seconds, node = read_mute(rest)
            return msgspec.structs.replace(asked, seconds=seconds, node=node)
        case "remind":
            return msgspec.structs.replace(asked, seconds=read_reminder(rest))
        case _ if rest:
            raise _wrong(Text("error-oncall.too-much", words=repr(rest[0])))
        case _:
            return asked


def read_mute(words: Sequence[str]) -> tuple[float, str]:
    """How long a mute lasts: seconds, or until a node registers; with neither, as long as its cause. Raises UsageError.
    The words are `2h`, `for 2h`, `until gone`, `until resolved`, `until node gpu-7 registers`, or none.
    """
    match words:
        case [] | ["until", "gone" | "resolved"]:
            return 0.0, ""
        case ["until", "node", name] | ["until", "node", name, "registers" | "re-registers"] if _NODE.fullmatch(name):
            return 0.0, name
        case ["for", text] | [text]:
            seconds = read_duration(text)
            if seconds is not None and 0 < seconds <= _LONGEST_MUTE_S:
                return seconds, ""
        case _:
            pass
    if any(map(_CLOCK.fullmatch, words)):
        raise _wrong(Text("error-oncall.no-time-of-day"), "triage mute 7h")
    raise _wrong(Text("error-oncall.mute-lasts"), "triage mute 2h")


def read_reminder(words: Sequence[str]) -> float:
    """In how many seconds a reminder comes, 0: tomorrow at 9:00; from words such as `me in 1h`. Raises UsageError."""
    match [word.casefold() for word in words if word.casefold() not in ("me", "in", "at")]:
        case ["tomorrow"] | ["tomorrow", "9:00" | "09:00" | "9" | "9am"]:
            return 0.0
        case [text] if (seconds := read_duration(text)) is not None and 0 < seconds <= _LONGEST_MUTE_S:
            return seconds
        case _:
            raise _wrong(Text("error-oncall.remind-when"), "triage remind 30m")


def _wrong(message: Prose, example: str = "triage ack") -> UsageError:
    verb, deed, *rest = example.split()
    hint = Text("error-oncall.outside-thread-add-id", words=" ".join((verb, deed, _SOME_ID, *rest)))
    if deed == "handover":  # to a person, whom a command cannot name
        hint = Text("error-oncall.use-mention-incident-thread")
    return UsageError(message, hint=hint, example=f"@hami-bot {example}")
