"""`--kube-qps`, `--kube-burst` and `--kube-timeout`: throttling that the log shows and that is felt counts before the
cluster's size.

The flags are there since HAMi 2.6 (cmd/scheduler/main.go); before, client-go's 5 and 10 could not be changed.
To client-go (rest/config.go) a rate of 0 is not set, and a negative one no limit. A timeout of 0, the default, is none:
it is only judged where one is set.
"""

import shlex
from typing import NamedTuple

from bot.hami.installation.helm_values import ARGUMENTS, chart_value
from bot.hami.installation.install import CLIENT_FLAGS_SINCE
from bot.hami.scheduler_logs.throttling import NEEDLE, Wait, are_felt
from bot.kube.models import Pod
from bot.report import Evidence, Gap, NextAction, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.tune.deployed import flag, node_count
from playbooks.tune.facts import Facts, Throttled
from playbooks.tune.guide import Client, client_for
from playbooks.tune.rows import Advice, AdviceRow, Topic

_THROTTLED = Client(0, qps=50, burst=100, timeout_s=30)
"""The guide's row for schedulers that are throttled, whatever their size."""
_FLAGS: tuple[Topic, ...] = ("kube-qps", "kube-burst", "kube-timeout")
_SHOWN_WAITS = 3


class Limit(NamedTuple):
    """One of the flags: what client-go takes where it is not set, and what is recommended."""

    topic: Topic
    default: float
    wanted: int


def advise_rate(facts: Facts) -> list[Advice]:
    """A row for each flag."""
    if not facts.install.install.seen:
        return [_unknown(topic, facts, Text("tune.scheduler-unknown")) for topic in _FLAGS]
    nodes = None if isinstance(facts.nodes, Gap) else len(facts.nodes)
    throttled = are_felt(facts.held_back.waits)
    if nodes is None and not throttled:
        return [_unknown(topic, facts, Text("tune.rate-unknown")) for topic in _FLAGS]
    by_size = client_for(nodes or 0)
    wanted = max(by_size, _THROTTLED, key=lambda row: row.qps) if throttled else by_size
    limits = (Limit("kube-qps", 5, wanted.qps), Limit("kube-burst", 10, wanted.burst))
    return [*(_judge(limit, wanted, facts, nodes) for limit in limits), _timeout(wanted, facts, nodes)]


def _judge(limit: Limit, client: Client, facts: Facts, nodes: int | None) -> Advice:
    current = _number(facts.flags.get(limit.topic, ""), 0)
    set_to = f"{current:g}" if current else Text("tune.default", value=f"{limit.default:g}")
    if _number(facts.flags.get("kube-qps", ""), 0) < 0:
        why = Text("tune.rate-off")
        return Advice(AdviceRow(limit.topic, "keep", "", set_to, set_to, why), why)
    current = current or limit.default
    raises = current < limit.wanted
    waits = facts.held_back.waits
    felt = are_felt(waits)
    unread = bool(facts.held_back.gaps) or not facts.install.install.pods
    if unread and not raises and not waits:
        return _unknown(limit.topic, facts, Text("tune.log-unread"))
    by_size = "tune.rate-by-size-alone" if unread else "tune.rate-by-size"
    why = _measured(facts.held_back) if waits else Text(by_size, nodes=nodes, wanted=limit.wanted)
    if waits and not felt:
        why = Text("tune.rate-unfelt", why=why, nodes=nodes, wanted=limit.wanted)
    elif waits and not raises:
        why = Text("tune.rate-enough", why=why)
    row = AdviceRow(
        limit.topic, "raise" if raises else "keep", "", set_to, str(limit.wanted) if raises else set_to, why
    )
    claim = Text("tune.rate-claim", flag=f"--{limit.topic}", current=set_to, wanted=limit.wanted, why=why)
    if not raises:
        return Advice(row, claim)
    return Advice(
        row,
        claim,
        severity="warning" if felt else "info",
        confidence="suspected" if facts.held_back.gaps or facts.install.gaps else "confirmed",
        evidence=(*_proof(facts), *flag(facts, limit.topic).proof, *(() if felt else node_count(facts))),
        actions=_actions(limit.topic, limit.wanted, f"kube-qps={client.qps} kube-burst={client.burst}", facts),
    )


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def _measured(throttled: Throttled) -> Text:
    waits = throttled.waits
    longest = max(wait.seconds for wait in waits)
    return Text("tune.rate-measured", count=len(waits), longest=f"{longest:.2f}")


def _proof(facts: Facts) -> tuple[Evidence, ...]:
    """How many waited, and the longest waits."""
    return tuple(proof for pod, waits in facts.held_back.by_scheduler if waits for proof in _of_waits(pod, waits))


def _of_waits(scheduler: Pod, waits: tuple[Wait, ...]) -> tuple[Evidence, ...]:
    once = "delay=.*" if 'delay="' in waits[0].line else "Waited for .*"
    longest = sorted(waits, key=lambda wait: -wait.seconds)[:_SHOWN_WAITS]
    proofs = [quotes.of_wait(wait, scheduler) for wait in longest]
    count = f"{proofs[0].command} | grep -o {shlex.quote(once)} | sort -u | wc -l"
    return (*proofs, Evidence(proofs[0].source, proofs[0].object, None, str(len(waits)), count))


def _actions(topic: Topic, wanted: int, tried: str, facts: Facts) -> tuple[NextAction, ...]:
    version = facts.install.install.version
    if version is not None and version.version < CLIENT_FLAGS_SINCE:
        return (step(Text("tune.rate-upgrade"), ""),)
    risk = Text("tune.timeout-risk" if topic == "kube-timeout" else "tune.rate-risk")
    install = facts.install.install
    path = chart_value(f"{ARGUMENTS} --{topic}", install)
    if path.startswith(ARGUMENTS):
        setting = Text("tune.set-list", value=f"{ARGUMENTS}: --{topic}={wanted}", risk=risk)
    else:
        setting = Text("tune.set-client", value=f"{path}={wanted}", flag=f"--{topic}", risk=risk)
    name = install.pods[0].name if install.pods else f"deploy/{install.deployment.name}" if install.deployment else ""
    check = quotes.extender_log(install.namespace, name, NEEDLE) if name else ""
    return (
        step(Text("tune.rate-try"), f"tune try {tried} for 30m", changes_cluster=True),
        step(setting, ""),
        step(Text("tune.rate-check"), check),
    )


def _timeout(wanted: Client, facts: Facts, nodes: int | None) -> Advice:
    """One that is set is raised where the guide has a longer one for this cluster."""
    text = facts.flags.get("kube-timeout", "")
    seconds = _number(text, 0)
    shown = f"{seconds:g} s" if seconds else Text("tune.no-limit")
    if text and not text.isdecimal():
        return _unknown("kube-timeout", facts, Text("tune.timeout-no-number"))
    if not seconds or seconds >= wanted.timeout_s or nodes is None:
        why = Text("tune.timeout-kept", wanted=wanted.timeout_s)
        return Advice(AdviceRow("kube-timeout", "keep", "", shown, shown, why), why)
    why = Text("tune.timeout-short", wanted=wanted.timeout_s, nodes=nodes)
    claim = Text("tune.rate-claim", flag="--kube-timeout", current=shown, wanted=wanted.timeout_s, why=why)
    row = AdviceRow("kube-timeout", "raise", "", shown, f"{wanted.timeout_s} s", why)
    proofs = (*flag(facts, "kube-timeout").proof, *node_count(facts))
    return Advice(
        row,
        claim,
        evidence=proofs,
        actions=_actions("kube-timeout", wanted.timeout_s, f"kube-timeout={wanted.timeout_s}", facts),
    )


def _unknown(topic: Topic, facts: Facts, why: Prose) -> Advice:
    current = facts.flags.get(topic, "")
    return Advice(AdviceRow(topic, "cannot-tell", "", current, "", why), why)
