"""What of a Deployment the effect of a change rests on; whoever approves a change approves it on this basis. Pure."""

import hashlib
from typing import Literal, NamedTuple

import msgspec

from bot.changes.flags import Object, part_of

Kind = Literal["gitops-argocd", "gitops-flux", "helm"]
_MARKS: tuple[tuple[Kind, str, str], ...] = (
    ("gitops-argocd", "annotations", "argocd.argoproj.io/tracking-id"),
    ("gitops-argocd", "labels", "argocd.argoproj.io/instance"),
    ("gitops-flux", "labels", "kustomize.toolkit.fluxcd.io/name"),
    ("gitops-flux", "labels", "helm.toolkit.fluxcd.io/name"),
)
_RELEASE = "meta.helm.sh/release-name"


class Owner(NamedTuple):
    """The tool that owns a Deployment and may undo a change of it; `mark` is the label or annotation that says so."""

    kind: Kind
    mark: str
    value: str


def owner_of(deployment: Object) -> Owner | None:
    """The first of Argo CD, Flux and Helm that has marked the Deployment as its own."""
    meta = part_of(deployment, "metadata")
    labels, annotations = part_of(meta, "labels"), part_of(meta, "annotations")
    for kind, part, key in _MARKS:
        if value := (labels if part == "labels" else annotations).get(key):
            return Owner(kind, key, str(value))
    if labels.get("app.kubernetes.io/managed-by") == "Helm" or annotations.get(_RELEASE):
        return Owner("helm", _RELEASE, str(annotations.get(_RELEASE) or labels.get("app.kubernetes.io/instance", "?")))
    return None


def basis_of(deployment: Object) -> str:
    """SHA-256 of the object's uid, its spec (pod template, replicas, strategy …) and its owner.

    The status, managedFields, the resourceVersion and what else stands in the metadata are no part of it: they change
    by themselves, and with them neither what a change does nor what it brings. `metadata.generation` is none either: it
    counts edits of the spec that were taken back.
    """
    uid = part_of(deployment, "metadata").get("uid", "")
    rests_on = (uid, deployment.get("spec"), owner_of(deployment))
    return hashlib.sha256(msgspec.json.encode(rests_on, order="deterministic")).hexdigest()
