"""Why HAMi's admission webhook leaves a pod alone, as far as the pod and the webhook's configuration tell.

Sources: HAMi v2.4 to v2.10, pkg/scheduler/webhook.go and charts/hami/templates/scheduler/webhook.yaml.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Version
from bot.kube.models import Container, LabelSelector, MutatingWebhookConfiguration, Pod, SelectorRequirement, Webhook
from bot.kube.times import parse_time

OPT_OUT_LABEL, OPT_OUT_VALUE = "hami.io/webhook", "ignore"
MIRROR_KEY = "kubernetes.io/config.mirror"
_LOOKS_EVERYWHERE = Version(2, 10, 0)
"""Since then it denies privileged containers, and looks at init containers as well."""

How = Literal["opted-out", "unselected", "namespace", "static", "older", "privileged", "init"]


class LeftAlone(NamedTuple):
    """Why the webhook did not act on a pod. `key`: the label's, where one decides; `value` empty where it is absent."""

    how: How
    key: str = ""
    value: str = ""


def left_alone(
    pod: Pod,
    config: DeviceConfig,
    version: Version | None,
    hook: tuple[MutatingWebhookConfiguration, Webhook] | None,
    namespace: Mapping[str, str] | None,
) -> LeftAlone | None:
    """What kept the webhook away; None where nothing that is known did. `namespace`: the labels of the pod's."""
    default = LabelSelector(match_expressions=[SelectorRequirement(OPT_OUT_LABEL, "NotIn", [OPT_OUT_VALUE])])
    objects = hook[1].object_selector if hook else default
    spaces = hook[1].namespace_selector if hook else default
    labels = pod.metadata.labels or {}
    if key := unmet(objects, labels):
        return LeftAlone("opted-out" if labels.get(key) else "unselected", key, labels.get(key, ""))
    if namespace is not None and (key := unmet(spaces, namespace)):
        return LeftAlone("namespace", key, namespace.get(key, ""))
    if pod.metadata.annotation(MIRROR_KEY):
        return LeftAlone("static", MIRROR_KEY)
    made, began = (parse_time(resource.metadata.creation_timestamp) for resource in (pod, hook[0] if hook else pod))
    if made is not None and began is not None and made < began:
        return LeftAlone("older")
    return _not_looked_at(pod, config, version)


def _not_looked_at(pod: Pod, config: DeviceConfig, version: Version | None) -> LeftAlone | None:
    """What versions before 2.10 pass over: privileged containers and init containers."""
    if version is None or version >= _LOOKS_EVERYWHERE:
        return None
    asking = [container for container in pod.spec.containers if _asks(container, config)]
    if not asking:
        return (
            LeftAlone("init") if any(_asks(container, config) for container in pod.spec.init_containers or ()) else None
        )
    skipped = all(container.security_context and container.security_context.privileged for container in asking)
    return LeftAlone("privileged", asking[0].name) if skipped else None


def _asks(container: Container, config: DeviceConfig) -> bool:
    resources = container.resources
    asked = (resources.limits, resources.requests) if resources else ()
    return any(config.manages(name) for amounts in asked for name in amounts or ())


def unmet(selector: LabelSelector | None, labels: Mapping[str, str]) -> str:
    """The key of the first requirement that the labels do not meet; empty where they meet all."""
    for key, value in (selector.match_labels or {}).items() if selector else ():
        if labels.get(key) != value:
            return key
    for expression in (selector.match_expressions or ()) if selector else ():
        if not _holds(expression, labels.get(expression.key)):
            return expression.key
    return ""


def _holds(requirement: SelectorRequirement, value: str | None) -> bool:
    listed = requirement.values or []
    if requirement.operator == "In":
        return value is not None and value in listed
    if requirement.operator == "NotIn":
        return value is None or value not in listed
    return (value is not None) == (requirement.operator == "Exists")
