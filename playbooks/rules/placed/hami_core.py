"""HAMi-core as the containers of a node have it: the device plugin copies it to the node from its own image."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.hami.version import Version, parse_version
from bot.kube.models import Pod
from bot.report import Evidence
from bot.texts import Text
from playbooks import quotes


class Fact(NamedTuple):
    """A fact to tell, and what shows it."""

    sentence: Text
    proofs: tuple[Evidence, ...]


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


def library_told(plugins: Sequence[Pod]) -> Fact | None:
    """Which HAMi-core it is; None where no image tells."""
    library = library_of(plugins)
    if library is None:
        return None
    proof = quotes.of_pod(library.plugin, library.image, "{.spec.containers[*].image}")
    return Fact(Text("hami-core.version", version=library.version), (proof,))


def paths_told(plugins: Sequence[Pod]) -> Fact | None:
    """Where the DaemonSet's paths differ, so that the library is not in the container.

    The plugin copies the library to the volume `lib`, and mounts it into containers from HOOK_PATH with /vgpu
    (HAMi#1346; HAMi v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for hook, lib, proofs in _hooks(plugins, "lib"):
        if f"{hook.rstrip('/')}/vgpu" != lib.rstrip("/"):
            return Fact(Text("hami-core.paths", hook=hook, lib=lib), proofs)
    return None


def unmeasured(plugins: Sequence[Pod]) -> tuple[Fact, str] | None:
    """That vGPUmonitor reads another directory than the one into which the containers' figures are written, and that.

    The plugin makes a container's directory below HOOK_PATH, and the monitor reads what the volume `ctrs` shows it
    (HAMi#849; HAMi v2.10.0 charts/hami/templates/device-plugin/daemonsetnvidia.yaml).
    """
    for hook, read, proofs in _hooks(plugins, "ctrs"):
        written = f"{hook.rstrip('/')}/vgpu/containers"
        if read.rstrip("/") != written:
            return Fact(Text("limit-remark.unmeasured", read=read, written=written), proofs), written
    return None


def _hooks(plugins: Sequence[Pod], volume: str) -> Iterator[tuple[str, str, tuple[Evidence, Evidence]]]:
    """HOOK_PATH of each plugin that copies the library, the volume's path on the node, and what shows both.

    vgpu-monitor has another HOOK_PATH.
    """
    for plugin in plugins:
        own = [
            part for part in plugin.spec.containers if any(mount.name == "lib" for mount in part.volume_mounts or ())
        ]
        hook = {env.name: env.value for part in own for env in part.env or ()}.get("HOOK_PATH", "")
        paths = {one.name: one.host_path.path for one in plugin.spec.volumes or () if one.host_path}
        if hook and (path := paths.get(volume, "")):
            yield (
                hook,
                path,
                (
                    quotes.of_pod(plugin, hook, '{.spec.containers[*].env[?(@.name=="HOOK_PATH")].value}'),
                    quotes.of_pod(plugin, path, f'{{.spec.volumes[?(@.name=="{volume}")].hostPath.path}}'),
                ),
            )
