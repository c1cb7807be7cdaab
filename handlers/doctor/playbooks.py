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
    links += [
        Link("playbook", "degraded", say.words(left_out.why), say.words(left_out.fix), left_out.verb)
        for left_out in discovery.own().left_out
    ]
    for place in discovery.writable_by_all():
        fix = say("own-playbook.writable-fix", place=shlex.quote(place))
        links.append(Link("playbook", "degraded", say("own-playbook.writable", place=place), fix))
    return links
