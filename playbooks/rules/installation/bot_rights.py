"""The bot itself reads too little of a cluster: what that is, so that nobody takes its silence for health."""

from collections.abc import Iterable

from bot.report import Finding, Gap, step
from bot.texts import Text
from playbooks.gather.scheduling import DEPLOYMENTS_SOURCE, PODS_SOURCE
from playbooks.rules.common.findings import finding

HIDES_HAMI = (DEPLOYMENTS_SOURCE, PODS_SOURCE)
"""Without one of them nothing tells whether HAMi is there."""
_NEEDED = (*HIDES_HAMI, "nodes")


def blind(gaps: Iterable[Gap]) -> list[Finding]:
    """One finding that names what was needed and could not be read. The API server's own words are in the gaps."""
    unread = list(dict.fromkeys(gap.source for gap in gaps if gap.source in _NEEDED))
    if not unread:
        return []
    actions = [step(Text("blind.doctor"), "hami-bot doctor")]
    claim = Text("blind.claim", sources=", ".join(unread))
    return [finding("bot-blind", claim, "suspected", (), (), severity="warning", actions=actions)]
