"""What the API server itself does with a pod's resources: equal requests beside limits, and whole numbers only.

Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go
ValidateContainerResourceRequirements.
"""

from collections.abc import Iterator

from msgspec import structs

from bot.kube.models import Container, Pod, Quantity, ResourceRequirements
from bot.kube.quantities import canonical, parse_quantity


def with_requests(pod: Pod) -> Pod:
    """The API gives every limit without a request an equal one."""

    def filled(container: Container) -> Container:
        resources = container.resources
        if resources is None or not resources.limits:
            return container
        requests = {**resources.limits, **(resources.requests or {})}
        return structs.replace(container, resources=structs.replace(resources, requests=requests))

    return with_containers(
        pod,
        [filled(container) for container in inits_of(pod)],
        [filled(container) for container in pod.spec.containers],
    )


def inits_of(pod: Pod) -> list[Container]:
    """The init containers, none where the pod has no list of them."""
    return list(pod.spec.init_containers or ())


def with_containers(pod: Pod, inits: list[Container], apps: list[Container]) -> Pod:
    """The pod with other containers."""
    spec = structs.replace(pod.spec, containers=apps, init_containers=inits or pod.spec.init_containers)
    return structs.replace(pod, spec=spec)


def invalid(pod: Pod) -> Iterator[str]:
    """What the API says of extended resources: whole numbers, and each request equal to its limit."""
    for kind, containers in (("initContainers", inits_of(pod)), ("containers", pod.spec.containers)):
        for at, container in enumerate(containers):
            if container.resources is not None:
                yield from _invalid_in(f"spec.{kind}[{at}].resources", container.resources)


def _invalid_in(path: str, parts: ResourceRequirements) -> Iterator[str]:
    limits, requests = parts.limits or {}, parts.requests or {}
    for name, limit in sorted(limits.items()):
        if _is_extended(name):
            yield from _fraction(f"{path}.limits[{name}]", limit)
            asked = requests.get(name, limit)
            if parse_quantity(asked) != parse_quantity(limit):
                ours, theirs = canonical(asked), canonical(limit)
                yield f'{path}.requests: Invalid value: "{ours}": must be equal to {name} limit of {theirs}'
    for name, request in sorted(requests.items()):
        if _is_extended(name):
            yield from _fraction(f"{path}.requests[{name}]", request)
            if name not in limits:
                yield f"{path}.limits: Required value: Limit must be set for non overcommitable resources"


def _fraction(path: str, amount: Quantity) -> Iterator[str]:
    number = parse_quantity(amount)
    if number is not None and number != number.to_integral_value():
        yield f'{path}: Invalid value: "{canonical(amount)}": must be an integer'


def _is_extended(name: str) -> bool:
    return "/" in name and not name.split("/", maxsplit=1)[0].endswith("kubernetes.io")
