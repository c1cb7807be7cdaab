"""What a user of a pod that runs well may take for a fault of its GPU limits: facts of how HAMi works, and no finding.

Sources: the monitor switches the core limit on only while another container works on the GPU, and blocks one of
priority 1 while one of priority 0 works there [HAMi cmd/vGPUmonitor/feedback.go; HAMi#737, HAMi#786, HAMi-core#37];
ACTIVE_OOM_KILLER is read and never used [HAMi-core src/multiprocess; HAMi#372]; a session that sshd starts does not
have the environment of the container, which holds the limits [HAMi#1112, volcano-vgpu-device-plugin#8].
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.hami.pods.allocations import given as given_by_hami
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import Container, Pod
from bot.report import Evidence, Finding, NextAction, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import is_monitor
from playbooks.quotes import kubectl_pod
from playbooks.rules.common.containers import GpuContainers

_SSH = re.compile(r"(?:^|[\s/:_-])(?:sshd|openssh|ssh-?server)", re.IGNORECASE)
_SSH_PORT = 22
_WITH_INITS = Version(2, 9, 0)
(_PRIORITY,) = FIRST.names.passed_over
_KILLER = "ACTIVE_OOM_KILLER"
_POLICY = "GPU_CORE_UTILIZATION_POLICY"


class Remark(NamedTuple):
    """`sentence` is a fact of this pod with its `proofs`; it is empty where the step only may matter to the user."""

    step: NextAction
    sentence: Prose = ""
    proofs: tuple[Evidence, ...] = ()


def with_remarks(running: Finding, remarks: Sequence[Remark]) -> Finding:
    """The finding of a pod that runs: the first fact joins its claim, the other remarks are steps."""
    first = next((remark for remark in remarks if remark.sentence), None)
    steps = tuple(remark.step for remark in sorted(remarks, key=lambda remark: remark is not first))
    if first is None:
        return structs.replace(running, next_actions=steps)
    claim = sentences(running.text, first.sentence)
    return running.saying(claim, evidence=(*running.evidence, *first.proofs), next_actions=steps)


def limit_remarks(
    pod: Pod, given: GpuContainers, sharers: Sequence[Pod] | None, plugins: Sequence[Pod]
) -> list[Remark]:
    """The rarest fact first. `sharers`: other pods on its GPUs, None where unknown; `plugins`: the node's own."""
    look = kubectl_pod(pod, "get", "-o", "yaml")
    found = [*_of_ssh(pod, given, look), *_of_killer(pod, given, look)]
    if given.cores and _policy(given) == "default":
        found.append(_of_cores(pod, given, sharers, plugins))
    first = next((sharer for sharer in sharers or () if _priority(sharer.spec.containers) == "0"), None)
    if first is not None and _priority(given.containers) != "0":
        found.append(Remark(step(Text("limit-remark.priority", pod=f"{first.namespace}/{first.name}"), look)))
    found += [
        Remark(step(Text("limit-remark.privileged", container=container.name), look))
        for container in given.containers
        if container.security_context and container.security_context.privileged
    ]
    return found


def entry_remarks(pod: Pod, version: Version | None) -> list[Remark]:
    """That the annotation has an empty entry first: since 2.9 init containers have theirs, and other tools trip on it.

    Sources: HAMi#1932, HAMi#1650, HAMi-WebUI#98.
    """
    inits, held = len(pod.spec.init_containers or ()), given_by_hami(pod.metadata)
    entries = held[1].rstrip(";").split(";") if held else []
    if not inits or held is None or version is None or version < _WITH_INITS or entries[0]:
        return []
    fact = Text("limit-remark.entries", version=version)
    look = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.annotations}")
    return [Remark(step(Text("limit-remark.fix-entries"), look), fact, (quotes.of_pod_annotation(pod, held[0]),))]


def _of_ssh(pod: Pod, given: GpuContainers, look: str) -> Iterator[Remark]:
    for container in given.containers:
        if proof := _serves_ssh(pod, container):
            fact = Text("limit-remark.ssh", container=container.name)
            yield Remark(step(Text("limit-remark.fix-ssh"), look), fact, (proof,))


def _serves_ssh(pod: Pod, container: Container) -> Evidence | None:
    at = f'{{.spec.containers[?(@.name=="{container.name}")]'
    if _SSH.search(container.image):
        return quotes.of_pod(pod, container.image, f"{at}.image}}")
    for field, words in (("command", container.command), ("args", container.args)):
        if word := next((text for text in words or () if _SSH.search(text)), ""):
            return quotes.of_pod(pod, word, f"{at}.{field}}}")
    if any(port.container_port == _SSH_PORT for port in container.ports or ()):
        return quotes.of_pod(pod, str(_SSH_PORT), f"{at}.ports[*].containerPort}}")
    return None


def _of_killer(pod: Pod, given: GpuContainers, look: str) -> Iterator[Remark]:
    for container in given.containers:
        if any(variable.name == _KILLER for variable in container.env or ()):
            path = f'{{.spec.containers[?(@.name=="{container.name}")].env[*].name}}'
            fix = step(Text("limit-remark.fix-oom-killer"), look)
            yield Remark(fix, Text("limit-remark.oom-killer"), (quotes.of_pod(pod, _KILLER, path),))
            return


def _policy(given: GpuContainers) -> str:
    """What the pod says, or HAMi's webhook from its configuration; `default` where neither does."""
    env = {variable.name: variable.value for container in given.containers for variable in container.env or ()}
    return env.get(_POLICY, "default").lower()


def _of_cores(pod: Pod, given: GpuContainers, sharers: Sequence[Pod] | None, plugins: Sequence[Pod]) -> Remark:
    """The monitor lifts the limit of a pod that is alone; where none runs, the limit always holds."""
    cores = ", ".join(str(amount) for amount in sorted({share.cores for share in given.shares if share.cores}))
    alone = sharers is not None and not sharers
    key = "limit-remark.cores-shared" if sharers else "limit-remark.cores"
    said = Text("limit-remark.cores-alone" if alone else key, cores=cores, sharers=len(sharers or ()))
    advice = step(said, kubectl_pod(pod, "get", "-o", "yaml"))
    monitor = next(_monitors(plugins), None)
    if not alone or monitor is None:
        return Remark(advice)
    proofs = [monitor] + ([quotes.of_pod_annotation(pod, held[0])] if (held := given_by_hami(pod.metadata)) else [])
    fix = step(Text("limit-remark.fix-cores"), advice.command)
    return Remark(fix, Text("limit-remark.alone", cores=cores), tuple(reversed(proofs)))


def _monitors(plugins: Sequence[Pod]) -> Iterator[Evidence]:
    for plugin in plugins:
        for status in plugin.status.container_statuses or ():
            if is_monitor(status.name) and status.state.running:
                yield quotes.of_pod(plugin, status.name, "{.status.containerStatuses[*].name}")


def _priority(containers: Sequence[Container]) -> str:
    """As asked for: 0 goes before 1, which is what a container has that asks for none."""
    asked = (container.resources.limits or {} for container in containers if container.resources)
    return next((str(limits[_PRIORITY]) for limits in asked if _PRIORITY in limits), "1")
