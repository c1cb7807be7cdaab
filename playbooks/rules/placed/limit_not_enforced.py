"""Why HAMi's limit on a GPU cannot hold in a container, by what the API shows of the pod.

The limits are HAMi-core's, a library that /etc/ld.so.preload brings into each process. What keeps it out, or hides the
limit from it, stands in the pod's spec [HAMi pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go Allocate;
HAMi-core src/libvgpu.c, src/multiprocess].
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from bot.kube.models import Container, EnvVar, Pod
from bot.report import Confidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.rules.placed.container_faults import given, is_limited, is_troubled
from playbooks.scenes.placed_pod import PlacedScene

_GO_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_MUSL = re.compile(r"(?:^|[/:._-])(?:alpine|musl)", re.IGNORECASE)
_INNER = re.compile(r"(?:^|[/:_-])dind(?:$|[:_.-])", re.IGNORECASE)
_SOCKETS = ("docker.sock", "containerd.sock", "crio.sock")
_SANDBOXES = re.compile(r"kata|gvisor|runsc|firecracker", re.IGNORECASE)


_WHYS = {
    "disabled": "limit-not-enforced.disabled",
    "own-limit": "limit-not-enforced.own-limit",
    "all-visible": "limit-not-enforced.all-visible",
    "by-uuid": "limit-not-enforced.by-uuid",
    "cores-off": "limit-not-enforced.cores-off",
    "musl": "limit-not-enforced.musl",
    "sandbox": "limit-not-enforced.sandbox",
    "inner": "limit-not-enforced.inner",
}
_FIXES = {
    "disabled": "limit-not-enforced.fix-disabled",
    "own-limit": "limit-not-enforced.fix-own-limit",
    "all-visible": "limit-not-enforced.fix-all-visible",
    "by-uuid": "limit-not-enforced.fix-by-uuid",
    "cores-off": "limit-not-enforced.fix-cores-off",
    "musl": "limit-not-enforced.fix-musl",
    "sandbox": "limit-not-enforced.fix-sandbox",
    "inner": "limit-not-enforced.fix-inner",
}


class Reason(NamedTuple):
    """Why the limit of a container cannot hold: `word` names it, `quote` stands in the pod at `path`."""

    word: str
    container: str
    quote: str
    path: str
    confidence: Confidence = "suspected"


@rule("limit-not-enforced", reads=("install",))
def unenforced_limit(scene: PlacedScene) -> Iterator[Finding]:
    """The limit of a container that is not in trouble cannot hold: one finding with every reason, the surest first."""
    pod, node, held = scene.pod, scene.pod.spec.node_name, scene.once(given)
    if is_troubled(scene) or not is_limited(scene, held):
        return
    reasons = [
        reason
        for container in held.containers
        if container in pod.spec.containers
        for reason in _reasons(pod, container, cores=held.cores)
    ]
    reasons.sort(key=lambda reason: reason.confidence != "confirmed")
    if not reasons:
        return
    first, look = reasons[0], kubectl_pod(pod, "get", "-o", "yaml")
    proofs = [*(quotes.of_pod(pod, reason.quote, reason.path) for reason in reasons), quotes.of_holder(pod)]
    why = Text(_WHYS[first.word], value=first.quote)
    yield finding(
        "limit-not-enforced",
        Text("limit-not-enforced.claim", container=first.container, why=why),
        first.confidence,
        (node,) if node else (),
        proofs,
        severity="warning",
        actions=[step(Text(_FIXES[word]), look) for word in dict.fromkeys(reason.word for reason in reasons)],
    )


def _reasons(pod: Pod, container: Container, *, cores: bool) -> Iterator[Reason]:
    name = container.name
    for variable in container.env or ():
        if word := _turned_off(variable, cores=cores):
            path = f'{{.spec.containers[?(@.name=="{name}")].env[?(@.name=="{variable.name}")].value}}'
            yield Reason(word, name, variable.value, path, "confirmed" if word == "disabled" else "suspected")
    image = f'{{.spec.containers[?(@.name=="{name}")].image}}'
    if _MUSL.search(container.image):
        yield Reason("musl", name, container.image, image)
    if _SANDBOXES.search(pod.spec.runtime_class_name):
        yield Reason("sandbox", name, pod.spec.runtime_class_name, "{.spec.runtimeClassName}")
    if _INNER.search(container.image):
        yield Reason("inner", name, container.image, image)
    elif socket := _socket_of(pod, container):
        yield Reason("inner", name, socket, "{.spec.volumes[*].hostPath.path}")


def _turned_off(variable: EnvVar, *, cores: bool) -> str:
    """What a variable of the pod's own does to the limits; the pod's value wins over the device plugin's."""
    match variable.name:
        case "CUDA_DISABLE_CONTROL":
            return "disabled" if variable.value in _GO_TRUE else ""
        case "NVIDIA_VISIBLE_DEVICES":
            return "all-visible" if variable.value == "all" else ""
        case "CUDA_VISIBLE_DEVICES":
            return "by-uuid" if "GPU-" in variable.value else ""
        case "GPU_CORE_UTILIZATION_POLICY":
            return "cores-off" if cores and variable.value.lower() == "disable" else ""
        case _:
            return "own-limit" if variable.name.startswith("CUDA_DEVICE_MEMORY_LIMIT") and variable.value else ""


def _socket_of(pod: Pod, container: Container) -> str:
    """The host's container runtime socket that is mounted in the container, empty when none is."""
    mounted = {volume_mount.name for volume_mount in container.volume_mounts or ()}
    paths = (volume.host_path.path for volume in pod.spec.volumes or () if volume.host_path and volume.name in mounted)
    return next((path for path in paths if path.endswith(_SOCKETS)), "")
