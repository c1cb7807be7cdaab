"""A cause's signature: the same in every language, another for another cause."""

import asyncio
from pathlib import Path

import msgspec

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Evidence, Finding, Scope
from bot.texts import LANGUAGES, Texts
from playbooks.playbook import Sources, find
from playbooks.quotes import PodSays
from playbooks.rules.waiting.alike import cause_signature
from tests.cases_support import CASES
from tests.playbooks.world import ago


def told(code: str = "card-insufficient-memory", nodes: tuple[str, ...] = ("n1",), *quotes: str) -> Finding:
    about = [Evidence("pod", "Pod ml/a", None, quote, "kubectl get pod a -o jsonpath={.spec}") for quote in quotes]
    return Finding(code, "claim", "warning", "confirmed", Scope(nodes), tuple(about))


def test_a_signature_is_the_same_in_every_language(tmp_path: Path) -> None:
    recording = RecordedCluster.open(CASES / "hami-2.10" / "recording.tar.gz")
    playbook = find("pending")
    snapshot = asyncio.run(playbook.gather(playbook.request(), Sources(recording)))
    answers = [playbook.report(snapshot, Texts(language)) for language in LANGUAGES]
    first, *others = ([cause_signature(finding) for finding in report.findings] for report in answers)
    assert len(set(first)) == len(first)
    assert all(other == first for other in others)


def test_a_signature_tells_codes_and_nodes_apart() -> None:
    signatures = {cause_signature(cause) for cause in (told(), told("card-cordoned"), told(nodes=("n1", "n2")))}
    assert len(signatures) == 3


def test_a_signature_leaves_out_whom_and_when_it_is_about() -> None:
    proof = Evidence("event", "Pod ml/b", ago(9), "1 nodes CardInsufficientMemory(n1)", "kubectl get events")
    other = Finding("card-insufficient-memory", "else", "info", "suspected", Scope(("n1",)), (proof,))
    assert cause_signature(told()) == cause_signature(other)


def test_a_signature_tells_kube_scheduler_s_filters_apart() -> None:
    def lost(reason: str, total: int = 3) -> str:
        return cause_signature(told("kubernetes-filter", (), f"0/{total} nodes are available: {total} {reason}."))

    assert lost("Insufficient cpu") != lost("node(s) had untolerated taint {a: b}")
    assert lost("Insufficient cpu") == lost("Insufficient cpu", 5)


def test_what_a_pod_says_equals_the_same_evidence_read_back_from_json() -> None:
    said = PodSays("pod", "Pod ml/a", None, "A100", "kubectl get pod a")
    assert msgspec.json.decode(msgspec.json.encode(said), type=Evidence) == said
    assert len({said, Evidence("pod", "Pod ml/a", None, "A100", "kubectl get pod a")}) == 1
