"""The kinds of temporary change, and all that differs between the flags of the scheduler they change. Pure.

A new kind is an entry of `KINDS` with texts in each language: for its card, and for a number's highest value.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from bot.changes.flags import Flag, Object, containers, part_of
from bot.hami.installation.install import (
    CLIENT_FLAGS_SINCE,
    METRICS_CLOSED_SINCE,
    PROFILES_BIND,
    PROFILING_SINCE,
    ROLE_LABEL,
    is_loopback,
    profiles_address,
)
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER, read_flags
from bot.kube.models import Node, Pod, Service, Webhook
from bot.report import Severity
from bot.texts import Text

LOUDEST_OF_HAMI = 5
"""The highest level at which HAMi logs anything: V(5) (pkg/scheduler, pkg/device; 2.5 to 2.10)."""


class DeploymentContext(NamedTuple):
    """What was read around a Deployment; None for what could not be read. `pods` are the Deployment's own that have not
    ended. `webhooks` are HAMi's: empty when there is none. `nodes` matter only where a required pod anti-affinity is
    set, see `bot.changes.effects.needs_nodes`.
    """

    pods: Sequence[Pod] | None = None
    nodes: Sequence[Node] | None = None
    webhooks: Sequence[Webhook] | None = None
    services: Sequence[Service] | None = None
    version: Version | None = None


class FlagSetting(NamedTuple):
    """The new value of a container's flag, on a Deployment as it is now."""

    deployment: Object
    container: str
    value: str


AddImpact = Callable[[Text, Severity], None]
"""Adds a text to what the change brings with it; its key is `blast.` and the impact's code."""


def loudness(setting: FlagSetting, _: DeploymentContext, tell: AddImpact) -> None:
    """Tells how much more is logged at the new level, and whether HAMi logs anything more there."""
    level = int(setting.value)
    if setting.container != EXTENDER_CONTAINER:
        tell(Text("blast.loud-kube-scheduler", level=level), "warning" if level > LOUDEST_OF_HAMI else "info")
    elif level > LOUDEST_OF_HAMI:
        tell(Text("blast.louder-than-hami", level=level), "warning")
    elif level == LOUDEST_OF_HAMI:
        tell(Text("blast.loud"), "info")


def exposure(setting: FlagSetting, around: DeploymentContext, tell: AddImpact) -> None:
    """Tells who can fetch profiles once the flag is set: they are served without authentication."""
    if around.version is not None and PROFILING_SINCE <= around.version < METRICS_CLOSED_SINCE:
        tell(Text("blast.profiles-served-already", version=around.version), "info")
    if around.services is None:
        tell(Text("blast.profiles-unseen"), "warning")
        return
    template = part_of(part_of(setting.deployment, "spec"), "template")
    leading = {**part_of(part_of(template, "metadata"), "labels"), ROLE_LABEL: "leader"}.items()
    ports: set[str] = set()  # of what serves profiles, by number and by name
    for container in containers(setting.deployment):
        if container.get("name") == EXTENDER_CONTAINER:
            flags = read_flags([*(container.get("command") or ()), *(container.get("args") or ())])
            number = (profiles_address(flags, around.version) or flags.get("http_bind", "")).rpartition(":")[2]
            named = [port for port in container.get("ports") or () if str(port.get("containerPort")) == number]
            ports = {number, *(str(port.get("name")) for port in named)}
    outside = [
        f"{service.spec.type} {service.namespace}/{service.name} ({port.node_port or port.port})"
        for service in around.services
        if service.spec.type in ("NodePort", "LoadBalancer")
        and service.spec.selector
        and service.spec.selector.items() <= leading
        for port in service.spec.ports or ()
        if str(port.target_port or port.port) in ports
    ]
    if outside:
        tell(Text("blast.profiles-outside", where=", ".join(outside)), "warning")
    else:
        tell(Text("blast.profiles-inside"), "info")


_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})

Refused = tuple[Text, Text]
"""A refusal: why, and what to do instead."""
Brings = Callable[[FlagSetting, DeploymentContext, AddImpact], None]
"""A function that tells what a new value of a flag brings with it."""
_CARDS = {
    "v": "card.what-v",
    "profiling": "card.what-profiling",
    PROFILES_BIND: "card.what-profiling-bind-address",
    "kube-qps": "card.what-kube-qps",
    "kube-burst": "card.what-kube-burst",
    "kube-timeout": "card.what-kube-timeout",
}
_TOO_HIGH = {"level": "refusal.high-level", "rate": "refusal.high-rate", "timeout": "refusal.high-timeout"}
_TOO_HIGH_DO = {
    "level": "refusal.high-level-do",
    "rate": "refusal.high-rate-do",
    "timeout": "refusal.high-timeout-do",
}


class Switch:
    """The values of a bool flag that is off unless it is set: a change switches it on."""

    is_bool = True
    default = "false"
    shown = "on"
    """The word that asks for a value, as help shows it."""
    revert = "off"
    """The word that help shows for the revert; `off` and `revert` both revert every kind."""

    def read(self, word: str) -> str | None:
        """The value that the typed word asks for, None for any other word."""
        return "true" if word == "on" else None

    def word(self, value: str) -> str:
        """The word that `read` reads as the value."""
        return "on" if value == "true" else value

    def is_value(self, text: str) -> bool:
        """Whether the text is `true` or `false`."""
        return text in ("true", "false")

    def covers(self, now: str, wanted: str) -> bool:  # noqa: ARG002  # there is one value to want
        """Whether the value that is set now is on already, as Go's strconv.ParseBool reads it."""
        return now in _TRUE

    def refusal(self, flag: Flag, value: str) -> Refused | None:
        """Why the flag must not be given the value; None where it may."""
        return None if value == "true" else _no_value(flag, value, "true")


class ListenAddress(Switch):
    """The values of a flag for a listening address; set along with a `Switch` to open it beyond the pod's loopback."""

    is_bool = False
    default = ""

    def covers(self, now: str, wanted: str) -> bool:  # noqa: ARG002  # any that is open will do
        """Whether the address that is set now is reached from outside the pod already."""
        return not is_loopback(now)


class Number(msgspec.Struct, frozen=True):
    """The values of a flag that takes a whole number, `highest` at most; `too_high` names the texts that say why."""

    lowest: int
    highest: int
    too_high: Literal["level", "rate", "timeout"]
    shown: str = "NUMBER"
    default: str = "0"
    is_bool: bool = False
    revert: str = "revert"

    def read(self, word: str) -> str | None:
        """The value that the typed word asks for, None for no whole number; `refusal` checks the range."""
        return str(int(word)) if self.is_value(word) else None

    def word(self, value: str) -> str:
        """The word that `read` reads as the value: the number itself."""
        return value

    def is_value(self, text: str) -> bool:
        """Whether the text is a whole number, also one out of the range: HAMi may run with such a value."""
        return len(text) < 10 and text.isascii() and text.isdigit()

    def covers(self, now: str, wanted: str) -> bool:
        """Whether the value that is set now is as high as the wanted one, or higher."""
        return self.is_value(now) and int(now) >= int(wanted)

    def refusal(self, flag: Flag, value: str) -> Refused | None:
        """Why the flag must not be given the value (no number, too low or too high); None where it may."""
        if not self.is_value(value) or int(value) < self.lowest:
            return _no_value(flag, value, f"{self.lowest} … {self.highest}")
        if int(value) > self.highest:
            values = {"value": self.highest + 1, "highest": self.highest}
            return Text(_TOO_HIGH[self.too_high], **values), Text(_TOO_HIGH_DO[self.too_high], **values)
        return None


class ChangeKind(msgspec.Struct, frozen=True):
    """One flag that can be changed for a while. People type `verb`; `name` is the flag's without its hyphens, and what
    records of open changes name. Flags with the same verb are set together, each as `name=value`: their `containers`,
    `summary` and `example` are the same. `containers` are those whose flag it is, the first where none is named.
    `summary` and `example` stand in the help. `since` is HAMi's first version whose extender knows the flag, None for
    all. `is_log_level`: kube-scheduler takes it while it runs, and the log itself tells when enough is captured, or too
    much is written. `brings` tells its consequences, if there are any.
    """

    verb: str
    name: str
    values: Switch | Number
    containers: tuple[str, ...]
    summary: str
    example: str
    since: Version | None = None
    is_log_level: bool = False
    brings: Brings | None = None

    @property
    def flag(self) -> Flag:
        return Flag(self.name, self.values.is_bool)

    @property
    def reverting(self) -> str:
        """The words that revert a change of this kind now."""
        return f"{self.verb} {self.values.revert}"

    def change(self, container: str, old: str, new: str) -> Text:
        """A change of this kind in a few words."""
        return Text(_CARDS[self.name], container=container, old=old, new=new)

    def asked_as(self, value: str) -> str:
        """What people type to ask for the value: `on`, `5`, or `kube-qps=50`."""
        word = self.values.word(value)
        return word if len(VERBS[self.verb]) == 1 else f"{self.name}={word}"

    def refusal(self, container: str, value: str) -> Refused | None:
        """Why the container's flag must not be given the value; None where it may."""
        if container not in self.containers:
            why = Text("refusal.other-container", flag=self.flag.shown, containers=", ".join(self.containers))
            return why, Text("refusal.elsewhere-do")
        return self.values.refusal(self.flag, value)


# From -v=8 on client-go logs request bodies (k8s.io/client-go/rest/request.go, `logBody`), tokens among them.
VERBOSITY = ChangeKind(
    verb="verbosity",
    name="v",
    values=Number(0, 7, "level", shown="LEVEL"),
    containers=(EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER),
    summary="Show how much the scheduler logs; raise it for a while; the bot reverts it at the deadline.",
    example="verbosity 5 for 10m because ml/trainer-0 is refused",
    is_log_level=True,
    brings=loudness,
)
PROFILING = ChangeKind(
    verb="profiling",
    name="profiling",
    values=Switch(),
    containers=(EXTENDER_CONTAINER,),
    summary="Show whether the scheduler serves profiles; switch that on for a while.",
    example="profiling on for 15m because filter runs are slow",
    since=PROFILING_SINCE,
    brings=exposure,
)
_PROFILES_BIND = msgspec.structs.replace(
    PROFILING,
    name=PROFILES_BIND,
    values=ListenAddress(),
)


def set_along(kind: ChangeKind, flags: Mapping[str, str], version: Version | None) -> str:
    """The address for profiles to set along with `kind`, because the bot cannot reach the pod's loopback; or empty."""
    address = profiles_address(flags, version) if kind is PROFILING else ""
    return f"0.0.0.0:{address.rpartition(':')[2]}" if is_loopback(address) else ""


TRY = "tune try"


# Without these flags client-go's defaults hold: 5 requests a second, 10 at once, no time-out.
KUBE_QPS = ChangeKind(
    verb=TRY,
    name="kube-qps",
    values=Number(1, 200, "rate", default="5"),
    containers=(EXTENDER_CONTAINER,),
    summary="Show the limits of the scheduler's API client; try others for a while, with one restart.",
    example=f"{TRY} kube-qps=50 kube-burst=100 kube-timeout=30 for 30m because pods wait for a minute",
    since=CLIENT_FLAGS_SINCE,
    brings=lambda _, __, tell: tell(Text("blast.more-requests"), "info"),
)
KUBE_BURST = msgspec.structs.replace(
    KUBE_QPS,
    name="kube-burst",
    values=Number(1, 400, "rate", default="10"),
)
KUBE_TIMEOUT = msgspec.structs.replace(
    KUBE_QPS,
    name="kube-timeout",
    values=Number(1, 120, "timeout", shown="SECONDS"),
    brings=None,
)

KINDS = {kind.name: kind for kind in (VERBOSITY, PROFILING, KUBE_QPS, KUBE_BURST, KUBE_TIMEOUT)}
"""The kinds of change by the flag that they change, named without hyphens."""
VERBS: dict[str, tuple[ChangeKind, ...]] = {
    verb: tuple(kind for kind in KINDS.values() if kind.verb == verb)
    for verb in dict.fromkeys(kind.verb for kind in KINDS.values())
}
"""The kinds of change that are set together, by the verb that people type."""


def kind_of(name: str) -> ChangeKind:
    """The kind of change for the flag, which is named without hyphens. Raises UnknownKind."""
    if name == PROFILES_BIND:
        return _PROFILES_BIND
    if name not in KINDS:
        raise UnknownKind(f"this version of hami-bot cannot change {name[:60]!r}, only: {', '.join(KINDS)}")
    return KINDS[name]


class UnknownKind(ValueError):  # noqa: N818  # what the person is told
    """A stored change is of a kind that this version of hami-bot does not have."""


def _no_value(flag: Flag, value: str, allowed: str) -> Refused:
    values = {"value": repr(value), "flag": flag.shown}
    return Text("refusal.no-value", **values), Text("refusal.no-value-do", allowed=allowed)
