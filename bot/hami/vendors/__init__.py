"""The vendors whose devices HAMi hands out."""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from pkgutil import resolve_name

from bot.hami.names import Names
from bot.hami.vendors.vendor import Device, Vendor

_CLASSES = (
    "nvidia:Nvidia",
    "ascend:Ascend",
    "hygon:Hygon",
    "hygon:Hcu",
    "iluvatar:Iluvatar",
    "vastai:Vastai",
    "biren:Biren",
    "cambricon:Cambricon",
    "metax:MetaxGpu",
    "metax:MetaxSgpu",
    "mthreads:Mthreads",
    "enflame:EnflameDrs",
    "enflame:EnflameGcu",
    "kunlun:Kunlun",
    "kunlun:Vxpu",
    "amd:Amd",
    "aws_neuron:AwsNeuron",
)
"""The vendors' classes, as module and name. To add a vendor, add its file, and a line here."""

VENDORS: tuple[Vendor, ...] = tuple(resolve_name(f"{__name__}.{path}")() for path in _CLASSES)
"""All vendors. The first one, NVIDIA, is meant by a question that names no vendor."""

FIRST = VENDORS[0]
DEFAULTS: tuple[Device, ...] = tuple(
    Device(vendor, resources) for vendor in VENDORS for resources in vendor.read_resources(None)
)
"""The devices that HAMi's chart configures."""
BY_WORD: Mapping[str, Vendor] = {vendor.names.word: vendor for vendor in VENDORS}
NAMES: tuple[Names, ...] = tuple(vendor.names for vendor in VENDORS)

LOCK_KEYS = tuple(dict.fromkeys(vendor.lock_key for vendor in VENDORS if vendor.lock_key))
"""The node annotations with which binds lock a node; the first is HAMi's own."""
OWN_LOCKS = tuple(vendor for vendor in VENDORS if vendor.lock_expiry)
"""The vendors with a node lock of their own, which has another expiry than HAMi's."""

BESIDE = tuple(names for names in NAMES if names is not FIRST.names)
"""The names of all vendors except NVIDIA."""

ANNOTATIONS = tuple(dict.fromkeys(chain.from_iterable(names.annotations for names in NAMES)))
"""The beginnings of vendors' annotation keys, without `hami.io/`: a recording keeps these annotations."""

_EXACT = {names.register: names for names in NAMES if names.register and "{" not in names.register}
_PATTERNS = [
    (re.compile(re.escape(names.register).replace(r"\{word\}", "(.+)")), names)
    for names in NAMES
    if "{" in names.register
]


@lru_cache(maxsize=1024)  # the nodes of a cluster have the same few keys
def vendor_of_register_key(key: str) -> tuple[Names, str] | None:
    """The vendor's names and the chip's word for a node annotation that registers cards; None for any other key."""
    if names := _EXACT.get(key):
        return names, names.word
    return next(((names, found[1]) for pattern, names in _PATTERNS if (found := pattern.fullmatch(key))), None)


def vendor_of_made_up_card(node: str, uuid: str) -> Names | None:
    """The names of the vendor whose card's id HAMi made from the node's name; None for any other card."""
    return next((names for names in NAMES if names.card_word and uuid.startswith(f"{node}-{names.card_word}-")), None)


@lru_cache(maxsize=1024)
def vendor_of_resource(resource: str) -> tuple[Names, str] | None:
    """The vendor's names and the chip's word for a usual resource name; None for any other name."""
    for names in NAMES:
        for name in filter(None, (names.memory, names.cores, names.percentage, names.count)):
            if found := re.fullmatch(re.escape(name).replace(r"\{word\}", "(.+?)"), resource):
                return names, found[1] if found.groups() else names.word
    return None
