"""Which HAMi-core the containers of a node have: the device plugin copies it to the node from its own image."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from bot.hami.version import Version, parse_version
from bot.kube.models import Pod
from bot.report import Finding
from bot.texts import Texts
from playbooks import quotes


class Library(NamedTuple):
    """HAMi-core of this version of HAMi, by the image of the device plugin's pod."""

    version: Version
    plugin: Pod
    image: str


def library_of(plugins: Sequence[Pod]) -> Library | None:
    """By the first image whose tag has a version; None where none has."""
    images = ((parse_version(one.image), plugin, one.image) for plugin in plugins for one in plugin.spec.containers)
    return next((Library(version, plugin, image) for version, plugin, image in images if version), None)


def with_library(one: Finding, library: Library | None, say: Texts) -> Finding:
    """The same finding, and which HAMi-core it is about."""
    if library is None:
        return one
    which = say("hami-core.version", version=library.version)
    proof = quotes.of_pod(library.plugin, library.image, "{.spec.containers[*].image}")
    return structs.replace(one, claim=f"{one.claim} {which}", evidence=(*one.evidence, proof))
