"""`--kube-qps` and `--kube-burst`: what the log shows of throttling counts before the size of the cluster.

The flags are there since HAMi 2.6 (cmd/scheduler/main.go); before, client-go's 5 and 10 could not be changed.
"""

from typing import NamedTuple

from bot.hami.install import CLIENT_FLAGS_SINCE
from bot.report import Evidence, Gap, NextAction
from bot.texts import Texts
from playbooks import quotes
from playbooks.tune.facts import Facts, Throttled
from playbooks.tune.guide import Client, client_for
from playbooks.tune.rows import Advice, AdviceRow, Topic

_THROTTLED = Client(0, qps=50, burst=100, timeout_s=30)
"""The guide's row for schedulers that are throttled, whatever their size."""
_SHOWN_WAITS = 3


class Limit(NamedTuple):
    """One of the two flags: what client-go takes where it is not set, and what is recommended."""

    topic: Topic
    default: float
    wanted: int


def advise_rate(facts: Facts, say: Texts) -> list[Advice]:
    """A row for each flag."""
    nodes = None if isinstance(facts.nodes, Gap) else len(facts.nodes)
    throttled = bool(facts.throttled.waits)
    if nodes is None and not throttled:
        return [_unknown(topic, facts, say) for topic in ("kube-qps", "kube-burst")]
    by_size = client_for(nodes or 0)
    wanted = max(by_size, _THROTTLED, key=lambda row: row.qps) if throttled else by_size
    limits = (Limit("kube-qps", 5, wanted.qps), Limit("kube-burst", 10, wanted.burst))
    return [_judge(limit, facts, nodes, say) for limit in limits]


def _judge(limit: Limit, facts: Facts, nodes: int | None, say: Texts) -> Advice:
    flags = facts.install.install.flags
    text = flags.get(limit.topic, "")
    current = _number(text, limit.default)
    set_to = f"{current:g}" if text else say("tune.default", value=f"{limit.default:g}")
    raises = current < limit.wanted
    waits = facts.throttled.waits
    why = _measured(facts.throttled, say) if waits else say("tune.rate-by-size", nodes=nodes, wanted=limit.wanted)
    if not raises and waits:
        why = say("tune.rate-enough", why=why)
    row = AdviceRow(
        limit.topic, "raise" if raises else "keep", "", set_to, str(limit.wanted) if raises else set_to, why
    )
    claim = say("tune.rate-claim", flag=f"--{limit.topic}", current=set_to, wanted=limit.wanted, why=why)
    if not raises:
        return Advice(row, claim)
    return Advice(
        row,
        claim,
        severity="warning" if waits else "info",
        confidence="suspected" if facts.throttled.gaps or facts.install.gaps else "confirmed",
        evidence=_proof(facts),
        actions=_actions(limit, facts, say),
    )


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def _measured(throttled: Throttled, say: Texts) -> str:
    waits = throttled.waits
    longest = max(wait.seconds for wait in waits)
    long = sum(1 for wait in waits if wait.seconds > 1)
    return say("tune.rate-measured", count=len(waits), long=long, longest=f"{longest:.2f}")


def _proof(facts: Facts) -> tuple[Evidence, ...]:
    """The longest waits, or the flags as they are."""
    scheduler = facts.throttled.scheduler
    if scheduler is None:
        return ()
    longest = sorted(facts.throttled.waits, key=lambda wait: -wait.seconds)[:_SHOWN_WAITS]
    return tuple(quotes.of_wait(wait, scheduler) for wait in longest)


def _actions(limit: Limit, facts: Facts, say: Texts) -> tuple[NextAction, ...]:
    version = facts.install.install.version
    if version is not None and version.version < CLIENT_FLAGS_SINCE:
        return (NextAction(say("tune.rate-upgrade"), ""),)
    value = f"scheduler.extender.extraArgs: --{limit.topic}={limit.wanted}"
    return (NextAction(say("tune.set", value=value, risk=say("tune.rate-risk")), ""),)


def _unknown(topic: Topic, facts: Facts, say: Texts) -> Advice:
    current = facts.install.install.flags.get(topic, "")
    why = say("tune.rate-unknown")
    return Advice(AdviceRow(topic, "cannot-tell", "", current, "", why), why)
