"""Which HAMi-core the containers of a node have: the device plugin copies it to the node from its own image."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.version import Version, parse_version
from bot.kube.models import Container, Pod
from bot.report import Finding, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.rules.placed.limit_remarks import Remark


class Library(NamedTuple):
    """HAMi-core of this version of HAMi, by the image of the device plugin's pod."""

    version: Version
    plugin: Pod
    image: str


def library_of(plugins: Sequence[Pod]) -> Library | None:
    """By the first image whose tag has a version; None where none has."""
    images = (
        (parse_version(container.image), plugin, container.image)
        for plugin in plugins
        for container in plugin.spec.containers
    )
    return next((Library(version, plugin, image) for version, plugin, image in images if version), None)


def with_library(finding: Finding, library: Library | None) -> Finding:
    """The same finding, and which HAMi-core it is about."""
    if library is None:
        return finding
    which = Text("hami-core.version", version=library.version)
    proof = quotes.of_pod(library.plugin, library.image, "{.spec.containers[*].image}")
    return finding.saying(sentences(finding.text, which), evidence=(*finding.evidence, proof))


def with_paths(finding: Finding, plugins: Sequence[Pod]) -> Finding:
    """The same finding of a library that is not in the container, with the DaemonSet's paths where they differ.

    The plugin copies the library to the volume `lib`, and mounts it into containers from HOOK_PATH with /vgpu
    (HAMi#1346; HAMi v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for plugin in plugins:
        env = {env.name: env.value for part in plugin.spec.containers if _copies(part) for env in part.env or ()}
        paths = {volume.name: volume.host_path.path for volume in plugin.spec.volumes or () if volume.host_path}
        hook, lib = env.get("HOOK_PATH", ""), paths.get("lib", "")
        if hook and lib and f"{hook.rstrip('/')}/vgpu" != lib.rstrip("/"):
            where = Text("hami-core.paths", hook=hook, lib=lib)
            proofs = (
                quotes.of_pod(plugin, hook, '{.spec.containers[*].env[?(@.name=="HOOK_PATH")].value}'),
                quotes.of_pod(plugin, lib, '{.spec.volumes[?(@.name=="lib")].hostPath.path}'),
            )
            claim = sentences(finding.text, where)
            return finding.saying(claim, evidence=(*finding.evidence, *proofs))
    return finding


def unmeasured(plugins: Sequence[Pod]) -> list[Remark]:
    """That vGPUmonitor reads another directory than the one into which the containers' figures are written.

    The plugin makes a container's directory below HOOK_PATH, and the monitor reads what the volume `ctrs` shows it
    (HAMi#849; HAMi v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for plugin in plugins:
        env = {env.name: env.value for part in plugin.spec.containers if _copies(part) for env in part.env or ()}
        paths = {volume.name: volume.host_path.path for volume in plugin.spec.volumes or () if volume.host_path}
        hook, read = env.get("HOOK_PATH", ""), paths.get("ctrs", "")
        written = f"{hook.rstrip('/')}/vgpu/containers"
        if hook and read and read.rstrip("/") != written:
            proofs = (
                quotes.of_pod(plugin, hook, '{.spec.containers[*].env[?(@.name=="HOOK_PATH")].value}'),
                quotes.of_pod(plugin, read, '{.spec.volumes[?(@.name=="ctrs")].hostPath.path}'),
            )
            fix = step(Text("limit-remark.fix-unmeasured", path=written), proofs[1].command)
            return [Remark(fix, Text("limit-remark.unmeasured", read=read, written=written), proofs)]
    return []


def _copies(container: Container) -> bool:
    """Whether it is the plugin's own container: vgpu-monitor has another HOOK_PATH."""
    return any(mount.name == "lib" for mount in container.volume_mounts or ())
