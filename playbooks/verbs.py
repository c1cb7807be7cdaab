"""Every verb that reads a cluster: ours, and those of playbooks that a team added."""

from playbooks.own import discovery
from playbooks.playbook import Playbook, find, load


def verbs() -> tuple[str, ...]:
    """All of them, ours first."""
    return (*load(), *discovery.own().sources)


def is_verb(word: str) -> bool:
    """Whether a playbook answers it. For one of ours nothing else is looked at."""
    return word in load() or word in discovery.own().sources


def playbook_of(verb: str) -> Playbook:
    """The playbook of a verb of `verbs`. Raises OwnPlaybookError for one of a team's that does not work."""
    return find(verb) if verb in load() else discovery.playbook(verb)
