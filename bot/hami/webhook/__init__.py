"""A pod as HAMi's webhook admits it, and as the API takes it then; or who refuses it, in their words.

Source: HAMi v2.7 to v2.10, pkg/scheduler/webhook.go.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import structs

from bot.hami.vendors.shared.admission import AnnotatedContainer, Denied, Mutation
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.hami.webhook.api import inits_of, invalid, with_containers, with_requests
from bot.kube.models import Container, Pod, Quantity, ResourceRequirements

NAME = "vgpu.hami.io"
_LOOKS_EVERYWHERE = Version(2, 10, 0)
_RESPECTS_FOREIGN = Version(2, 7, 0)
LEAVES_OWN_ALONE = (Version(2, 7, 0), Version(2, 9, 0))
"""From the first of these to before the second, a pod that names HAMi's scheduler itself is admitted unchanged."""
DEFAULT_SCHEDULERS = ("", "default-scheduler")


class Rejection(NamedTuple):
    """Who refuses the pod, and how."""

    by: Literal["webhook", "API"]
    words: str

    def message(self, pod: Pod) -> str:
        """The whole text, as the API server answers it."""
        if self.by == "webhook":
            return f'admission webhook "{NAME}" denied the request: {self.words}'
        return f'Pod "{pod.name}" is invalid: {self.words}'


class Setting(NamedTuple):
    """What the webhook knows: its version, the scheduler that it hands pods to, and the devices of its config."""

    version: Version
    scheduler: str
    devices: Sequence[Device]


def admit(pod: Pod, setting: Setting) -> Pod | Rejection:
    """The pod with what the webhook and the API add; the same pod where the webhook leaves it alone.

    Namespace and label selectors, quotas, and what is no resource or annotation (environment, runtime class) are left
    out.
    """
    pod = with_requests(pod)
    if _is_foreign(pod.spec.scheduler_name, setting):
        return pod
    shown = _show(pod, setting)
    if isinstance(shown, Rejection):
        return shown
    pod, found = shown
    if found:
        if (refused := _whole_pod(pod, setting.version)) is not None:
            return refused
        pod = structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=setting.scheduler))
    pod = with_requests(pod)
    wrong = list(invalid(pod))
    return Rejection("API", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]") if wrong else pod


def _is_foreign(scheduler: str, setting: Setting) -> bool:
    """Whether the webhook leaves the pod to the scheduler that it names. 2.7 and 2.8 do so even with HAMi's own."""
    since, until = LEAVES_OWN_ALONE
    if setting.version < _RESPECTS_FOREIGN or scheduler in DEFAULT_SCHEDULERS:
        return False
    return scheduler != setting.scheduler or since <= setting.version < until


def _show(pod: Pod, setting: Setting) -> tuple[Pod, bool] | Rejection:
    """The pod after every container was shown to every vendor, and whether one found something of its own."""
    annotations, found = dict(pod.metadata.annotations or {}), False
    containers = [*inits_of(pod), *pod.spec.containers]
    first = 0 if setting.version >= _LOOKS_EVERYWHERE else len(inits_of(pod))
    for at in range(first, len(containers)):
        if setting.version < _LOOKS_EVERYWHERE and _is_privileged(containers[at]):
            continue
        for device in setting.devices:
            parts = containers[at].resources or ResourceRequirements()
            shown = AnnotatedContainer(
                containers[at].name, parts.limits or {}, parts.requests or {}, annotations, setting.version
            )
            answer = device.vendor.admit(shown, device.resources)
            if isinstance(answer, Denied):
                return Rejection("webhook", answer.words)
            if answer is not None:
                containers[at], found = _with(containers[at], answer), True
                annotations.update(answer.annotations)
    inits = len(inits_of(pod))
    pod = with_containers(pod, containers[:inits], containers[inits:])
    if annotations != (pod.metadata.annotations or {}):
        pod = structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))
    return pod, found


def _with(container: Container, written: Mutation) -> Container:
    if not written.limits and not written.requests:
        return container
    parts = container.resources or ResourceRequirements()
    limits: dict[str, Quantity] = {**(parts.limits or {}), **written.limits}
    requests: dict[str, Quantity] = {**(parts.requests or {}), **written.requests}
    return structs.replace(container, resources=structs.replace(parts, limits=limits, requests=requests))


def _is_privileged(container: Container) -> bool:
    return bool(container.security_context and container.security_context.privileged)


def _whole_pod(pod: Pod, version: Version) -> Rejection | None:
    """What keeps a pod out that asks for some vendor's device."""
    privileged = next(
        (container.name for container in (*inits_of(pod), *pod.spec.containers) if _is_privileged(container)), None
    )
    if privileged is not None and version >= _LOOKS_EVERYWHERE:
        return Rejection("webhook", f"container {privileged} is privileged")
    return Rejection("webhook", "pod has node assigned") if pod.spec.node_name else None
