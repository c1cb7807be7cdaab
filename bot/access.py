"""Access: who may change something. Pure. Everybody may read; nobody may change unless the settings name them.

A viewer may ask for no change of a cluster; an operator may ask for temporary changes and end them; an approver may
also decide about changes of others. Ending a change is always the safe direction: the person who asked for it may do so
too, and in every channel. Whoever may ask for changes may also run, in every channel, the check of the bot itself.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Literal, NamedTuple

from bot.texts import Prose, Text

if TYPE_CHECKING:
    from bot.settings.schema import AccessSettings

Role = Literal["viewer", "operator", "approver"]
Action = Literal["raise", "extend", "revert", "approve", "refuse", "examine"]

_WORDS: dict[Action, Text] = {
    "raise": Text("error-access.change-scheduler"),
    "extend": Text("error-access.extend-change"),
    "revert": Text("error-access.revert-change"),
    "approve": Text("error-access.approve-change"),
    "refuse": Text("error-access.refuse-change"),
    "examine": Text("error-access.ask-for-check-bot"),
}


class WhyDenied(NamedTuple):
    """Why an action is denied, for the person who asked; `who`: ids of people who may, `where`: ids of channels."""

    why: Prose
    who: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


def groups_in(access: "AccessSettings") -> tuple[str, ...]:
    """The user groups in the settings, whose members must be known to decide."""
    return tuple(sorted(entry for entry in {*access.operators, *access.approvers} if entry.startswith("S")))


def role_of(access: "AccessSettings", user: str, groups: Collection[str]) -> Role:
    """The highest role of the user, who is a member of `groups`."""
    names = {user, *groups}
    if names.intersection(access.approvers):
        return "approver"
    return "operator" if names.intersection(access.operators) else "viewer"


def why_denied(
    access: "AccessSettings", user: str, groups: Collection[str], channel: str, action: Action, *, requester: str = ""
) -> WhyDenied | None:
    """Why the user may not do `action` in the channel, or None; `requester` is who asked for the change in question."""
    role = role_of(access, user, groups)
    if role == "viewer" or (role == "operator" and action in ("approve", "refuse")):
        ends = action in ("refuse", "revert", "examine") and user == requester
        return None if ends else _not_you(access, action)
    if action == "approve" and user == requester:
        others = tuple(sorted({*access.approvers} - {user}))
        return WhyDenied(Text("error-access.you-asked-yourself"), others)
    if action not in ("raise", "extend"):
        return None
    if access.channels and channel not in access.channels:
        return WhyDenied(Text("error-access.changes-are-not-asked"), where=tuple(sorted(access.channels)))
    if access.two_person and channel.startswith(("D", "U", "W")):
        return WhyDenied(Text("error-access.nobody-else-sees-this"))
    return None


def _not_you(access: "AccessSettings", action: Action) -> WhyDenied:
    deciding = action in ("approve", "refuse")
    who = {*access.approvers} if deciding else {*access.operators, *access.approvers}
    if not who:
        setting = "access.approvers" if deciding else "access.operators"
        return WhyDenied(Text("error-access.nobody-may", action=_WORDS[action], setting=setting))
    return WhyDenied(Text("error-access.you-may-not", action=_WORDS[action]), tuple(sorted(who)))
