"""Every finding code and every code of a blast radius, as the sources write them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from bot.changes.journal import ENDS
from bot.finding_codes import CODES
from bot.hami.nodes.node_lock import LockState
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.hami.signatures import signatures
from bot.pprof.hints import hint_rules
from bot.report import SEVERITIES
from playbooks.gather.node_side import Health
from tests.project import nodes_of

_ROOT = Path(__file__).parents[1]
_RULES = [rule for rules in hint_rules().values() for rule in rules]
_MAKERS = {
    "finding": 0,
    "Finding": 0,
    "Fault": 0,
    "NodeCause": 0,
    "fault": 0,
    "_finding": 2,
    "new_finding": 0,
    "_passed": 2,
    "_of_record": 1,
    "_told": 1,
    "Unlike": 0,
}
"""What makes a finding, and among how many of its first arguments the code is (from 0)."""


def finding_codes() -> set[str]:
    """Those that stand in a source, and those that it puts together."""
    found = {reason.finding for reason in REASONS}
    found |= {signature.code for signature in signatures()}
    found |= {f"profile-{rule.code}" for rule in _RULES}
    found |= {f"change-{kind}" for kind in ENDS}
    found |= {f"node-lock-{phase}" for phase in get_args(LockState.__annotations__["phase"])}
    found |= {f"device-plugin-{health}" for health in get_args(Health) if health not in ("ready", "unseen")}
    found |= {f"handshake-{judged}" for judged in ("stale", "deleted")}
    for folder in ("bot", "handlers", "playbooks"):
        for path in (_ROOT / folder).rglob("*.py"):
            prefix = "profile-" if "pprof" in path.parts else ""
            for maker, code in _written(path):
                found.add(f"{prefix}unlike-{code}" if maker == "Unlike" else prefix + code)
    return {code for code in found if re.fullmatch(r"[a-z-]+", code)} - set(SEVERITIES)


def fault_codes() -> set[str]:
    """Those of what is wrong with nodes, as the sources of its facts write them or put them together."""
    folder = _ROOT / "playbooks" / "rules" / "nodes"
    written = [found for path in folder.glob("*.py") for found in _written(path)]
    made = {"device-plugin-" + health for health in get_args(Health) if health not in ("ready", "unseen")}
    made |= {"node-lock-" + phase for phase in get_args(LockState.__annotations__["phase"])}
    made |= {"handshake-stale", "handshake-deleted", "node-unregistered", "registration-ignored"}
    return {code for maker, code in written if maker in ("Fault", "NodeCause")} | made & set(CODES)


def impact_codes() -> set[str]:
    """What a change brings with it."""
    paths = (_ROOT / "bot" / "changes").glob("*.py")
    nodes = [node for path in paths for node in nodes_of(path) if isinstance(node, ast.Call)]
    keys = {key for node in nodes if getattr(node.func, "id", "") == "Text" for key in _strings(node.args[0])}
    return {key.removeprefix("blast.") for key in keys if key.startswith("blast.")} | {"gitops-argocd", "gitops-flux"}


def _written(path: Path) -> Iterator[tuple[str, str]]:
    """Codes with what makes the finding: arguments, values of `code`, and the first of rows of a loop over `code`."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            maker = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = node.args[: _MAKERS[maker] + 1] if maker in _MAKERS else []
            given += [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            yield from ((maker, code) for value in given for code in _strings(value))
        elif isinstance(node, ast.Assign):
            named = [target.elts[0] if isinstance(target, ast.Tuple) else target for target in node.targets]
            if any(getattr(name, "id", "") == "code" for name in named):
                yield from (("", code) for code in _strings(node.value))
        elif isinstance(node, ast.AnnAssign) and node.value and getattr(node.target, "id", "") == "code":
            yield from (("", code) for code in _strings(node.value))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and isinstance(node.iter, ast.Tuple):
            rows = node.iter.elts if getattr(node.target.elts[0], "id", "") == "code" else []
            yield from (("", code) for row in rows for code in _strings(row))


def _strings(value: ast.expr) -> Iterator[str]:
    """Whatever string the expression may give; of a tuple its first."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from _strings(value.body)
        yield from _strings(value.orelse)
    elif isinstance(value, ast.Tuple) and value.elts:
        yield from _strings(value.elts[0])
