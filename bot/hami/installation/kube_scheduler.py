"""The configuration of the kube-scheduler that runs beside HAMi's extender, and how it is told to ask the extender.

Shapes: k8s.io/kube-scheduler/config/v1 KubeSchedulerConfiguration; before Kubernetes 1.22 the chart wrote a Policy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bot.kube.hami_pods import read_flags
from bot.kube.models import ConfigMap, Container
from bot.kube.times import read_go_duration
from bot.safe_yaml import parse_documents

DEFAULT_TIMEOUT_S = 5.0
"""Seconds that kube-scheduler waits for an extender: Kubernetes' pkg/scheduler/extender.go DefaultExtenderTimeout."""

_KINDS = ("KubeSchedulerConfiguration", "Policy")
_KEYS = ("config.yaml", "config.json")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class _Managed(msgspec.Struct, rename="camel"):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(msgspec.Struct, rename="camel"):
    """One extender in kube-scheduler's configuration. `http_timeout` is Go's text, or nanoseconds in a Policy."""

    url_prefix: str = ""
    filter_verb: str = ""
    bind_verb: str = ""
    node_cache_capable: bool = False
    ignorable: bool = False
    http_timeout: str | int | None = None
    managed_resources: list[_Managed] | None = None

    @property
    def is_local(self) -> bool:
        """Whether the extender listens in kube-scheduler's own pod, as HAMi's chart has it."""
        return any(host in self.url_prefix for host in _LOOPBACK)

    @property
    def timeout_s(self) -> float | None:
        """The seconds that kube-scheduler waits for the extender's answer; None when the text is no duration."""
        if self.http_timeout in (None, "", 0, "0", "0s"):
            return DEFAULT_TIMEOUT_S
        text = self.http_timeout
        return text / 1e9 if isinstance(text, int) else read_go_duration(str(text))


class _Profile(msgspec.Struct, rename="camel"):
    scheduler_name: str = "default-scheduler"


class _File(msgspec.Struct, rename="camel"):
    kind: str = ""
    profiles: list[_Profile] | None = None
    extenders: list[Extender] | None = None


class SchedulerConfig(NamedTuple):
    """kube-scheduler's configuration file. `names` are the schedulers that its profiles make; a Policy names none."""

    config_map: ConfigMap
    key: str
    text: str
    names: tuple[str, ...]
    extenders: tuple[Extender, ...]

    def extender(self, resource: str) -> Extender | None:
        """HAMi's extender: the one in kube-scheduler's pod, else the one that manages `resource`."""
        local = (extender for extender in self.extenders if extender.is_local)
        managing = (
            extender
            for extender in self.extenders
            if any(managed.name == resource for managed in extender.managed_resources or ())
        )
        return next(local, None) or next(managing, None)

    @property
    def ignored(self) -> frozenset[str]:
        """The resources that kube-scheduler leaves to an extender instead of counting them on the nodes."""
        managed = (resource for extender in self.extenders for resource in extender.managed_resources or ())
        return frozenset(resource.name for resource in managed if resource.ignored_by_scheduler)

    def line_with(self, word: str) -> str:
        """The configuration's first line with `word`, else its first line: something to quote."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return next((line for line in lines if word in line), lines[0])


def find_scheduler_config(maps: Sequence[ConfigMap], kube_scheduler: Container | None) -> SchedulerConfig | str | None:
    """The configuration that kube-scheduler starts with; a text why it cannot be read; None when no map holds one.

    Charts render more than one: the file that the command names counts, else the newer form.
    """
    flags = read_flags([*(kube_scheduler.command or ()), *(kube_scheduler.args or ())]) if kube_scheduler else {}
    path = flags.get("config") or flags.get("policy-config-file") or ""
    named = path.rsplit("/", maxsplit=1)[-1]
    wrong: str | None = None
    for key in dict.fromkeys(filter(None, (named, *_KEYS))):
        for config_map in maps:
            text = (config_map.data or {}).get(key, "")
            if not any(kind in text for kind in _KINDS):
                continue
            try:
                read = msgspec.convert(next(iter(parse_documents(text)), None), _File)
            except (ValueError, RecursionError) as error:
                wrong = wrong or f"{config_map.namespace}/{config_map.name} {key}: {' '.join(str(error).split())[:160]}"
                continue
            if read.kind in _KINDS:
                names = tuple(profile.scheduler_name for profile in read.profiles or ())
                return SchedulerConfig(config_map, key, text, names, tuple(read.extenders or ()))
    return wrong
