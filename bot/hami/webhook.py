"""What HAMi's webhook and then the API make of a pod: the pod as admitted, or who refuses it, in the refuser's words.
Source: HAMi v2.7 to v2.10, pkg/scheduler/webhook.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import structs

from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors.vendor import AnnotatedContainer, Denied, Device
from bot.hami.version import Version
from bot.kube.models import Container, MutatingWebhookConfiguration, Pod, Quantity, ResourceRequirements, Webhook
from bot.kube.models.base import LabelSelector, SelectorRequirement
from bot.kube.quantities import canonical, parse_quantity
from bot.kube.selectors import holds
from bot.kube.times import parse_time

NAME = "vgpu.hami.io"
_LOOKS_EVERYWHERE = Version(2, 10, 0)
_RESPECTS_FOREIGN = Version(2, 7, 0)
LEAVES_OWN_ALONE = (Version(2, 7, 0), Version(2, 9, 0))
"""From the first version to before the second, HAMi admits a pod unchanged that already names HAMi's scheduler."""
DEFAULT_SCHEDULERS = ("", "default-scheduler")
_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label with a namespace's own name, which the API server sets."""


class Rejection(NamedTuple):
    """The refusal of a pod: `by` whom, and in what `words`."""

    by: Literal["webhook", "API"]
    words: str

    def message(self, pod: Pod) -> str:
        """The whole text of the refusal, as the API server answers it."""
        if self.by == "webhook":
            return f'admission webhook "{NAME}" denied the request: {self.words}'
        return f'Pod "{pod.name}" is invalid: {self.words}'


class WebhookSetting(NamedTuple):
    """What HAMi's webhook knows: its version, the scheduler that it gives pods to, and its config's devices."""

    version: Version
    scheduler: str
    devices: Sequence[Device]


def admit(pod: Pod, setting: WebhookSetting) -> Pod | Rejection:
    """The pod with the resources and annotations that HAMi's webhook and the API add, or its rejection. The same pod
    where the webhook leaves it alone. Selectors and quotas are not applied, nor environment and runtime class.
    """
    pod = with_requests(pod)
    scheduler, version, (since, until) = pod.spec.scheduler_name, setting.version, LEAVES_OWN_ALONE
    foreign = scheduler != setting.scheduler or since <= version < until  # 2.7 and 2.8 leave even HAMi's own alone
    if foreign and version >= _RESPECTS_FOREIGN and scheduler not in DEFAULT_SCHEDULERS:
        return pod
    shown = _show(pod, setting)
    if isinstance(shown, Rejection):
        return shown
    pod, found = shown
    if found:
        containers = (*inits_of(pod), *pod.spec.containers)
        privileged = next((container.name for container in containers if _is_privileged(container)), None)
        if privileged is not None and version >= _LOOKS_EVERYWHERE:
            return Rejection("webhook", f"container {privileged} is privileged")
        if pod.spec.node_name:
            return Rejection("webhook", "pod has node assigned")
        pod = structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=setting.scheduler))
    pod = with_requests(pod)
    wrong = list(invalid(pod))
    return Rejection("API", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]") if wrong else pod


def _show(pod: Pod, setting: WebhookSetting) -> tuple[Pod, bool] | Rejection:
    """The pod after every vendor has seen its containers, and whether one of them found its own."""
    annotations, found = dict(pod.metadata.annotations or {}), False
    containers = [*inits_of(pod), *pod.spec.containers]
    first = 0 if setting.version >= _LOOKS_EVERYWHERE else len(inits_of(pod))
    for at in range(first, len(containers)):
        if setting.version < _LOOKS_EVERYWHERE and _is_privileged(containers[at]):
            continue
        for device in setting.devices:
            parts = containers[at].resources or ResourceRequirements()
            limits, requests = parts.limits or {}, parts.requests or {}
            shown = AnnotatedContainer(containers[at].name, limits, requests, annotations, setting.version)
            answer = device.vendor.admit(shown, device.resources)
            if isinstance(answer, Denied):
                return Rejection("webhook", answer.words)
            if answer is not None:
                found = True
                annotations.update(answer.annotations)
            if answer and (answer.limits or answer.requests):
                amounts = ResourceRequirements({**limits, **answer.limits}, {**requests, **answer.requests})
                containers[at] = structs.replace(containers[at], resources=amounts)
    inits = len(inits_of(pod))
    pod = with_containers(pod, containers[:inits], containers[inits:])
    if annotations != (pod.metadata.annotations or {}):
        pod = structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))
    return pod, found


def _is_privileged(container: Container) -> bool:
    return bool(container.security_context and container.security_context.privileged)


OPT_OUT_LABEL, OPT_OUT_VALUE = "hami.io/webhook", "ignore"
MIRROR_KEY = "kubernetes.io/config.mirror"

How = Literal["opted-out", "unselected", "namespace", "static", "older", "privileged", "init"]


class LeftAlone(NamedTuple):
    """Why the webhook did not act on a pod. `key`: the label that decides, if one does; `value` is empty if absent.
    `may_go`: without the label the webhook would act, and the label can be removed.
    """

    how: How
    key: str = ""
    value: str = ""
    may_go: bool = False


def reason_left_alone(
    pod: Pod,
    config: DeviceConfig,
    version: Version | None,
    hook: tuple[MutatingWebhookConfiguration, Webhook] | None,
    namespace: Mapping[str, str] | None,
) -> LeftAlone | None:
    """Why the webhook did not act on the pod; None where no reason is known. `namespace`: the namespace's labels."""
    default = LabelSelector(match_expressions=[SelectorRequirement(OPT_OUT_LABEL, "NotIn", [OPT_OUT_VALUE])])
    objects = hook[1].object_selector if hook else default
    spaces = hook[1].namespace_selector if hook else default
    labels = pod.metadata.labels or {}
    if key := unmet_key(objects, labels):
        return LeftAlone("opted-out" if _may_go(key, objects, labels) else "unselected", key, labels.get(key, ""))
    if namespace is not None and (key := unmet_key(spaces, namespace)):
        return LeftAlone("namespace", key, namespace.get(key, ""), _may_go(key, spaces, namespace))
    if pod.metadata.annotation(MIRROR_KEY):
        return LeftAlone("static", MIRROR_KEY)
    made, began = (parse_time(resource.metadata.creation_timestamp) for resource in (pod, hook[0] if hook else pod))
    if made is not None and began is not None and made < began:
        return LeftAlone("older")
    # Versions before 2.10 pass over privileged containers and init containers.
    if version is None or version >= _LOOKS_EVERYWHERE:
        return None
    asking = [container for container in pod.spec.containers if _asks(container, config)]
    if not asking:
        return LeftAlone("init") if any(_asks(container, config) for container in inits_of(pod)) else None
    return LeftAlone("privileged", asking[0].name) if all(map(_is_privileged, asking)) else None


def _asks(container: Container, config: DeviceConfig) -> bool:
    resources = container.resources
    asked = (resources.limits, resources.requests) if resources else ()
    return any(config.manages(name) for amounts in asked for name in amounts or ())


def _may_go(key: str, selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector wants the label absent, and the label is not the API server's own."""
    without = {other: value for other, value in labels.items() if other != key}
    return key in labels and key != _NAME_LABEL and unmet_key(selector, without) != key


def unmet_key(selector: LabelSelector | None, labels: Mapping[str, str]) -> str:
    """The key of the selector's first requirement that the labels do not meet; empty where they meet all."""
    wanted = (selector.match_labels or {}).items() if selector else ()
    required = (selector.match_expressions or ()) if selector else ()
    missed = [key for key, value in wanted if labels.get(key) != value]
    missed += [each.key for each in required if not holds(each, labels.get(each.key))]
    return missed[0] if missed else ""


def with_requests(pod: Pod) -> Pod:
    """The pod as the API completes it: every limit without a request gets an equal request."""

    def filled(container: Container) -> Container:
        resources = container.resources
        if resources is None or not resources.limits:
            return container
        requests = {**resources.limits, **(resources.requests or {})}
        return structs.replace(container, resources=structs.replace(resources, requests=requests))

    return with_containers(pod, list(map(filled, inits_of(pod))), list(map(filled, pod.spec.containers)))


def inits_of(pod: Pod) -> list[Container]:
    return list(pod.spec.init_containers or ())


def with_containers(pod: Pod, inits: list[Container], apps: list[Container]) -> Pod:
    """The pod with other init containers and app containers."""
    spec = structs.replace(pod.spec, containers=apps, init_containers=inits or pod.spec.init_containers)
    return structs.replace(pod, spec=spec)


def invalid(pod: Pod) -> Iterator[str]:
    """The API's complaints about extended resources: amounts must be whole, each request equal to its limit."""
    for kind, containers in (("initContainers", inits_of(pod)), ("containers", pod.spec.containers)):
        for at, container in enumerate(containers):
            path, parts = f"spec.{kind}[{at}].resources", container.resources or ResourceRequirements()
            limits, requests = parts.limits or {}, parts.requests or {}
            for name in sorted(filter(_is_extended, limits)):
                yield from _fraction(f"{path}.limits[{name}]", limits[name])
                ours, theirs = requests.get(name, limits[name]), limits[name]
                if parse_quantity(ours) != parse_quantity(theirs):
                    both = f"must be equal to {name} limit of {canonical(theirs)}"
                    yield f'{path}.requests: Invalid value: "{canonical(ours)}": {both}'
            for name in sorted(filter(_is_extended, requests)):
                yield from _fraction(f"{path}.requests[{name}]", requests[name])
                if name not in limits:
                    yield f"{path}.limits: Required value: Limit must be set for non overcommitable resources"


def _fraction(path: str, amount: Quantity) -> Iterator[str]:
    number = parse_quantity(amount)
    if number is not None and number != number.to_integral_value():
        yield f'{path}: Invalid value: "{canonical(amount)}": must be an integer'


def _is_extended(name: str) -> bool:
    return "/" in name and not name.split("/", maxsplit=1)[0].endswith("kubernetes.io")
