"""Why HAMi's limit on a GPU cannot hold in a container, by what the API shows of the pod.

The limits are HAMi-core's, a library that /etc/ld.so.preload brings into each process. What keeps it out, or hides the
limit from it, stands in the pod's spec [HAMi pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go Allocate;
HAMi-core src/libvgpu.c, src/multiprocess].
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.hami.vendors import FIRST
from bot.kube.models import Container, EnvVar, Pod
from bot.report import Confidence, Evidence, Finding, NextAction
from bot.texts import Texts
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rules.containers import Given
from playbooks.rules.findings import finding

_GO_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_MUSL = re.compile(r"(?:^|[/:._-])(?:alpine|musl)", re.IGNORECASE)
_INNER = re.compile(r"(?:^|[/:_-])dind(?:$|[:_.-])", re.IGNORECASE)
_SOCKETS = ("docker.sock", "containerd.sock", "crio.sock")
_SSH = re.compile(r"(?:^|[/:_-])(?:sshd|openssh|ssh-?server)", re.IGNORECASE)
_SSH_PORT = 22
(_PRIORITY,) = FIRST.names.passed_over
_SANDBOXES = re.compile(r"kata|gvisor|runsc|firecracker", re.IGNORECASE)


class Reason(NamedTuple):
    """Why the limit of a container cannot hold: `word` is its text, `quote` stands in the pod at `path`."""

    word: str
    container: str
    quote: str
    path: str
    confidence: Confidence = "suspected"


def limits_that_cannot_hold(pod: Pod, given: Given, say: Texts) -> list[Finding]:
    """One finding with every reason, the surest first."""
    reasons = [
        reason
        for one in given.containers
        if one in pod.spec.containers
        for reason in _reasons(pod, one, cores=given.cores)
    ]
    reasons.sort(key=lambda one: one.confidence != "confirmed")
    if not reasons:
        return []
    first, node = reasons[0], pod.spec.node_name
    proofs: list[Evidence] = [quotes.of_pod(pod, one.quote, one.path) for one in reasons]
    fixes = dict.fromkeys(one.word for one in reasons)
    return [
        finding(
            "limit-not-enforced",
            say(
                "limit-not-enforced.claim",
                container=first.container,
                why=say(f"limit-not-enforced.{first.word}", value=first.quote),
            ),
            first.confidence,
            (node,) if node else (),
            (*proofs, quotes.of_holder(pod)),
            severity="warning",
            actions=[
                NextAction(say(f"limit-not-enforced.fix-{word}"), kubectl_pod(pod, "get", "-o", "yaml"))
                for word in fixes
            ],
        )
    ]


def _reasons(pod: Pod, container: Container, *, cores: bool) -> Iterator[Reason]:
    name = container.name
    for one in container.env or ():
        if word := _turned_off(one, cores=cores):
            path = f'{{.spec.containers[?(@.name=="{name}")].env[?(@.name=="{one.name}")].value}}'
            yield Reason(word, name, one.value, path, "confirmed" if word == "disabled" else "suspected")
    image = f'{{.spec.containers[?(@.name=="{name}")].image}}'
    if _MUSL.search(container.image):
        yield Reason("musl", name, container.image, image)
    if _SANDBOXES.search(pod.spec.runtime_class_name):
        yield Reason("sandbox", name, pod.spec.runtime_class_name, "{.spec.runtimeClassName}")
    if _INNER.search(container.image):
        yield Reason("inner", name, container.image, image)
    elif socket := _socket_of(pod, container):
        yield Reason("inner", name, socket, "{.spec.volumes[*].hostPath.path}")


def remarks(pod: Pod, given: Given, sharers: Sequence[Pod] | None, say: Texts) -> list[NextAction]:
    """What may look as if a limit of a sound pod did not hold. `sharers`: other pods on its GPUs, None where unknown.

    The monitor switches the core limit on only while another container works on the GPU, and blocks one of priority 1
    while one of priority 0 works there [HAMi cmd/vGPUmonitor/feedback.go; HAMi#737, HAMi#786, HAMi-core#37]. The option
    ACTIVE_OOM_KILLER is read and never used [HAMi-core src/multiprocess; HAMi#372].
    """
    found: list[NextAction] = []
    look = kubectl_pod(pod, "get", "-o", "yaml")
    env = {one.name: one.value for container in given.containers for one in container.env or ()}
    if given.cores and env.get("GPU_CORE_UTILIZATION_POLICY", "default").lower() == "default":
        cores = ", ".join(str(one) for one in sorted({one.cores for one in given.shares}))
        key = "cores" if sharers is None else "cores-shared" if sharers else "cores-alone"
        found.append(NextAction(say(f"limit-remark.{key}", cores=cores, sharers=len(sharers or ())), look))
    first = next((one for one in sharers or () if _priority(one.spec.containers) == "0"), None)
    if first is not None and _priority(given.containers) != "0":
        found.append(NextAction(say("limit-remark.priority", pod=f"{first.namespace}/{first.name}"), look))
    if "ACTIVE_OOM_KILLER" in env:
        found.append(NextAction(say("limit-remark.oom-killer"), look))
    for one in given.containers:
        if one.security_context and one.security_context.privileged:
            found.append(NextAction(say("limit-remark.privileged", container=one.name), look))
        if _SSH.search(one.image) or any(port.container_port == _SSH_PORT for port in one.ports or ()):
            found.append(NextAction(say("limit-remark.ssh", container=one.name), look))
    return found


def _priority(containers: Sequence[Container]) -> str:
    """As asked for: 0 goes before 1, which is what a container has that asks for none."""
    asked = (one.resources.limits or {} for one in containers if one.resources)
    return next((str(limits[_PRIORITY]) for limits in asked if _PRIORITY in limits), "1")


def _turned_off(one: EnvVar, *, cores: bool) -> str:
    """What a variable of the pod's own does to the limits; the pod's value wins over the device plugin's."""
    match one.name:
        case "CUDA_DISABLE_CONTROL":
            return "disabled" if one.value in _GO_TRUE else ""
        case "NVIDIA_VISIBLE_DEVICES":
            return "all-visible" if one.value == "all" else ""
        case "CUDA_VISIBLE_DEVICES":
            return "by-uuid" if "GPU-" in one.value else ""
        case "GPU_CORE_UTILIZATION_POLICY":
            return "cores-off" if cores and one.value.lower() == "disable" else ""
        case _:
            return "own-limit" if one.name.startswith("CUDA_DEVICE_MEMORY_LIMIT") and one.value else ""


def _socket_of(pod: Pod, container: Container) -> str:
    """The host's container runtime socket that is mounted in the container, empty when none is."""
    mounted = {one.name for one in container.volume_mounts or ()}
    paths = (one.host_path.path for one in pod.spec.volumes or () if one.host_path and one.name in mounted)
    return next((path for path in paths if path.endswith(_SOCKETS)), "")
