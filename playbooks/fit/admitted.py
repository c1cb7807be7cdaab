"""A manifest's pod as HAMi's webhook would admit it: what is judged is what a scheduler would see."""

from collections.abc import Iterator
from typing import NamedTuple

from bot.hami.installation.install import Install
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Version
from bot.hami.webhook import Rejection, Setting, admit, left_alone
from bot.kube.models import Pod, ResourceRequirements

_NEWEST = Version(2, 10, 0)
_NO_NODE = "pod has node assigned"


class Admission(NamedTuple):
    """The pod to judge: as admitted, or as written where it would be refused."""

    pod: Pod
    refused: Rejection | None = None


class Change(NamedTuple):
    """An amount that the webhook writes; `written` is empty where the manifest has none."""

    container: str
    resource: str
    written: str
    admitted: str


def admission(pod: Pod, install: Install, config: DeviceConfig) -> Admission:
    """A pod that was created already has been through the webhook, and one with its opt-out label never will.

    A node named in the manifest is no refusal here: `elsewhere.never_scheduled` tells of it.
    """
    version = (install.version.version if install.version else None) or _NEWEST
    created = pod.metadata.uid or pod.metadata.creation_timestamp
    if created or left_alone(pod, config, version, None, None) is not None:
        return Admission(pod)
    setting = Setting(version, install.scheduler_name, config.devices)
    admitted = admit(pod, setting)
    if isinstance(admitted, Rejection):
        return Admission(pod, None if admitted.words == _NO_NODE else admitted)
    return Admission(admitted)


def changes(written: Pod, admitted: Pod) -> Iterator[Change]:
    """The limits that the webhook adds or changes."""
    befores, afters = ([*(pod.spec.init_containers or ()), *pod.spec.containers] for pod in (written, admitted))
    for before, after in zip(befores, afters, strict=True):
        limits = (before.resources or ResourceRequirements()).limits or {}
        for resource, amount in ((after.resources or ResourceRequirements()).limits or {}).items():
            if amount != limits.get(resource):
                yield Change(after.name, resource, str(limits.get(resource, "")), str(amount))
