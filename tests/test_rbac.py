"""The rights that the chart gives are enough for everything the bot does, and each of them is needed.

Enough: nothing is refused when an API server grants exactly these. Needed: of every right there is a request that no
other one covers, so that without it that request is refused.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.errors import NotFound
from bot.hami.pods.allocations import waits
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.writer import Writer
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import PODS, Pod
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.kube.watch.cache import CachedCluster, WatchCache
from bot.texts import Texts
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.shell_commands import write_recording
from playbooks.gather.pods import asks_for_devices
from playbooks.gather.scheduling import gather_install
from playbooks.own.discovery import find
from playbooks.playbook import Sources, load
from sandbox.apiserver import ApiServer
from tests.cases_support import CASES, VERSIONS, questions, scenarios
from tests.chart import BOT, DEAD_MAN, PROXYING, Manifest, granted, manifests
from tests.cluster_rights import OWNERS, Noting
from tests.incidents_support import INCIDENTS, Incident, incidents, open_incident
from tests.playbooks.dra_support import claiming, queued
from tests.real_cluster import REAL, namespace_of_our_own, send_as_it_is

pytestmark = pytest.mark.few(5)
READING = {"podsProxy": {"enabled": True}}


async def answer_everything(server: ApiServer, folder: Path, version: str) -> None:
    """Every question of the recorded cases, and one about ResourceClaims, asked once, and by a bot that keeps lists."""
    server.write("pods", claiming("wl"))
    server.write("pods", queued("kq"))
    config = folder / "kubeconfig"
    config.write_text(server.kubeconfig())
    asked = [(question.verb, question.values) for question in questions() if question.version == version]
    asked += [("why", {"pod": scenario.pod}) for scenario in scenarios() if scenario.version == version]
    asked += [("why", {"pod": pod}) for pod in (*OWNERS, "ml/wl", "ml/kq")]
    async with await open_cluster(kubeconfig=config) as live, WatchCache(live) as cache:
        for verb, values in asked:
            playbook = find(verb)
            for cached in (live, CachedCluster(cache)):
                snapshot = await playbook.gather(playbook.request(**values), Sources(cached))
                playbook.report(snapshot, Texts("en"))


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_question_is_answered_with_the_rights_of_a_bot_that_only_reads(
    version: str, tmp_path: Path
) -> None:
    access = Noting(granted(manifests(), BOT))
    async with ApiServer.from_recording(CASES / version / "recording.tar.gz") as server:
        server.access = access
        await answer_everything(server, tmp_path, version)
    assert access.refusals == []
    assert len(access.asked) > 20


@pytest.mark.parametrize("incident", incidents(), ids=lambda incident: incident.name)
async def test_an_incident_is_explained_with_the_rights_of_the_chart(incident: Incident, tmp_path: Path) -> None:
    recorded = open_incident(incident.name)
    pods = json.loads(recorded.read("objects/pods.json"))["items"]
    labels = [(pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}) for pod in pods]
    home = [place for place, some in labels if some.get("app.kubernetes.io/component") == "hami-scheduler"]
    home += [
        pod["metadata"]["namespace"]
        for pod in pods
        if any(container["name"] == EXTENDER_CONTAINER for container in pod["spec"]["containers"])
    ]
    logged = [incident.pod.partition("/")[0]] if "/" in incident.pod else []
    # Volcano is no part of HAMi: whoever wants its plugin's log read lists its namespace there, too.
    logged += sorted({place for place, some in labels if some.get("name") == "volcano-device-plugin"} - {*logged})
    # So it is with the driver's pods, which are no part of HAMi either.
    logged += sorted({place for place, some in labels if some.get("app") == "nvidia-driver-daemonset"} - {*logged})
    values = {"hami": {"namespace": home[0] if home else "hami-system"}, "workloadLogs": {"namespaces": logged}}
    access = Noting(granted(manifests(values | PROXYING), BOT))
    path = INCIDENTS / incident.name / "recording.tar.gz"
    async with ApiServer.from_recording(path, clock=recorded.now) as server:
        server.access = access
        config = tmp_path / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with await open_cluster(kubeconfig=config) as live:
            playbook = find(incident.verb)
            sources = Sources(live, workload_logs=bool(logged))
            report = playbook.report(await playbook.gather(playbook.request(**incident.target), sources), Texts("en"))
    # Where HAMi is not installed its namespace is not known, and the role grants these in that namespace alone.
    without = incident.name in ("no-hami", "4paradigm-old")
    of_one_namespace = ("plural='services'", "plural='endpointslices'") if without else ()
    assert [refusal for refusal in access.refusals if not any(kind in refusal for kind in of_one_namespace)] == []
    assert report.findings[0].code in incident.first


@pytest.mark.parametrize(("setting", "first"), [("true", "gpu-memory-limit"), ("false", "image-or-start-failure")])
async def test_the_log_of_a_workload_is_read_where_the_setting_and_a_role_of_its_namespace_allow_it(
    setting: str, first: str, tmp_path: Path
) -> None:
    access = Noting(granted(manifests({"workloadLogs": {"namespaces": ["vision"]}}), BOT))
    config = tmp_path / "kubeconfig"
    (tmp_path / "settings.yaml").write_text(f"workload_logs: {setting}\n")
    async with ApiServer.from_recording(INCIDENTS / "a3-oom-at-hami-limit" / "recording.tar.gz") as server:
        server.access = access
        config.write_text(server.kubeconfig())
        where = ClusterChoice(kubeconfig=config, config=tmp_path / "settings.yaml")
        async with open_sources(where) as sources:
            asked = find("why").request(pod="vision/segment-train-6b9d4c5884-xgjkg")
            report = find("why").report(await find("why").gather(asked, sources), Texts("en"))
    assert report.findings[0].code == first
    assert access.refusals == []
    assert ("container log" in [gap.source for gap in report.gaps]) == (setting == "false")


async def test_a_recording_made_with_the_rights_of_the_chart_lacks_nothing_of_hami(tmp_path: Path) -> None:
    case, out = CASES / "hami-2.10" / "recording.tar.gz", tmp_path / "out"
    async with ApiServer.from_recording(case) as server:
        server.access = Noting(granted(manifests(PROXYING), BOT))
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        async with open_sources(ClusterChoice(kubeconfig=tmp_path / "kubeconfig")) as sources:
            assert "services" not in await write_recording(sources, out, None)
    assert {path.name for path in (out / "objects").iterdir()} >= {
        name.removeprefix("objects/") for name in RecordedCluster.open(case).files("objects/")
    }


def asked_of(pods: Sequence[Pod]) -> list[tuple[str, dict[str, Any]]]:
    """Each verb with its arguments: those about a pod of one that waits, of one that has its node, and of none."""
    waiting = [f"{pod.namespace}/{pod.name}" for pod in pods if asks_for_devices(pod) and waits(pod)]
    placed = [f"{pod.namespace}/{pod.name}" for pod in pods if asks_for_devices(pod) and pod.spec.node_name]
    names = [*waiting[:1], *placed[:1], "default/no-such-pod"]
    more = {"why": [{"pod": name} for name in names], "logs": [{"pod": name, "since": "1h"} for name in names]}
    more |= {"fit": [{"cards": "1"}], "profile": [{"words": ("goroutine",)}]}
    return [(verb, values) for verb in load() for values in more.get(verb, [{}])]


async def every_verb(config: Path) -> None:
    """Asks every verb with these credentials, once and as a bot that keeps lists; no API server's refusal is told."""
    async with await open_cluster(kubeconfig=config) as live, WatchCache(live) as cache:
        asked = asked_of(await live.list(PODS))
        for where in (live, CachedCluster(cache)):
            for verb, values in asked:
                playbook = find(verb)
                try:
                    snapshot = await playbook.gather(playbook.request(**values), Sources(where, ports=live))
                except NotFound:  # of a profile: HAMi's scheduler may run no pod
                    continue
                report = playbook.report(snapshot, Texts("en"))
                assert report.findings, verb
                assert [gap.why for gap in report.gaps if 'forbidden: User "' in gap.why] == [], verb


async def test_every_verb_is_answered_with_the_rights_of_the_chart(tmp_path: Path) -> None:
    access = Noting(granted(manifests(READING), BOT))
    async with ApiServer.from_recording(CASES / "hami-2.10" / "recording.tar.gz") as server:
        server.access = access
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        await every_verb(tmp_path / "kubeconfig")
    assert access.refusals == []


def as_account(kubeconfig: Path, account: str) -> str:
    """The same kubeconfig for a user that acts as the service account (`namespace:name`), wherever it is written."""
    config = yaml.safe_load(kubeconfig.read_text())
    for part in (*(each["cluster"] for each in config["clusters"]), *(each["user"] for each in config["users"])):
        files = {"certificate-authority", "client-certificate", "client-key", "tokenFile"} & part.keys()
        part.update({key: str((kubeconfig.parent / part[key]).absolute()) for key in files})
    for each in config["users"]:
        each["user"]["as"] = f"system:serviceaccount:{account}"
    return yaml.safe_dump(config)


@asynccontextmanager
async def roles_made(writer: Writer, objects: Sequence[Manifest]) -> AsyncGenerator[None]:
    """The roles and bindings among the objects, for as long as the test lasts."""
    made: list[str] = []
    try:
        for one in (each for each in objects if each["apiVersion"].startswith("rbac.")):
            namespace = one["metadata"].get("namespace", "")
            path = f"/apis/{one['apiVersion']}/{f'namespaces/{namespace}/' if namespace else ''}{one['kind'].lower()}s"
            await send_as_it_is(writer, "POST", path, one)
            made.append(f"{path}/{one['metadata']['name']}")
        yield
    finally:
        for path in reversed(made):
            await send_as_it_is(writer, "DELETE", path)


@pytest.mark.skipif(not REAL, reason="HAMI_BOT_TEST_KUBECONFIG names no real cluster")
async def test_on_a_real_cluster_every_verb_is_answered_with_the_rights_of_the_chart(tmp_path: Path) -> None:
    """The chart's own roles under a name of the test's, and an administrator who acts as the bot's account."""
    async with await open_cluster(kubeconfig=Path(REAL)) as live:
        hami = (await gather_install(Sources(live))).install.namespace
    if not hami:
        pytest.skip("no HAMi is there")
    async with (
        await open_writer(kubeconfig=Path(REAL)) as writer,
        namespace_of_our_own(writer) as ours,
        roles_made(writer, manifests(READING | {"hami": {"namespace": hami}}, ours, ours)),
    ):
        config = tmp_path / "kubeconfig"
        config.write_text(as_account(Path(REAL), f"{ours}:{ours}"))
        await every_verb(config)


def test_a_bot_whose_changes_are_off_can_write_nothing() -> None:
    assert {verb for rule in granted(manifests(), BOT) for verb in rule.verbs} == {"get", "list", "watch"}
    assert granted(manifests(), DEAD_MAN) == []


@pytest.mark.parametrize("account", [BOT, DEAD_MAN])
def test_only_one_deployment_and_one_lease_can_be_written(account: str) -> None:
    writing = [rule for rule in granted(manifests(PROXYING), account) if not {"get", "list", "watch"} & set(rule.verbs)]
    assert writing
    for rule in writing:
        assert rule.namespace
        if rule.resources != ["pods/proxy"] and rule.verbs != ["create"]:
            assert rule.names in (["hami-scheduler"], ["hami-bot"])


@pytest.mark.parametrize("account", [BOT, DEAD_MAN])
def test_no_secret_is_read_nothing_is_executed_and_no_right_is_a_wildcard(account: str) -> None:
    for rule in granted(manifests(PROXYING), account):
        assert rule.resources[0] not in ("secrets", "pods/exec", "pods/attach", "pods/portforward")
        assert "*" not in (*rule.verbs, *rule.resources, *rule.groups)
