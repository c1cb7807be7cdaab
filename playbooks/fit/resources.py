"""Resources that a pod asks of kubelet beside HAMi's: Kubernetes drops the nodes that do not offer them."""

import difflib
from functools import cached_property

from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import NAMES
from bot.kube.models import Pod, Quantity
from bot.kube.quantities import parse_quantity
from bot.kube.selectors import Obstacle, effective_request
from playbooks.scenes.waiting_pod import PodScene

_NATIVE = "kubernetes.io"
_PASSED_OVER = {resource for names in NAMES for resource in names.passed_over}


class ManifestCase(PodScene, frozen=True, dict=True, eq=False):
    """A case whose obstacles tell of such resources too."""

    @cached_property
    def obstacles(self) -> dict[str, Obstacle]:
        """The nodes that kube-scheduler itself drops, as far as objects alone tell."""
        found = dict(super().obstacles)
        for resource in beside(self.pod, self.config):
            asked = effective_request(self.pod, resource)
            for name, node in self.nodes.items():
                offered = parse_quantity((node.status.allocatable or {}).get(resource, 0))
                if name not in found and offered is not None and asked > offered:
                    found[name] = Obstacle(f"Insufficient {resource}", resource)
        return found


def beside(pod: Pod, config: DeviceConfig) -> dict[str, Quantity]:
    """The extended resources that the pod asks for and HAMi does not hand out, with the first amount as written."""
    asked: dict[str, Quantity] = {}
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        resources = container.resources
        for amounts in (resources.limits, resources.requests) if resources else ():
            for name, amount in (amounts or {}).items():
                if (
                    _is_extended(name)
                    and name not in _PASSED_OVER
                    and not config.manages(name)
                    and parse_quantity(amount)
                ):
                    asked.setdefault(name, amount)
    return asked


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != _NATIVE and not domain.endswith(f".{_NATIVE}")


def unoffered(scene: PodScene) -> str:
    """The first of them that no node offers at all; empty where there is none, or no node was seen."""
    offered = {name for node in scene.nodes.values() for name in node.status.allocatable or {}}
    return next((name for name in beside(scene.pod, scene.config) if offered and name not in offered), "")


def meant(scene: PodScene, resource: str) -> str:
    """The resource of HAMi's, or of a node's, that is spelled most alike; empty where none is."""
    known = {name for node in scene.nodes.values() for name in node.status.allocatable or {} if "/" in name}
    known |= {*scene.config.gpus.all, *scene.config.other_resources, *(names.count for names in NAMES)}
    return next(iter(difflib.get_close_matches(resource, sorted(known), n=1, cutoff=0.8)), "")
