"""Under exactly the roles that the chart renders, every verb answers and every kind of change is made. Without any one
rule of them, at least one of those answers is a refusal or says what could not be read.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bot.changes.kinds import TRY, VERBOSITY, VERBS
from bot.changes.record import KEY
from bot.errors import BotError
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.leader import Leader
from bot.kube.client.live import LiveCluster
from bot.texts import Texts
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.doctor.checks import at_cluster
from handlers.doctor.links import in_words
from playbooks.own.discovery import find
from playbooks.playbook import Sources, load
from sandbox.apiserver import ApiServer, Rule
from sandbox.apiserver.access import Access
from sandbox.apiserver.statuses import Target
from tests.cases_support import CASES, in_full
from tests.change_shell import Cluster, cluster, overdue
from tests.chart import BOT, CHANGING, DEAD_MAN, NAMESPACE, PROXYING, Manifest, granted, manifests
from tests.cluster_rights import OWNERS, Noting
from tests.playbooks.dra_support import claiming, queued

pytestmark = pytest.mark.few(2)

Used = dict[str, set[tuple[Target, str]]]
"""By question or act: what it asked of the API server, and by which verb."""

READING = granted(manifests(), BOT)
OF_CHANGES = {"get deployments hami-system", "list leases hami-system"}
"""Rules of a bot that only reads which only changes use: what is shown and captured before one."""


def spelled(rule: Rule) -> str:
    return f"{rule.verbs[0]} {rule.resources[0]} {rule.namespace}".rstrip()


def without(rule: Rule, rules: Iterable[Rule]) -> Access:
    return Access([other for other in rules if other != rule])


def users(rule: Rule, rules: Sequence[Rule], used: Used) -> list[str]:
    """Who asked for something that this rule alone grants."""
    alone = [rule]
    return [
        name
        for name, asked in used.items()
        if any([rule for rule in rules if rule.covers(*request)] == alone for request in asked)
    ]


# ------------------------------------------------------------------------------------------------------ questions


class Ask(NamedTuple):
    verb: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.verb} {' '.join(map(str, self.values.values()))}".rstrip()

    async def told(self, live: LiveCluster) -> set[str]:
        """What could not be read."""
        playbook = find(self.verb)
        try:
            snapshot = await playbook.gather(playbook.request(**self.values), Sources(live))
        except BotError as error:
            return {str(error)}
        return {f"{gap.source}: {gap.why}" for gap in playbook.report(snapshot, Texts("en")).gaps}


ASKS = [
    *(Ask(verb, one.values) for verb, one in in_full().items()),
    *(Ask("why", {"pod": pod}) for pod in (*OWNERS, "ml/wl", "ml/kq")),
]
"""Every verb once, and what needs a rule of its own: owners that are named, and a pod with claims."""


async def unread_without_each(server: ApiServer, config: Path) -> dict[str, str]:
    """For each rule of a bot that only reads: what is told without it, empty where nothing is."""
    server.write("pods", claiming("wl"))
    server.write("pods", queued("kq"))
    config.write_text(server.kubeconfig())  # noqa: ASYNC240  # a small file
    used: Used = {}
    before: dict[str, set[str]] = {}
    async with await open_cluster(kubeconfig=config) as live:
        for ask in ASKS:
            server.access = access = Noting(READING)
            before[str(ask)] = await ask.told(live)
            assert access.refusals == [], ask
            used[str(ask)] = access.asked
        found: dict[str, str] = {}
        for rule in READING:
            asking = users(rule, READING, used)
            server.access = without(rule, READING)
            if rule.verbs == ["watch"]:  # without it lists are read anew for every question, and doctor says so
                found[spelled(rule)] = await _doctor(config, spelled(rule))
                continue
            found[spelled(rule)] = ""
            for ask in (ask for ask in ASKS if str(ask) in asking):
                if news := await ask.told(live) - before[str(ask)]:
                    found[spelled(rule)] = min(news)
                    break
    return found


async def _doctor(config: Path, right: str) -> str:
    links = in_words(await at_cluster("doctor", open_sources(ClusterChoice(kubeconfig=config)), ""), Texts("en"))
    return next((link.seen for link in links if link.state != "ok" and right in link.seen), "")


def test_every_verb_is_asked() -> None:
    assert {ask.verb for ask in ASKS} | {"profile"} == set(load())


async def test_without_any_one_rule_of_a_reading_bot_an_answer_says_what_it_could_not_read(tmp_path: Path) -> None:
    async with ApiServer.from_recording(CASES / "hami-2.10" / "recording.tar.gz") as server:
        found = await unread_without_each(server, tmp_path / "kubeconfig")
    assert {rule for rule, told in found.items() if not told} == OF_CHANGES


# -------------------------------------------------------------------------------------------------------- changes

RAISES = {
    "verbosity": ("verbosity", "7"),
    "profiling": ("profiling", "on"),
    TRY: (*TRY.split(), "kube-qps=7", "kube-burst=7", "kube-timeout=40"),
}
IN_PROCESS = "verbosity in the running process"


class Acts:
    """What a bot that changes does, each from the same beginning; what it tells begins with how it ended."""

    def __init__(self, here: Cluster) -> None:
        self._here = here
        self.by_name: dict[str, Callable[[], set[str]]] = {
            "show": lambda: self._told("verbosity"),
            "profile": lambda: self._told("profile", "heap", "--out", str(here.folder)),
            "lead": lambda: here.do(two_terms(here)),
            IN_PROCESS: lambda: self._told("verbosity", "6", "--container", "kube-scheduler", "--yes", "-o", "json"),
            **{verb: lambda words=words: self._told(*words, "--yes", "-o", "json") for verb, words in RAISES.items()},
        }

    def act(self, name: str, access: Access) -> set[str]:
        """With those rights, and back to what was before with every right."""
        self._here.settled()
        self._here.server.access = access
        told = self.by_name[name]()
        self._here.server.access = Access()
        if KEY in self._here.deployment["metadata"].get("annotations", {}):
            verb = name if name in VERBS else VERBOSITY.verb
            done = self._here.hami_bot(*verb.split(), "revert")
            assert done.returncode == 0, done.stderr
        return told

    def _told(self, *words: str) -> set[str]:
        done = self._here.hami_bot(*words)
        told = {f"exit code {done.returncode}", *(line for line in done.stderr.splitlines() if "forbidden" in line)}
        if done.returncode == 0 and done.stdout.startswith("{"):
            told |= {impact["code"] for impact in json.loads(done.stdout)["change"]["blast_radius"]}
        return told


async def two_terms(here: Cluster) -> set[str]:
    """As the leader: the first term makes the Lease, the second one takes it again."""
    if here.server.object("leases.coordination.k8s.io", NAMESPACE, "hami-bot"):
        here.server.remove("leases.coordination.k8s.io", NAMESPACE, "hami-bot")

    class Ended(Exception):  # noqa: N818  # no error
        pass

    async def work() -> None:
        raise Ended("leads")

    async def waits(_: float) -> None:
        if leader.leading:
            await asyncio.Event().wait()
        raise Ended("waits for the Lease")

    told: set[str] = set()
    leader: Leader
    async with await open_writer(kubeconfig=here.folder / "kubeconfig") as writer:
        for _ in range(2):
            leader = Leader(writer, NAMESPACE, "hami-bot", "me", sleep=waits)
            try:
                await leader.run(work)
            except Ended as ended:
                told.add(str(ended))
    return told


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        yield made


def test_every_kind_of_change_is_made_by_patch_alone(here: Cluster) -> None:
    acts = Acts(here)
    for name in {*acts.by_name} - {"profile"}:
        access = Noting(granted(manifests(CHANGING), BOT))
        told = acts.act(name, access)
        assert told & {"exit code 0", "leads"}, (name, told)
        assert [refusal for refusal in access.refusals if "subresource='proxy'" not in refusal] == [], name


def test_every_kind_of_change_is_made_and_without_any_one_rule_for_it_one_is_refused(here: Cluster) -> None:
    rules = granted(manifests(PROXYING), BOT)
    acts = Acts(here)
    used: Used = {}
    before: dict[str, set[str]] = {}
    for name in acts.by_name:
        access = Noting(rules)
        before[name] = acts.act(name, access)
        assert access.refusals == [], name
        used[name] = access.asked
    assert {name for name, told in before.items() if "exit code 0" not in told} == {"lead"}
    assert before["lead"] == {"leads"}
    silent = []
    for rule in rules:
        if rule in READING and spelled(rule) not in OF_CHANGES:
            continue
        asking = users(rule, rules, used)
        if not any(acts.act(name, without(rule, rules)) - before[name] for name in asking):
            silent.append(spelled(rule))
    assert silent == []


@pytest.mark.parametrize("values", [CHANGING, PROXYING], ids=["by patch alone", "with pods/proxy"])
def test_without_any_one_rule_of_the_dead_man_an_overdue_change_stays_or_the_pass_fails(
    values: Manifest, here: Cluster
) -> None:
    rules = granted(manifests(values), DEAD_MAN)
    proxy = [] if values is PROXYING else [Rule(["get", "update"], ["pods/proxy"])]

    def passes(container: str, access: Access) -> bool:
        """Whether the overdue change of that container is reverted."""
        here.server.access = Access(refused=proxy)
        here.settled()
        done = here.hami_bot("verbosity", "6", "--container", container, "--yes", "--no-capture")
        assert done.returncode == 0, done.stderr
        overdue(here)
        here.server.access = access
        if here.hami_bot("revert-overdue", "--namespace", "hami-system").returncode == 0:
            return KEY not in here.deployment["metadata"].get("annotations", {})
        here.server.access = Access()
        assert here.hami_bot("verbosity", "revert").returncode == 0
        return False

    containers = ("extender", "kube-scheduler")
    used: Used = {}
    for container in containers:
        access = Noting(rules)
        assert passes(container, access)
        used[container] = access.asked
    for rule in rules:
        asking = users(rule, rules, used)
        assert not all(passes(container, without(rule, rules)) for container in asking), spelled(rule)
