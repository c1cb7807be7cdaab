"""The links to playbooks of a team's own: each of them can be asked, or the line says why not."""

import shlex

from bot.texts import Texts
from handlers.doctor.links import Link
from playbooks.own import discovery


def examine_playbooks(say: Texts) -> list[Link]:
    """A line for each that was found. Imports all of them."""
    links = [
        Link("playbook", "degraded", error.message, error.hint, source.verb)
        if error
        else Link("playbook", "ok", say("own-playbook.found", place=source.place), about=source.verb)
        for source, error in discovery.import_all()
    ]
    for left_out in discovery.own().left_out:
        seen = say(f"own-playbook.{left_out.why}", place=left_out.place, verb=left_out.verb)
        links.append(
            Link(
                "playbook",
                "degraded",
                seen,
                say(f"own-playbook.{left_out.why}-fix", place=left_out.place),
                left_out.verb,
            )
        )
    for place in discovery.writable_by_all():
        fix = say("own-playbook.writable-fix", place=shlex.quote(place))
        links.append(Link("playbook", "degraded", say("own-playbook.writable", place=place), fix))
    return links
