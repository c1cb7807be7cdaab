"""A right as Kubernetes' access rules name it, and how a cluster is asked whether one has it."""

from typing import Any, NamedTuple

import msgspec

from bot.kube.client.failures import Request

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(NamedTuple):
    """To do `verb` with a resource such as `deployments.apps` or `pods/log`. An empty namespace means every one.

    `name`: of one object alone.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} {self.resource}{f' {self.name}' if self.name else ''} {where}"

    @property
    def command(self) -> str:
        """Asks the same by hand, with whatever rights kubectl has."""
        where = f"-n {self.namespace}" if self.namespace else "-A"
        plural, _, sub = self.resource.partition("/")
        name = f"/{self.name}" if self.name else ""
        return f"kubectl auth can-i {self.verb} {plural}{name} {f'--subresource={sub} ' if sub else ''}{where}"


class Review(msgspec.Struct, frozen=True):
    """The part of a SelfSubjectAccessReview that is read."""

    class Status(msgspec.Struct, frozen=True):
        allowed: bool = False

    status: Status = Status()


def review_of(right: Right) -> Request:
    """The request that asks whether whoever sends it has the right. Every user may send it (system:basic-user)."""
    resource, _, subresource = right.resource.partition("/")
    plural, _, group = resource.partition(".")
    attributes: dict[str, Any] = {
        "verb": right.verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    content = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    return Request("create", "selfsubjectaccessreviews", _PATH, method="POST", content=content)
