"""The clock of this machine against the API server's: too far apart, no temporary change is raised from here."""

from datetime import UTC, datetime

from bot.changes.deadline import skewed
from bot.kube.cluster import Clocks
from bot.kube.times import format_time
from bot.report import Evidence, Finding, step
from bot.texts import Text
from playbooks.rules.common.findings import finding


def wrong_clock(clocks: Clocks | None) -> list[Finding]:
    """At most one; none of a recording, which has no clock of its own."""
    why = skewed(clocks.skew_s) if clocks else None
    if clocks is None or why is None:
        return []
    served, here = (format_time(datetime.fromtimestamp(moment, UTC)) for moment in (clocks.served, clocks.here))
    quote = f"Date: {clocks.date}; this machine's clock: {here}"
    command = "kubectl get --raw /version -v=8 2>&1 | grep -i date; date -u"
    proof = Evidence("API server", "the API server's answer", served, quote, command)
    set_it = step(Text("status.set-clock"), "timedatectl timesync-status")
    claim = Text("status.clock", why=why)
    return [finding("clock-skew", claim, "confirmed", (), (proof,), severity="warning", actions=(set_it,))]
