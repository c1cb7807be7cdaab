"""`--node-lock-timeout`: how long HAMi's scheduler keeps a node locked for one pod whose devices are being allocated.

Only the flag acts, since HAMi 2.7 (cmd/scheduler/main.go): the chart's `scheduler.nodeLockExpire` becomes
HAMI_NODELOCK_EXPIRE, which the flag's default then replaces. The device plugin removes the lock once it has allocated:
a lock that expired although its pod was allocated was too short. Slow binds of a throttled scheduler are no reason.
"""

from datetime import datetime
from typing import NamedTuple

from bot.hami.nodes.node_lock import DEFAULT_EXPIRY, lock_complaint, read_timeout
from bot.hami.pods.allocations import was_allocated
from bot.hami.scheduler_logs.log_lines import LogLine, read_line
from bot.hami.version import Version
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Evidence, Gap, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.rules.common.prose import command
from playbooks.tune.deployed import environment, flag
from playbooks.tune.facts import Facts
from playbooks.tune.guide import lock_minutes
from playbooks.tune.rows import Advice, AdviceRow, Direction

TOPIC = "node-lock-timeout"
FLAG_SINCE = Version(2, 7, 0)
_SET, _EXPIRED = "Node lock set", "Node lock expired"
_INERT = "HAMI_NODELOCK_EXPIRE"
_USUAL = "5m"
_SHOWN = 3


class _Seen(NamedTuple):
    """What the log says of node locks: those that expired, and the pods that met a locked node."""

    expired: tuple[tuple[Pod, LogLine], ...]
    refused: frozenset[str]
    taken: dict[str, tuple[tuple[datetime, str], ...]]
    """The pods that locked each node, and when."""


def advise_lock(facts: Facts) -> list[Advice]:
    """One row."""
    if not facts.install.install.seen:
        return [_kept("cannot-tell", "", Text("tune.scheduler-unknown"))]
    version = facts.install.install.version
    if version is not None and version.version < FLAG_SINCE:
        return [_kept("keep", _USUAL, Text("tune.lock-fixed"))]
    set_to = flag(facts, TOPIC)
    current = set_to.value or Text("tune.default", value=_USUAL)
    minutes = (read_timeout(set_to.value) if set_to.value else DEFAULT_EXPIRY).total_seconds() / 60
    least, most = lock_minutes()
    if not least <= minutes <= most:
        direction: Direction = "raise" if minutes < least else "lower"
        to = least if minutes < least else most
        row = _row(direction, current, f"{to:g}m", Text("tune.lock-range", least=least, most=most))
        return [_changed(row, set_to.proof, facts)]
    if facts.throttled.waits:
        return [_kept("keep", current, Text("tune.lock-throttled", count=len(facts.throttled.waits)))]
    seen = _read(facts)
    if not seen.expired:
        return [_nothing_expired(seen, current, facts)]
    allocated = _allocated(facts)
    slow = [lock for lock in seen.expired if _was_slow(lock[1], seen, allocated)]
    if not slow:
        return [_kept("cannot-tell", current, Text("tune.lock-expired", count=len(seen.expired)))]
    if minutes >= most:
        return [_kept("keep", current, Text("tune.lock-highest", count=len(slow), most=most))]
    row = _row("raise", current, f"{min(2 * minutes, most):g}m", Text("tune.lock-slow", count=len(slow)))
    return [_changed(row, (*_proof(slow), *set_to.proof), facts)]


def _nothing_expired(seen: _Seen, current: Prose, facts: Facts) -> Advice:
    if facts.locked.gaps or not facts.install.install.pods:
        return _kept("cannot-tell", current, Text("tune.log-unread"))
    why = Text("tune.lock-met", count=len(seen.refused)) if seen.refused else Text("tune.lock-kept")
    chart = environment(facts, _INERT)
    inert = chart and read_timeout(chart) != DEFAULT_EXPIRY
    return _kept("keep", current, Text("tune.lock-inert", why=why, value=chart) if inert else why)


def _read(facts: Facts) -> _Seen:
    expired: list[tuple[Pod, LogLine]] = []
    refused: set[str] = set()
    taken: dict[str, list[tuple[datetime, str]]] = {}
    for scheduler, raw in facts.locked.lines:
        line = read_line(raw, facts.taken_at)
        if line is None:
            continue
        if line.message.startswith(_EXPIRED):
            expired.append((scheduler, line))
        elif line.message == _SET and line.at is not None:
            taken.setdefault(line.values.get("node", ""), []).append((line.at, line.values.get("podName", "")))
        elif lock_complaint(line.values.get("err", "")) is not None:
            refused.add(line.values.get("pod", ""))
    return _Seen(tuple(expired), frozenset(refused), {node: tuple(pods) for node, pods in taken.items()})


def _allocated(facts: Facts) -> dict[tuple[str, str], list[datetime]]:
    """When the pods were created that got their devices, by node and name."""
    found: dict[tuple[str, str], list[datetime]] = {}
    for holder in () if isinstance(facts.holders, Gap) else facts.holders:
        created = parse_time(holder.metadata.creation_timestamp)
        if created is not None and was_allocated(holder):
            found.setdefault((holder.spec.node_name, holder.name), []).append(created)
    return found


def _was_slow(line: LogLine, seen: _Seen, allocated: dict[tuple[str, str], list[datetime]]) -> bool:
    """Whether the pod that had locked the node last got its devices all the same: no later pod of its name."""
    node, at = line.values.get("node", ""), line.at
    before = [lock for lock in seen.taken.get(node, ()) if at is not None and lock[0] < at]
    if not before:
        return False
    since, pod = before[-1]
    created = allocated.get((node, pod.rpartition("/")[2]), [])
    return len(created) == 1 and created[0] <= since


def _proof(slow: list[tuple[Pod, LogLine]]) -> tuple[Evidence, ...]:
    return tuple(quotes.of_words(line, scheduler, _EXPIRED) for scheduler, line in slow[:_SHOWN])


def _kept(direction: Direction, current: Prose, why: Prose) -> Advice:
    return Advice(_row(direction, current, current if direction == "keep" else "", why), why)


def _row(direction: Direction, current: Prose, wanted: Prose, why: Prose) -> AdviceRow:
    return AdviceRow(TOPIC, direction, "", current, wanted, why)


def _changed(row: AdviceRow, proofs: tuple[Evidence, ...], facts: Facts) -> Advice:
    install = facts.install.install
    value = f"scheduler.extender.extraArgs: --{TOPIC}={row.recommended}"
    check = (
        quotes.extender_log(install.namespace, install.pods[0].name, _EXPIRED)
        if install.pods
        else command("tune", "--all")
    )
    actions = (
        step(
            Text(
                "tune.set-list",
                value=value,
                risk=Text("tune.lock-raise-risk" if row.direction == "raise" else "tune.lock-lower-risk"),
            ),
            "",
        ),
        step(Text("tune.lock-check"), check),
    )
    claim = Text("tune.rate-claim", flag=f"--{TOPIC}", current=row.current, wanted=row.recommended, why=row.why)
    return Advice(row, claim, confidence="suspected", evidence=proofs, actions=actions)
