"""Reports written by hand, and reports made of any text at all."""

from typing import Any

from hypothesis import strategies as st

from bot.report import (
    SCHEMA,
    Evidence,
    Finding,
    Gap,
    NextAction,
    Report,
    Scope,
    Subject,
    Table,
    finding_in_words,
    new_finding,
)
from bot.texts import Text, Texts, fitting

SAY = Texts("en")

CLAIM = "No usable GPU of gpu-1, gpu-2 has 24,000 MiB free; the largest free slice is 16,384 MiB on gpu-2."


def evidence(**changed: Any) -> Evidence:
    usual = {
        "source": "event",
        "object": "Pod ml/trainer-0",
        "at": "2026-11-21T04:59:40Z",
        "quote": "2 nodes CardInsufficientMemory(gpu-1,gpu-2)",
        "command": "kubectl -n ml get events --field-selector involvedObject.name=trainer-0",
    }
    return Evidence(**usual | changed)


def finding(**changed: Any) -> Finding:
    usual = {
        "code": "card-insufficient-memory",
        "claim": CLAIM,
        "severity": "warning",
        "confidence": "confirmed",
        "scope": Scope(("gpu-1", "gpu-2")),
        "evidence": (evidence(),),
    }
    return Finding(**usual | changed)


def of_gpu_1() -> list[Finding]:
    """Findings about gpu-1 whose claims name gpu-10 alone."""
    claims = (
        "ml/trainer-0 is running on gpu-10.",
        Text("running.claim", pod="ml/trainer-0", node="gpu-10"),
        fitting([Text("running.claim", pod="p" * 90, node="gpu-1"), "gpu-10 runs it."], 60),
    )
    return [
        finding_in_words(new_finding("card-insufficient-memory", "warning", claim, [evidence()], nodes=["gpu-1"]), SAY)
        for claim in claims
    ]


def report(*findings: Finding, **changed: Any) -> Report:
    usual = {
        "schema": SCHEMA,
        "playbook": "why",
        "cluster": "lab",
        "taken_at": "2026-11-21T05:00:00Z",
        "subject": Subject("Pod", "ml", "trainer-0"),
        "verdict": findings[0].claim if findings else "",
        "severity": findings[0].severity if findings else "info",
        "findings": findings,
    }
    return Report(**usual | changed)


def typical() -> Report:
    """A pending pod on a small cluster: every part of a report, nothing unusual."""
    cause = finding(
        evidence=(
            evidence(),
            evidence(
                source="scheduler log",
                object="Pod kube-system/hami-scheduler-7c9d container vgpu-scheduler-extender",
                at="2026-11-21T02:45:00Z",
                quote='I1121 02:45:00.123456       1 score.go:275] "NodeUnfitPod" pod="ml/trainer-0" node="gpu-1" '
                'reason="8/8 CardInsufficientMemory"',
                command="kubectl -n kube-system logs hami-scheduler-7c9d -c vgpu-scheduler-extender | grep trainer-0",
            ),
            evidence(source="node", object="Node gpu-1", at=None, quote="24k", command="kubectl get node gpu-1"),
        ),
        next_actions=(
            NextAction("Request at most 16,384 MiB per GPU (gpu-2 would take the pod)", "gpus --node gpu-2"),
            NextAction("Recreate the pod once it asks for less", "kubectl -n ml delete pod trainer-0", True),
        ),
    )
    silent = finding(
        code="node-unregistered",
        claim="gpu-3: the device plugin has registered no GPUs, so HAMi does not know the node.",
        confidence="suspected",
        scope=Scope(("gpu-3",)),
        next_actions=(
            NextAction(
                "Restart the device plugin on gpu-3", "kubectl -n kube-system delete pod hami-plugin-x7k2p", True
            ),
        ),
    )
    tainted = finding(
        code="kubernetes-filter",
        claim="4 node(s) are lost to kubernetes itself, before HAMi is asked: node(s) had untolerated taint(s)",
        severity="info",
        scope=Scope(("cp-1", "cp-2", "cpu-1", "cpu-2")),
    )
    rows = (("unfit", "8/8 CardInsufficientMemory", "2", "gpu-1, gpu-2"), ("unfit", "node unregistered", "1", "gpu-3"))
    return report(
        cause,
        silent,
        tainted,
        tables=(Table("candidate nodes", ("verdict", "reason", "count", "nodes"), rows),),
        gaps=(Gap("quotas", "GET resourcequotas: HTTP 403", "grant list on resourcequotas in ml"),),
    )


_HOSTILE = (
    *("\x1b[31m", "\x1b]8;;http://evil\x07", "\x9b2J", "\r", "\n", "\n\n# h\n", "\t", "\x00", "\u2028"),
    *("\u202e", "\u2066", "\u200f", "\u200b", "\ud800", "\U000e0041", "[red]x[/red]", "`", "```", "``", " ` "),
    *("|", "\\|", "\\", "@octocat", "#12", "<b>", "<!--", "-->", "[a](http://evil)", "![a](b)"),
    *("<http://evil>", "www.evil.com", "a@evil.com", "**b**", "_i_", "~~s~~", "$x$", ":+1:", "- ", "1. "),
    *("---", "===", "| - |", "&lt;", "&#64;octocat", "GH-12", "    ", "> ", "漢字", "汉字，标点。", "e\u0301"),
    *("❤\ufe0f", "gpu-node-01,gpu-node-02,", "x" * 100, "字" * 60, "{name}", " ", ""),
)


def any_text() -> st.SearchStrategy[str]:
    """Anything, and often what means something to a terminal or to Markdown."""
    return st.lists(st.sampled_from(_HOSTILE) | st.text(max_size=12), max_size=5).map("".join)


def reports(text: st.SearchStrategy[str]) -> st.SearchStrategy[Report]:
    """Reports whose every text is drawn from `text`."""
    severities, few = st.sampled_from(("info", "warning", "critical")), {"max_size": 2}

    def several(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(part, **few).map(tuple)

    proof = st.builds(Evidence, text, text, st.none() | text | st.just("2026-11-21T04:59:40Z"), text, text)
    found = st.builds(
        Finding,
        text,
        text,
        severities,
        st.sampled_from(("confirmed", "suspected")),
        st.builds(Scope, several(text)),
        several(proof),
        several(st.builds(NextAction, text, text, st.booleans())),
    )
    return st.builds(
        Report,
        st.just(SCHEMA),
        text,
        text,
        text | st.just("2026-11-21T05:00:00Z"),
        st.builds(Subject, text, text, text),
        text,
        severities,
        several(found),
        several(st.integers(0, 9).flatmap(lambda columns: _tables(text, columns))),
        several(st.builds(Gap, text, text, text)),
    )


def _tables(text: st.SearchStrategy[str], columns: int) -> st.SearchStrategy[Table]:
    row = st.lists(text, min_size=columns, max_size=columns).map(tuple)
    return st.builds(Table, text, row, st.lists(row, max_size=2).map(tuple))
