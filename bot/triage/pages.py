"""What pagers are to be told of an incident: when to ring, that somebody has it, and that it is over."""

from typing import Literal, NamedTuple

from bot.triage.state import Incident, Step, Turn

Action = Literal["trigger", "acknowledge", "resolve"]
_ACTIONS: dict[Turn, Action] = {
    "paged": "trigger",
    "acknowledged": "acknowledge",
    "taken": "acknowledge",
    "handed-over": "acknowledge",
    "muted": "acknowledge",
    "resolved": "resolve",
    "closed": "resolve",
}


class Page(NamedTuple):
    """What one pager is to be told, by the key that names the page there (`key_of`), and who did it, or empty."""

    service: str
    key: str
    action: Action
    by: str = ""


def key_of(incident_id: str, page: int) -> str:
    """The deduplication key of an incident's page: its id, and for each later page one of its own, since a pager rings
    no second time for one that was acknowledged there.
    """
    return incident_id if page <= 1 else f"{incident_id}.{page}"


def incident_of(key: str) -> str:
    """The incident whose page has that key."""
    return key.partition(".")[0]


def pages(incident_id: str, before: Incident, step: Step, knows: str = "") -> list[Page]:
    """What the step means for the pagers, in order. The one that `knows` it said so itself."""
    found: list[Page] = []
    for news in step.news:
        action = _ACTIONS.get(news.turn)
        if action == "trigger":
            earlier = key_of(incident_id, before.page)
            found += [Page(service, earlier, "resolve") for service in before.paged]
            key = key_of(incident_id, step.incident.page)
            found += [Page(service, key, action) for service in step.incident.paged]
        elif action:
            key = key_of(incident_id, before.page)
            found += [Page(service, key, action, news.by) for service in before.paged if service != knows]
    return found
