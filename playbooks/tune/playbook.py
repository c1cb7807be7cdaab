"""`tune`: which of HAMi's settings should be changed here, as measured; and who holds GPUs without using them."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import click

from bot.errors import UsageError
from bot.report import SEVERITIES, Finding, Report, Subject
from bot.texts import Text
from playbooks.playbook import ALL, Playbook, Snapshot, Sources
from playbooks.rule import Stage, run
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.tune.advice import ADVICE, Advice, AdviceRule
from playbooks.tune.guide import TEMPLATES, compare_template, scenario_table
from playbooks.tune.scene import POOLS, TuneScene, gather_scene, pool_row
from playbooks.tune.scheduler import bind_timeouts, node_lock, rate, resources
from playbooks.tune.sharing import core_scaling, library_log, memory_scaling, split
from playbooks.tune.usage import core_policy, idle, memory_limits, monitor, policies

if TYPE_CHECKING:
    from playbooks.gather.past_days import PastDays

COMPARE = "compare"
_EXAMPLE = f"tune {COMPARE} before.tar.gz after.tar.gz"
_RULES: Sequence[AdviceRule] = (
    monitor,
    resources,
    rate,
    node_lock,
    split,
    memory_scaling,
    core_scaling,
    core_policy,
    library_log,
    policies,
    idle,
    memory_limits,
)
TUNE: tuple[Stage[TuneScene], ...] = (Stage("binds time out", bind_timeouts), Stage("advice", *_RULES))
"""The stages of `tune`, in the order of advice of equal severity. Every stage speaks: settings are independent."""


class Request(NamedTuple):
    """What `tune` is asked. `all`: advice to keep a value, and what cannot be told, is shown as well. `template`: the
    values of one of the guide's templates instead; `days`: two days compared instead.
    """

    all: bool
    template: str = ""
    days: tuple[date, date] | None = None


def request(
    words: Sequence[str] = (),
    all: bool = False,  # noqa: A002, FBT001, FBT002  # options
    template: str | None = None,
) -> Request:
    """Reads the typed question. Raises UsageError for words that do not compare two dates."""
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


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, "TuneScene | PastDays"]:
    """Reads what the advice is worked out from, or what is known of two days."""
    if wanted.days:
        from playbooks.gather.past_days import gather_past_days  # noqa: PLC0415  # only the comparison needs it

        days = await gather_past_days(wanted.days, sources)
        return Snapshot(wanted, days.cluster, days.after.end, days)
    scene = await gather_scene(sources)
    return Snapshot(wanted, scene.cluster, scene.taken_at, scene)


def diagnose(snapshot: Snapshot[Request, "TuneScene | PastDays"]) -> Report:
    """The report: what should be changed, kept or cannot be told, the worst first; or whether a change helped."""
    wanted, scene = snapshot.request, snapshot.scene
    if not isinstance(scene, TuneScene):
        from playbooks.tune.days import compare_days  # noqa: PLC0415  # as above

        return compare_days(snapshot, scene)
    if (without := answer_without_hami("tune", scene, scene.seen)) is not None:
        return without
    advice = [each for rule in _RULES for each in rule.advice(scene)]
    if wanted.template:
        return compare_template(wanted.template, snapshot, scene, advice)
    advice.sort(key=lambda each: -SEVERITIES.index(each.finding.severity) if each.finding else 1)
    findings = sorted(run(TUNE, scene).findings, key=lambda found: -SEVERITIES.index(found.severity))
    changing, rows = [each.row for each in advice if each.finding], [each.row for each in advice]
    tables = (
        ADVICE.table(rows, brief=changing or rows),
        POOLS.table(map(pool_row, scene.pools)),
        scenario_table(advice),
    )
    about = Subject("Cluster", "", "")
    return snapshot.report("tune", about, findings or [_nothing(advice)], tables=tables, gaps=scene.gaps)


def _nothing(advice: Sequence[Advice]) -> Finding:
    unknown = sum(1 for each in advice if each.row.direction == "cannot-tell")
    kept = len(advice) - unknown
    claim = Text("tune.nothing", kept=kept, unknown=unknown) if kept else Text("tune.untold", unknown=unknown)
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
