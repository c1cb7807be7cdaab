"""Which of HAMi's settings should be other ones here, by what is measured; and who holds GPUs without using them."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import click

from bot.errors import UsageError
from bot.kube.times import format_time
from bot.report import SEVERITIES, Finding, Report, Subject, new_report
from bot.texts import Text
from playbooks.playbook import ALL, Playbook, Sources
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.tune.cores import advise_core_policy
from playbooks.tune.facts import Facts, Request, gather_facts
from playbooks.tune.guide import TEMPLATES
from playbooks.tune.idle import advise_idle
from playbooks.tune.limits import advise_limits
from playbooks.tune.lock import advise_lock
from playbooks.tune.monitor import advise_monitor
from playbooks.tune.policies import advise_policies
from playbooks.tune.pools import POOLS, pool_row
from playbooks.tune.rate import advise_rate
from playbooks.tune.rows import ADVICE, Advice
from playbooks.tune.scaling import advise_scaling
from playbooks.tune.scenarios import scenario_table
from playbooks.tune.scheduler import advise_scheduler
from playbooks.tune.settings import advise_core_scaling, advise_library_log
from playbooks.tune.split import advise_split
from playbooks.tune.templates import compare

if TYPE_CHECKING:
    from playbooks.gather.past_days import PastDays

COMPARE = "compare"
_EXAMPLE = f"tune {COMPARE} before.tar.gz after.tar.gz"
_TOPICS: Sequence[Callable[[Facts], list[Advice]]] = (
    advise_monitor,
    advise_scheduler,
    advise_rate,
    advise_lock,
    advise_split,
    advise_scaling,
    advise_core_scaling,
    advise_core_policy,
    advise_library_log,
    advise_policies,
    advise_idle,
    advise_limits,
)
"""In the order in which advice of the same severity is told."""


def request(
    words: Sequence[str] = (),
    all: bool = False,  # noqa: A002, FBT001, FBT002  # options
    template: str | None = None,
) -> Request:
    """The question as typed. Raises UsageError for words that are no comparison of two dates."""
    if not words:
        return Request(all, template or "")
    if words[0].lower() != COMPARE or len(words) != 3 or template:
        raise UsageError(Text("error-tune.takes-nothing-or-compare"), example=_EXAMPLE)
    try:
        before, after = map(date.fromisoformat, words[1:])
    except ValueError as error:
        message = Text("error-tune.compare-in-shell")
        raise UsageError(message, example=f"hami-bot {_EXAMPLE}") from error
    return Request(all, days=(before, after))


class DaysSeen(NamedTuple):
    """What is known of two days, and whether everything is wanted instead of an overview."""

    days: "PastDays"
    everything: bool


async def gather(wanted: Request, sources: Sources) -> Facts | DaysSeen:
    """What the advice is worked out from, or what is known of two days."""
    if wanted.days:
        from playbooks.gather.past_days import gather_past_days  # noqa: PLC0415  # only the comparison needs it

        return DaysSeen(await gather_past_days(wanted.days, sources), wanted.all)
    return await gather_facts(wanted, sources)


def diagnose(seen: Facts | DaysSeen) -> Report:
    """What should be changed first, the worst first; or whether a change between two days helped."""
    if isinstance(seen, Facts):
        return advise(seen)
    from playbooks.tune.days import compare_days  # noqa: PLC0415  # as above

    return compare_days(seen.days, everything=seen.everything)


def advise(facts: Facts) -> Report:
    """The table has what should be kept or cannot be told as well."""
    if (without := answer_without_hami("tune", facts, facts.install)) is not None:
        return without
    advice = [item for topic in _TOPICS for item in topic(facts)]
    if facts.request.template:
        return compare(facts.request.template, facts, advice)
    advice.sort(key=lambda item: (not item.changes, -SEVERITIES.index(item.severity)))
    found = [_finding(item) for item in advice if item.changes] or [_nothing(advice)]
    changing = [item.row for item in advice if item.changes]
    rows = [item.row for item in advice]
    return new_report(
        playbook="tune",
        cluster=facts.cluster,
        taken_at=format_time(facts.taken_at),
        subject=Subject("Cluster", "", ""),
        findings=found,
        tables=(
            ADVICE.table(rows, brief=None if facts.request.all else changing or rows),
            POOLS.table(map(pool_row, facts.pools)),
            scenario_table(advice),
        ),
        gaps=facts.gaps,
    )


def _finding(item: Advice) -> Finding:
    return finding(
        "tuning-advice", item.claim, item.confidence, (), item.evidence, severity=item.severity, actions=item.actions
    )


def _nothing(advice: Sequence[Advice]) -> Finding:
    unknown = sum(1 for item in advice if item.row.direction == "cannot-tell")
    claim = Text("tune.nothing", kept=len(advice) - unknown, unknown=unknown)
    return finding("tuning-advice", claim, "suspected" if unknown else "confirmed", (), (), severity="info")


PLAYBOOK = Playbook(
    verb="tune",
    summary="Which of HAMi's settings should change here, judged by measurements?",
    example="tune",
    parameters=(
        click.Argument(["words"], nargs=-1, metavar=f"[{COMPARE} DATE DATE]"),
        ALL,
        click.Option(["--template"], type=click.Choice(TEMPLATES), help="Compare with one of the guide's templates."),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
