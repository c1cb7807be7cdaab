"""The links to playbooks of a team's own: each of them can be asked, or the line says why not."""

import shlex

from bot.texts import Text
from handlers.doctor.links import Link
from playbooks.own import discovery


def examine_playbooks() -> list[Link]:
    """A line for each that was found. Imports all of them."""
    links = [
        Link("playbook", "degraded", error.message, error.hint, source.verb)
        if error
        else Link("playbook", "ok", Text("own-playbook.found", place=source.place), about=source.verb)
        for source, error in discovery.import_all()
    ]
    links += [
        Link("playbook", "degraded", left_out.why, left_out.fix, left_out.verb) for left_out in discovery.own().left_out
    ]
    for place in discovery.writable_by_all():
        fix = Text("own-playbook.writable-fix", place=shlex.quote(place))
        links.append(Link("playbook", "degraded", Text("own-playbook.writable", place=place), fix))
    return links
