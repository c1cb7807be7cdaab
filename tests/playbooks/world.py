"""A small cluster as plain API objects, written as a recording: a test names only what its situation is about.

`ask` puts the question and checks what every report must satisfy, whatever it is about.
"""

import asyncio
import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from bot.kube.lists import API_KINDS
from bot.kube.models import ALL_KINDS
from bot.kube.recording.files import file_name
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.kube.recording.redact import masked
from bot.render.overview import steps_shown
from bot.report import VERDICT_LIMIT, Finding, Report, as_json, one_line
from bot.texts import LANGUAGES, Texts
from playbooks.fit.manifest import Manifest
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer, Fault
from tests.cases_support import text_in
from tests.kube.live_servers import reached
from tests.report_schema import validated

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 5, 0, 0, tzinfo=UTC)
NAMESPACE = "ml"
HAMI = "hami-system"
REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
LOCK = "hami.io/mutex.lock"
EXTENDER = "vgpu-scheduler-extender"
COMPONENT = {"app.kubernetes.io/component": "hami-scheduler"}
PLUGIN = {"app.kubernetes.io/component": "hami-device-plugin"}

FILES = {API_KINDS[kind.plural]: f"objects/{file_name(kind)}" for kind in ALL_KINDS}
_NO_QUOTE_NEEDED = ("not-found", "not-enough-evidence", "bot-blind", "nothing-pending", "hami-not-installed")


def ago(seconds: float) -> str:
    """The time so many seconds before the recording was taken."""
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


# ----------------------------------------------------------------------------------------------------- pods


def gpu(count: Any = 1, memory: Any = None, cores: Any = None, **more: Any) -> Object:
    """The limits of a container that asks for NVIDIA cards."""
    asked = {"nvidia.com/gpu": count, "nvidia.com/gpumem": memory, "nvidia.com/gpucores": cores, **more}
    return {name: str(amount) for name, amount in asked.items() if amount is not None}


def container(limits: Object | None = None, name: str = "main", **fields: Any) -> Object:
    return {
        "name": name,
        "image": "example/main",
        "resources": {"limits": limits or {}, "requests": limits or {}},
    } | fields


def pod(name: str = "wl", limits: Object | None = None, **fields: Any) -> Object:
    """A pending pod that asks for 1,000 MiB of one card, unless told otherwise.

    `fields`: namespace, uid, age (seconds), annotations, labels, owner (an object), said (the PodScheduled condition),
    status, deleted; any other is one of the spec's.
    """
    take = fields.pop
    owner = take("owner", None)
    metadata = {
        "name": name,
        "namespace": take("namespace", NAMESPACE),
        "uid": take("uid", f"uid-{name}"),
        "creationTimestamp": ago(take("age", 120)),
        "annotations": take("annotations", {}),
        "labels": take("labels", {}),
    }
    if deleted := take("deleted", None):
        metadata |= {"deletionTimestamp": deleted}
    if owner:
        refers = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata |= {"ownerReferences": [refers | {"controller": True}]}
    said = take("said", None)
    status = {"phase": "Pending"} | ({"conditions": [said]} if said else {}) | take("status", {})
    containers = [container(gpu(memory=1000) if limits is None else limits)]
    spec = {"schedulerName": "hami-scheduler", "containers": containers} | fields
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def refused(message: str, seconds: float = 60, reason: str = "Unschedulable") -> Object:
    """The PodScheduled condition of a pod that no node took; a failed Bind has the reason SchedulerError."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(seconds),
    }


def bind_error(message: str, seconds: float = 60) -> Object:
    return refused(message, seconds, "SchedulerError")


def none_of(total: int, reasons: str) -> str:
    """kube-scheduler's text with the ending of its newer versions."""
    return (
        f"0/{total} nodes are available: {reasons}. no new claims to deallocate, preemption: 0/{total} nodes are "
        f"available: {total} Preemption is not helpful for scheduling."
    )


def given(node: str, *shares: tuple[str, int, int]) -> Object:
    """The annotations of a pod that HAMi gave cards to: (uuid, MiB, cores) of one container."""
    text = "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in shares)
    return {"hami.io/vgpu-node": node, "hami.io/vgpu-time": "1795237200", "hami.io/vgpu-devices-allocated": f"{text};"}


def running(name: str, node: str, *shares: tuple[str, int, int], **fields: Any) -> Object:
    """A running pod that holds shares of cards of its node."""
    annotations = given(node, *shares) | fields.pop("annotations", {})
    one = pod(name, annotations=annotations, labels={"hami.io/vgpu-node": node}, nodeName=node, **fields)
    one["status"] |= {"phase": "Running"}
    return one


# ---------------------------------------------------------------------------------------------------- nodes


def card(uuid: str = "GPU-0", memory: int = 16384, **fields: Any) -> Object:
    """A healthy T4 as a plugin since 2.8 registers it."""
    usual = {"id": uuid, "count": 10, "devmem": memory, "devcore": 100, "type": "NVIDIA-Tesla T4", "mode": "hami-core"}
    return usual | {"health": True} | fields


def as_text(cards: Iterable[Object]) -> str:
    """The registration as plugins of 2.5 to 2.7 write it."""
    keys = ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")
    texts = [",".join(str(({"numa": 0, "index": 0} | card)[key]) for key in keys) for card in cards]
    return "".join(f"{text}:" for text in texts).replace("True", "true").replace("False", "false")


def node(name: str, annotations: Object | None = None, **fields: Any) -> Object:
    """A ready node; `fields`: labels, allocatable (adds to cpu and memory), taints, unschedulable."""
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110"} | fields.get("allocatable", {})
    spec = {key: fields[key] for key in ("taints", "unschedulable") if key in fields}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": fields.get("labels", {})},
        "spec": spec,
        "status": {
            "allocatable": offered,
            "capacity": offered,
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": ago(10)}],
        },
    }


def gpu_node(name: str = "gpu-1", *cards: Object, text: bool = False, **fields: Any) -> Object:
    """A node whose cards (one T4 by default) are registered and offered by kubelet. `text`: as up to 2.7."""
    cards = cards or (card(f"GPU-{name}"),)
    register = as_text(cards) if text else json.dumps(cards)
    annotations = {REGISTER: register} | fields.pop("annotations", {})
    offered = {"nvidia.com/gpu": str(sum(card["count"] for card in cards))} | fields.pop("allocatable", {})
    labels = {"gpu": "on"} | fields.pop("labels", {})
    return node(name, annotations, allocatable=offered, labels=labels, **fields)


def plugin_pod(on: str) -> Object:
    """The device plugin's pod of a node."""
    one = pod(f"hami-device-plugin-{on}", {}, namespace=HAMI, labels=PLUGIN, nodeName=on)
    one["status"] = {"phase": "Running"}
    return one


# --------------------------------------------------------------------------------------------------- events


def event(about: Object, reason: str, message: str, seconds: float = 60, **fields: Any) -> Object:
    """An event about an object. kube-scheduler's carry an eventTime, all others a lastTimestamp."""
    metadata = about["metadata"]
    name = f"{metadata['name']}.{len(message):x}{int(seconds):x}"
    at = {"eventTime": ago(seconds)} if reason == "FailedScheduling" else {"lastTimestamp": ago(seconds), "count": 1}
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"], "creationTimestamp": ago(seconds)},
        "involvedObject": {"kind": about["kind"]} | {key: metadata[key] for key in ("namespace", "name", "uid")},
        "type": "Warning",
        "reason": reason,
        "message": message,
        **at,
        **fields,
    }


# ------------------------------------------------------------------------------------------------- workloads


def owner(kind: str, name: str, of: Object | None = None, **fields: Any) -> Object:
    """A controller of pods; `of` is what owns it in turn. `fields`: wants and has (replicas), namespace."""
    metadata = {"name": name, "namespace": fields.get("namespace", NAMESPACE), "uid": f"uid-{kind}-{name}"}
    if of:
        metadata |= {
            "ownerReferences": [{"kind": of["kind"], "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}]
        }
    return {
        "kind": kind,
        "metadata": metadata,
        "spec": {"replicas": fields.get("wants", 1)},
        "status": {"replicas": fields.get("has", 0)},
    }


def quota(name: str = "cards", namespace: str = NAMESPACE, **hard: Any) -> Object:
    """A ResourceQuota with `gpumem` and `gpucores` under limits.nvidia.com/."""
    limits = {f"limits.nvidia.com/{key}": str(value) for key, value in hard.items()}
    return {"kind": "ResourceQuota", "metadata": {"name": name, "namespace": namespace}, "spec": {"hard": limits}}


# ---------------------------------------------------------------------------------------------------- HAMi

READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": EXTENDER, "ready": True, "state": {"running": {"startedAt": ago(9000)}}}],
}


def scheduler(version: str = "2.10.0", **fields: Any) -> list[Object]:
    """HAMi's scheduler as the chart installs it: Deployment, pod, Lease and device config.

    `fields`: namespace, name (of the Deployment), labels, scheduler_name, flags (more of the extender's), kube_flags
    (kube-scheduler's), before and after (containers around the extender), replicas, statuses (of its pods), renewed
    (seconds since the lease was), config (the device config's text), image.
    """
    name, namespace = fields.get("name", "hami-scheduler"), fields.get("namespace", HAMI)
    labels = fields.get("labels", COMPONENT)
    called = fields.get("scheduler_name", "hami-scheduler")
    flags = ["scheduler", f"--scheduler-name={called}", "-v=4"]
    if tuple(map(int, version.split(".")))[:2] >= (2, 8):
        flags += ["--leader-elect=true", f"--leader-elect-resource-name={called}"]
        flags += [f"--leader-elect-resource-namespace={namespace}"]
    image = fields.get("image", f"docker.io/projecthami/hami:v{version}")
    extender = {"name": EXTENDER, "image": image, "command": [*flags, *fields.get("flags", ())]}
    kube_command = ["kube-scheduler", *fields.get("kube_flags", ())]
    kube = {"name": "kube-scheduler", "image": "registry.example/kube-scheduler:v1.34.1", "command": kube_command}
    template = {"containers": [kube, *fields.get("before", ()), extender, *fields.get("after", ())]}
    statuses = fields.get("statuses", (READY,))
    ready = sum(1 for status in statuses if status is READY)
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels},
        "spec": {"replicas": fields.get("replicas", 1), "template": {"metadata": {"labels": labels}, "spec": template}},
        "status": {"replicas": len(statuses), "readyReplicas": ready},
    }
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"{name}-{i}", "namespace": namespace, "uid": f"uid-{name}-{i}", "labels": labels},
            "spec": {**template, "nodeName": "cp-1"},
            "status": copy.deepcopy(status),  # a test may change its own
        }
        for i, status in enumerate(statuses)
    ]
    lease = {
        "kind": "Lease",
        "metadata": {"name": called, "namespace": namespace},
        "spec": {
            "holderIdentity": f"{name}-0_1",
            "leaseDurationSeconds": 15,
            "renewTime": ago(fields.get("renewed", 5)),
        },
    }
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-device", "namespace": namespace},
        "data": {"device-config.yaml": fields.get("config", "nvidia: {}\n")},
    }
    return [deployment, *pods, lease, config]


def cluster(*objects: Object, version: str = "2.10.0", **fields: Any) -> list[Object]:
    """A cluster with a healthy HAMi of that version; `fields` are its scheduler's."""
    return [*scheduler(version, **fields), *objects]


# ---------------------------------------------------------------------------------------------------- asking


def _write_quiet_logs(path: Path, item: Object) -> None:
    """A device plugin that is ready has nothing to tell, unless a test gives its log."""
    metadata, status = item["metadata"], item.get("status", {})
    if metadata.get("labels", {}).items() >= PLUGIN.items() and item["kind"] == "Pod":
        for part in status.get("containerStatuses", ()):
            file = path / "logs" / metadata["namespace"] / metadata["name"] / f"{part['name']}.log"
            if part.get("ready") and not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("", encoding="utf-8")


def record(
    folder: Path,
    objects: Sequence[Object],
    *,
    missing: Sequence[str] = (),
    logs: str = "",
    metrics: str = "",
    others: Mapping[str, str] | None = None,
    monitors: Mapping[str, str] | None = None,
) -> Path:
    """The objects as a recording: every kind's file is there but the `missing` (by plural).

    `logs` and `metrics` are those of the extender of `scheduler`'s first pod; `others` are more logs, by
    `namespace/pod/container` or `namespace/pod/container.previous`; `monitors` what vGPUmonitor of each node answers.
    """
    path = folder / "recording"
    for name, text in (monitors or {}).items():
        served = path / "metrics" / HAMI / f"hami-device-plugin-{name}" / "9394.prom"
        served.parent.mkdir(parents=True, exist_ok=True)
        served.write_text(text, encoding="utf-8")
    if metrics:
        served = path / "metrics" / HAMI / "hami-scheduler-0" / "9395.prom"
        served.parent.mkdir(parents=True, exist_ok=True)
        served.write_text(metrics, encoding="utf-8")
    (path / "objects").mkdir(parents=True, exist_ok=True)
    (path / "meta.json").write_text(json.dumps({"taken_at": ago(0), "cluster": "lab"}))
    for kind, file in FILES.items():
        if file.removeprefix("objects/").split(".")[0] not in missing:
            items = [object_ for object_ in objects if object_["kind"] == kind]
            (path / file).write_text(json.dumps({"kind": "List", "items": items}, ensure_ascii=False), encoding="utf-8")
    for name, text in (others or {}).items():
        file = path / "logs" / f"{name}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if "logs" not in missing:
        for item in objects:
            _write_quiet_logs(path, item)
            containers = item.get("spec", {}).get("containers", ()) if item["kind"] == "Pod" else ()
            if any(part["name"] == EXTENDER for part in containers):
                file = path / "logs" / item["metadata"]["namespace"] / item["metadata"]["name"] / f"{EXTENDER}.log"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(logs, encoding="utf-8")
    return path


def ask(
    folder: Path, objects: Sequence[Object], name: str = "ml/wl", *, settings: Object | None = None, **recorded: Any
) -> Report:
    """What `why` says about the pod. `settings` are the Sources' fields; `recorded` goes to `record`."""
    path = record(folder, objects, **recorded)
    return answer("why", path, settings or {}, pod=name)


def fit(folder: Path, objects: Sequence[Object], *manifests: str, namespace: str = "", **recorded: Any) -> Report:
    """What `fit` says about the pods of the manifests."""
    path = record(folder, objects, **recorded)
    files = [Manifest(f"pod-{number}.yaml", text) for number, text in enumerate(manifests)]
    return answer("fit", path, {}, file=files, namespace=namespace, also="\n".join(manifests))


def answer(verb: str, path: Path, settings: Object, *, also: str = "", **words: Any) -> Report:
    """The playbook's report on a recording, in English, after all checks."""
    playbook = find(verb)
    cluster = RecordedCluster.open(path)
    ports = cluster if (path / "metrics").exists() else None
    sources = Sources(cluster, **{"ports": ports, **settings})
    snapshot = asyncio.run(playbook.gather(playbook.request(**words), sources))
    english, *others = (playbook.report(snapshot, Texts(language)) for language in LANGUAGES)
    for report in (english, *others):
        check(report, text_of(path) + also)
        assert [finding.code for finding in report.findings] == [finding.code for finding in english.findings]
    return english


async def answer_live(
    verb: str, recording: Path, folder: Path, *faults: Fault, namespace: str = "default", **words: Any
) -> Report:
    """What the playbook says of the recording when an API server serves it; the credentials are of that namespace."""
    playbook, server = find(verb), ApiServer.from_recording(recording, faults=faults)
    async with reached(server, folder, namespace) as cluster:
        return playbook.report(await playbook.gather(playbook.request(**words), Sources(cluster)), Texts("en"))


def text_of(path: Path) -> str:
    """Every text that stands in the recording, keys included."""
    return text_in({str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()})


def check(report: Report, seen: str) -> None:
    """What every report satisfies: it is readable, in limits, and quotes only what was seen, credentials masked."""
    assert report.findings
    assert report.verdict
    assert report.verdict == one_line(report.verdict)
    assert len(report.verdict) <= VERDICT_LIMIT
    for finding in report.findings:
        assert finding.claim
        assert finding.evidence or finding.code in _NO_QUOTE_NEEDED, finding.code
        own = finding.code == "own-finding"
        assert own or finding.severity == "info" or finding.next_actions, f"a warning without a step: {finding.code}"
        assert list(finding.scope.nodes) == sorted(finding.scope.nodes)
        for evidence in finding.evidence:
            assert evidence.quote, finding.code
            assert evidence.quote in seen or evidence.quote in masked(seen), evidence
            assert evidence.command
    actions = [action for finding in report.findings for action in finding.next_actions]
    assert len(set(steps_shown(report))) == len(steps_shown(report))
    assert len(steps_shown(report)) <= 3
    assert all(action.label for action in actions)
    assert all(len(row) == len(table.columns) for table in report.tables for row in table.rows)
    assert msgspec.json.decode(as_json(report), type=Report) == validated(report)


# ------------------------------------------------------------------------------------------------ the answer


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def cause(report: Report) -> Finding:
    """The first finding."""
    return report.findings[0]


def quotes(report: Report) -> list[str]:
    return [evidence.quote for finding in report.findings for evidence in finding.evidence]


def commands(report: Report) -> list[str]:
    return [action.command for finding in report.findings for action in finding.next_actions]
