"""The rights that the chart grants (deploy/chart/templates), and what is missing without each."""

from typing import Literal, NamedTuple

from bot.kube.client.requests import Right
from bot.settings.schema import Settings
from bot.texts import Text

Place = Literal["everywhere", "hami", "home"]
Part = Literal["answers", "background", "logs", "metrics", "targets", "changes", "leading"]
"""What a right is for: without one of `answers` the bot answers nothing."""
WITHOUT: dict[Part, Text] = {
    "answers": Text("doctor.without-answers"),
    "background": Text("doctor.without-background"),
    "logs": Text("doctor.without-logs"),
    "metrics": Text("doctor.without-metrics"),
    "targets": Text("doctor.without-targets"),
    "changes": Text("doctor.without-changes"),
    "leading": Text("doctor.without-leading"),
}
"""What is missing without a right of that part."""


class NeededRights(NamedTuple):
    """Rights of the same place. `home` is the bot's own namespace, `hami` that of HAMi."""

    part: Part
    place: Place
    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    name: str = ""


READING = (
    NeededRights("answers", "everywhere", ("get", "list", "watch"), ("pods",)),
    NeededRights("answers", "everywhere", ("list", "watch"), ("nodes",)),
    NeededRights("background", "everywhere", ("list",), ("events", "resourcequotas", "namespaces")),
    NeededRights(
        "background",
        "everywhere",
        ("list",),
        ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"),
    ),
    NeededRights(
        "background", "everywhere", ("list",), ("mutatingwebhookconfigurations.admissionregistration.k8s.io",)
    ),
    NeededRights(
        "background",
        "everywhere",
        ("list",),
        tuple(f"{plural}.resource.k8s.io" for plural in ("resourceclaims", "resourceclaimtemplates", "resourceslices")),
    ),
    NeededRights("background", "hami", ("list",), ("configmaps", "services", "endpointslices.discovery.k8s.io")),
    NeededRights("background", "hami", ("get", "list"), ("leases.coordination.k8s.io",)),
    NeededRights("logs", "hami", ("get",), ("pods/log",)),
)
PROXYING = NeededRights("metrics", "hami", ("get",), ("pods/proxy",))
DEPLOYMENT = "deployments.apps"
LEASE = "hami-bot"


def needed(settings: Settings | None) -> list[NeededRights]:
    """Those that a bot with these settings asks for."""
    found = [*READING]
    if settings is None or not settings.profiles.direct:
        found.append(PROXYING)
    if settings and settings.access.operators:
        found += [
            NeededRights("changes", "hami", ("get", "patch"), (DEPLOYMENT,), "scheduler"),
            NeededRights("leading", "home", ("create",), ("leases.coordination.k8s.io",)),
            NeededRights("leading", "home", ("get", "update"), ("leases.coordination.k8s.io",), LEASE),
        ]
    return found


def of_targets(settings: Settings | None) -> list[Right]:
    """Those that profiles of pods in other namespaces than HAMi's need."""
    if settings is None or settings.profiles.direct:
        return []
    return [Right("get", "pods/proxy", namespace) for namespace in settings.profiles.namespaces]


def spelled(entry: NeededRights, namespaces: dict[Place, str], deployment: str) -> list[Right]:
    """Each right of it; `deployment` is the name of HAMi's scheduler."""
    name = deployment if entry.part == "changes" else entry.name
    return [
        Right(verb, resource, namespaces[entry.place], name) for resource in entry.resources for verb in entry.verbs
    ]
