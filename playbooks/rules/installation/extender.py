"""Rules about kube-scheduler's configuration of HAMi's extender: what in it keeps pods waiting."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from bot.hami.installation.install import (
    DEFAULT_TIMEOUT_S,
    Extender,
    Install,
    SchedulerConfig,
    find_scheduler_config,
    kube_scheduler_of,
)
from bot.hami.nodes.node_state import has_vendor, is_offered
from bot.hami.vendors import FIRST, vendor_of_resource
from bot.hami.version import NEWEST_READ, Version
from bot.kube.recording.redact import masked
from bot.kube.times import read_go_duration
from bot.report import Confidence, Evidence, Finding, NextAction, Severity, act, step
from bot.texts import Prose, Text, clauses
from playbooks.gather.scheduling import InstallSeen
from playbooks.quotes import escape, kubectl, of_object
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.schedulers import never_led
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.waiting_pod import PodScene

EXTENDER_BIND, _OWN_PORT = "extender-bind", 9444
"""The flag with the address of /filter and /bind after 2.10 (up to 2.10 --http_bind), and their default port (HAMi's
main branch, cmd/scheduler/main.go). Whether that port speaks TLS is not known."""
_RETRIES_SINCE = Version(2, 10, 0)
_DEFAULT_RETRY_S = 28.0
"""--node-lock-retry-timeout: the seconds that a bind waits for a node's lock (HAMi cmd/scheduler/main.go at v2.10)."""


class ExtenderFault(NamedTuple):
    """A fault in kube-scheduler's configuration, a word of the line that shows it, and how severe it is."""

    text: Prose
    word: str
    severity: Severity = "critical"


@rule("extender-misconfigured")
def misconfigured(scene: InstallScene) -> Iterator[Finding]:
    """The finding that kube-scheduler's file keeps it from asking HAMi, or makes it ask about the wrong things."""
    config = scene.components.scheduler_config
    if config is not None and scene.install.flags and (faults := list(_faults(scene, config))):
        yield _finding(config, faults, scene.seen.confidence)


def never_asked(seen: InstallSeen, words: Collection[str], proofs: Sequence[Evidence] = ()) -> list[Finding]:
    """The finding that kube-scheduler never asks HAMi, or at a wrong address, if a faulty line has one of `words`."""
    config = find_scheduler_config(seen.config_maps, kube_scheduler_of(seen.install))
    if not isinstance(config, SchedulerConfig) or not seen.install.flags:
        return []
    faults = [fault for fault in _of_asking(seen, config) if fault.word in words]
    return [_finding(config, faults, seen.confidence, proofs)] if faults else []


_WRONG_SETUP = {"nothing": ("schedulerName",), "extender": ("urlPrefix", "filterVerb")}
"""By how far a pod came: the words of configuration faults that explain why it came no further."""


@rule("extender-misconfigured", "scheduler-no-leader")
def never_asked_about(scene: PodScene) -> list[Finding]:
    """The findings why kube-scheduler does not ask HAMi about the pod, if nobody tried it or HAMi said nothing."""
    words = _WRONG_SETUP.get(scene.attempt.stage, ())
    if not words or scene.pod.spec.scheduler_name != scene.install.scheduler_name:
        return []
    unasked = never_asked(scene.seen, words, scene.words)
    return unasked or (never_led(scene, scene.words) if scene.attempt.stage == "extender" else [])


def _finding(
    config: SchedulerConfig, faults: Sequence[ExtenderFault], sure: Confidence, proofs: Sequence[Evidence] = ()
) -> Finding:
    lines = dict.fromkeys(_proof(config, fault.word) for fault in faults)
    claim = Text("extender-misconfigured.claim", file=config.key, why=clauses(fault.text for fault in faults))
    severity: Severity = "critical" if any(fault.severity == "critical" for fault in faults) else "warning"
    config_map = config.config_map
    look = kubectl("-n", config_map.namespace, "get", "configmap", config_map.name, "-o", "yaml")
    steps = [step(Text("extender-misconfigured.look"), look)]
    return finding("extender-misconfigured", claim, sure, proofs=[*proofs, *lines], severity=severity, actions=steps)


def managed_proof(config: SchedulerConfig) -> Evidence:
    return _proof(config, "managedResources")


def to_managed(config: SchedulerConfig, resources: Prose, install: Install) -> list[NextAction]:
    """The steps that make kube-scheduler leave the resources to HAMi; it reads the file when it starts."""
    namespace, name = config.config_map.namespace, config.config_map.name
    label = Text("extender-misconfigured.add", map=f"{namespace}/{name}", file=config.key, resource=resources)
    return [act(label, kubectl("-n", namespace, "edit", "configmap", name)), *restarted(install)]


def restarted(install: Install) -> list[NextAction]:
    """The step to restart HAMi's scheduler, whose kube-scheduler reads its file at its start; none where not found."""
    if install.deployment is None:
        return []
    restart = kubectl("-n", install.namespace, "rollout", "restart", "deployment", install.deployment.name)
    return [act(Text("extender-misconfigured.restart"), restart)]


def _proof(config: SchedulerConfig, word: str) -> Evidence:
    line = config.line_with(word)
    if masked(line) != line:
        line = ""
    return of_object("ConfigMap", config.config_map, line, f"{{.data.{escape(config.key)}}}")


def _faults(scene: InstallScene, config: SchedulerConfig) -> Iterator[ExtenderFault]:
    yield from _of_asking(scene.seen, config)
    if (extender := config.extender(scene.config.gpus.count)) is None:
        return
    if not extender.node_cache_capable:
        yield ExtenderFault(Text("extender-misconfigured.nodes"), "nodeCacheCapable")
    if extender.ignorable:
        yield ExtenderFault(Text("extender-misconfigured.ignorable"), "ignorable")
    yield from _unmanaged(scene, extender)
    yield from _timeout(scene, extender)


def _of_asking(seen: InstallSeen, config: SchedulerConfig) -> Iterator[ExtenderFault]:
    name = seen.install.scheduler_name
    if config.names and name not in config.names:
        text = Text("extender-misconfigured.profile", name=name, names=", ".join(config.names))
        yield ExtenderFault(text, "schedulerName")
    extender = config.extender(seen.config.gpus.count)
    if extender is None:
        yield ExtenderFault(Text("extender-misconfigured.none"), "kind")
        return
    verbs = ("filterVerb", extender.filter_verb, "filter"), ("bindVerb", extender.bind_verb, "bind")
    for key, value, wanted in verbs:
        if value.strip("/") != wanted:
            yield ExtenderFault(Text("extender-misconfigured.verb", field=key, value=value, wanted=wanted), key)
    yield from _address(seen.install, extender)


def _address(install: Install, extender: Extender) -> Iterator[ExtenderFault]:
    """The address that kube-scheduler asks, against the one that the extender listens at."""
    own, scheme = install.flags.get(EXTENDER_BIND, ""), "https" if install.flags.get("cert_file") else "http"
    bind = own or install.flags.get("http_bind", "")
    where: str | None = bind if own else f"{scheme}://{bind}"
    try:
        asked = urlsplit(extender.url_prefix)
        port = asked.port or (443 if asked.scheme == "https" else 80)
    except ValueError:
        where = bind
    else:
        right = str(port) == bind.rpartition(":")[2] and (bool(own) or asked.scheme == scheme)
        # An unknown or newer version may have the new flag, and listen at its default port.
        newer = install.version is None or install.version.version > NEWEST_READ
        right = right or (not own and port == _OWN_PORT and newer)
        where = where if bind and extender.is_local and not right else None
    if where is not None:
        text = Text("extender-misconfigured.address", url=masked(extender.url_prefix), bind=where)
        yield ExtenderFault(text, "urlPrefix")


def _unmanaged(scene: InstallScene, extender: Extender) -> Iterator[ExtenderFault]:
    """Resources that kube-scheduler would itself look for on the nodes, where nobody registers them. Charts leave out
    other vendors' resources, so only those count that the scheduler's flags leave on and that are there.
    """
    if not scene.components.resources_known:
        return
    ignored = {resource.name for resource in extender.managed_resources or () if resource.ignored_by_scheduler}
    first = scene.config.gpus.all
    others = sorted(scene.config.other_resources - ignored - {*first, *FIRST.names.passed_over})
    own = [name for name in first if name not in ignored]
    on = {device.vendor.names.word for device in scene.config.devices}
    missing = [
        name
        for name in others
        if (vendor := vendor_of_resource(name)) is None or vendor[0].word in on
        if has_vendor(name, scene.nodes) and not is_offered(name, scene.nodes)
    ]
    if own or missing:
        text = Text("extender-misconfigured.resources", names=prose.names([*own, *missing], 4))
        yield ExtenderFault(text, "managedResources", "critical" if own else "warning")


def _timeout(scene: InstallScene, extender: Extender) -> Iterator[ExtenderFault]:
    """From 2.10 on a bind may wait longer for a node's lock than kube-scheduler waits for the bind."""
    waits = extender.timeout_s
    if waits is None or scene.version is None or scene.version < _RETRIES_SINCE:
        return
    text = scene.install.flags.get("node-lock-retry-timeout")
    retries = _DEFAULT_RETRY_S if text is None else read_go_duration(text)
    if retries and waits <= retries:
        given = extender.http_timeout or f"{DEFAULT_TIMEOUT_S:.0f}s"
        yield ExtenderFault(Text("extender-misconfigured.timeout", timeout=given, retry=text or "28s"), "httpTimeout")
