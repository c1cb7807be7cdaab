"""Where HAMi's chart takes a setting from: its values moved, and what it lacks differs by version.

After 2.10 the values of the NVIDIA device plugin moved to `devices.nvidia`, and the chart refuses the old ones (HAMi PR
3124); `scheduler.kubeQPS` and its like are new (PR 2905). The extender's extraArgs are written after them, so a flag
that is in both has the value of extraArgs. Until 2.4 the chart has no value of deviceCoreScaling.
"""

from collections.abc import Iterator

from bot.hami.installation.install import Install
from bot.hami.version import Version, parse_version

ARGUMENTS = "scheduler.extender.extraArgs"
CORE_SCALING = "devicePlugin.deviceCoreScaling"
_LABEL = "helm.sh/chart"
_CORE_SCALING_SINCE, _MOVED_SINCE = Version(2, 5, 0), Version(2, 11, 0)
_MOVED = {
    "devicePlugin.deviceSplitCount": "devices.nvidia.deviceSplitCount",
    "devicePlugin.deviceMemoryScaling": "devices.nvidia.deviceMemoryScaling",
    CORE_SCALING: "devices.nvidia.deviceCoreScaling",
    f"{ARGUMENTS} --kube-qps": "scheduler.kubeQPS",
    f"{ARGUMENTS} --kube-burst": "scheduler.kubeBurst",
    f"{ARGUMENTS} --kube-timeout": "scheduler.kubeTimeout",
}


def chart_version(install: Install) -> Version | None:
    """The version of the chart that HAMi was installed with, of its label; of the image where no object has one."""
    labelled = (version for text in _labels(install) if (version := parse_version(text)))
    return next(labelled, install.version.version if install.version else None)


def _labels(install: Install) -> Iterator[str]:
    objects = [install.deployment.metadata] if install.deployment else []
    yield from filter(
        None, (metadata.label(_LABEL) for metadata in (*objects, *(pod.metadata for pod in install.pods)))
    )


def chart_value(path: str, install: Install) -> str:
    """The path that this install's chart has for a path of the chart 2.10. A blank stands before a word of a list.

    Empty where the chart has none.
    """
    version = chart_version(install)
    if version is None:
        return path
    if path == CORE_SCALING and version < _CORE_SCALING_SINCE:
        return ""
    return _MOVED.get(path, path) if version >= _MOVED_SINCE else path
