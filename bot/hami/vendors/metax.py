"""MetaX's GPUs: whole ones, and shares of them (sGPU) [HAMi v2.10 pkg/device/metax/device.go, sdevice.go]. A pod on a
shared card must have the quality of service of the pods that are on it (`Card.mode`).
"""

from collections import defaultdict

import msgspec

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import INSUFFICIENT_CORE, UNHEALTHY, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.pods.pod_request import (
    INT32_MAX,
    WHOLE_CARD,
    ContainerRequest,
    PodRequest,
    Resources,
    written,
)
from bot.hami.vendors.vendor import (
    AnnotatedContainer,
    Answer,
    Counted,
    Denied,
    Mutation,
    Rescanned,
    amount_in,
    limits_of,
    whole_or,
)
from bot.hami.version import Version
from bot.kube.models import Container
from bot.kube.quantities import parse_quantity

APP_CLASS_KEY = "metax-tech.com/sgpu-app-class"
QOS_KEY = "metax-tech.com/sgpu-qos-policy"
CLASSES = ONLINE, OFFLINE = "online", "offline"
POLICIES = ("best-effort", "fixed-share", "burst-share")
LINK_ZONE = "linkZone"
_MIB = 2**20
_GIB_IN_MIB = 1024
_PLUGIN_NAMES = "(metax|mx)[a-z-]*-device|/gpu-device:"
_SHARED_WORD = "Metax-SGPU"


class MetaxGpu(Counted):
    """MetaX's GPUs, given whole."""

    names = Names(
        word="Metax-GPU",
        count="metax-tech.com/gpu",
        card_word="metax",
        allocated=("hami.io/metax-gpu-devices-allocated",),
        capacity="metax-tech.com/gpu",
    )
    section = "metax"
    lock_key = ""
    plugin_names = _PLUGIN_NAMES
    one_card_per_pod = True
    card = Card(slots=1, memory_mib=65536, cores=WHOLE_CARD, type=names.word, health=True)
    card_checks = (checks.HEALTH, checks.SLOTS, checks.MUTEX, *checks.AMOUNTS, checks.SAME_CARD)
    wraps_count = True
    each = (0, WHOLE_CARD, WHOLE_CARD)


class _SharedCard(msgspec.Struct, rename="camel"):
    uuid: str = ""
    total_dev_count: int = 0
    total_compute: int = 0
    total_v_ram: int = msgspec.field(default=0, name="totalVRam")
    numa: int = 0
    healthy: bool = False
    qos_policy: str = ""
    link_zone: int = 0


_cards = msgspec.json.Decoder(list[_SharedCard] | None)


def _read(text: str) -> tuple[Card, ...]:
    return tuple(
        Card(
            uuid=card.uuid,
            slots=card.total_dev_count,
            memory_mib=card.total_v_ram,
            cores=card.total_compute,
            type=_SHARED_WORD,
            numa=card.numa,
            health=card.healthy,
            index=index,
            mode=card.qos_policy,
            custom=((LINK_ZONE, card.link_zone),),
        )
        for index, card in enumerate(_cards.decode(text.encode()) or ())
    )


def _wanted(run: Run) -> tuple[str, str]:
    app_class, quality = run.wanted.more or ("", "")
    return app_class or "", quality or ""


def _of_other_class(run: Run, state: CardState, _: ContainerRequest) -> bool:
    own, online, offline = _wanted(run)[0], ONLINE in state.classes, OFFLINE in state.classes
    return state.slots > 0 and ((online or offline) != (own in (ONLINE, OFFLINE)) or (own == OFFLINE and online))


def _of_other_quality(run: Run, state: CardState, asked: ContainerRequest) -> bool:
    in_part = state.slots > 0 and asked.cores != WHOLE_CARD
    return in_part and state.card.mode not in ("", _wanted(run)[1])


_FIRST = ((UNHEALTHY, checks.HEALTH[1]), ("CardAppClassMismatch", _of_other_class))
_LAST = (checks.UUID, checks.SLOTS, checks.MUTEX, checks.MEMORY)
_LACKS_CORES: checks.Check = (INSUFFICIENT_CORE, lambda _, state, asked: state.free_cores < asked.cores)
_OF_ONLINE = (*_FIRST, *_LAST)
_OF_OTHERS = (
    *_FIRST,
    ("CardQosPolicyMismatch", _of_other_quality),
    *_LAST,
    _LACKS_CORES,
    checks.WHOLE,
    checks.NO_CORES,
)


class MetaxSgpu(Rescanned):
    """MetaX's GPUs, given in shares (sGPU)."""

    names = Names(
        word=_SHARED_WORD,
        count="metax-tech.com/sgpu",
        memory="metax-tech.com/vmemory",
        cores="metax-tech.com/vcore",
        use_uuid="metax-tech.com/use-gpuuuid",
        no_use_uuid="metax-tech.com/nouse-gpuuuid",
        also_read=(APP_CLASS_KEY, QOS_KEY),
        register="metax-tech.com/node-gpu-devices",
        allocated=("hami.io/metax-sgpu-devices-allocated",),
        read=_read,
    )
    section = "metax"
    section_keys = {"count": "resourceVCountName", "memory": "resourceVMemoryName", "cores": "resourceVCoreName"}  # noqa: RUF012
    unit_mib = _GIB_IN_MIB
    since = Version(2, 6, 0)
    plugin_names = _PLUGIN_NAMES
    class_key = APP_CLASS_KEY

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """What the container's limits request; memory is in GiB, or in bytes where its text has a letter (`2k`)."""
        limits = limits_of(container)
        count, cores = self.count_in(limits, resources), amount_in(limits, resources.cores, absent=WHOLE_CARD)
        text = str(written(limits, resources.memory) or "")
        memory = amount_in(limits, resources.memory, resources.memory_factor)
        if any(letter.isalpha() for letter in text):
            amount = int(parse_quantity(text) or 0) // _MIB
            memory = amount if 0 <= amount <= INT32_MAX else None
        if not count or memory is None or cores is None:
            return None
        return ContainerRequest(self.names.word, container.name, count, memory, whole_or(memory), cores)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Admits an app class or a quality of service (by default `best-effort`); denies others [MutateAdmission]."""
        count = shown.limit(resources.count)
        if count is None:
            return None
        app_class = shown.annotations.get(APP_CLASS_KEY)
        if app_class is not None:
            if app_class not in CLASSES:
                return Denied(f"{APP_CLASS_KEY} must be set one of [{', '.join(CLASSES)}]")
            if count != 1:
                return Denied("app-class pod must request single device")
        if app_class == ONLINE:
            return Mutation()
        policy = shown.annotations.get(QOS_KEY)
        if policy is None:
            return Mutation(annotations={QOS_KEY: POLICIES[0]})
        return Mutation() if policy in POLICIES else Denied(f"{QOS_KEY} must be set one of [{', '.join(POLICIES)}]")

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        app_class, quality = _wanted(run)
        online = app_class == ONLINE
        passed, counts = checks.passing(run, in_play, asked, _OF_ONLINE if online else _OF_OTHERS)
        if len(passed) < asked.count:
            return checks.lacking(passed, counts, len(in_play))
        if online:
            # An online pod goes where few online pods are, but last to a card with offline pods only.
            classes = ((taken, taken.state.classes) for taken in passed)
            counted = [(taken, some.count(ONLINE), some.count(OFFLINE)) for taken, some in classes]
            counted.sort(key=lambda each: (each[1] == 0 < each[2], each[1] or each[2], each[2] if each[1] else 0))
            return [taken._replace(cores=0) for taken, _, _ in counted[: asked.count]]
        if len(passed) > asked.count and app_class != OFFLINE and asked.cores == WHOLE_CARD:
            passed = _linked(run, passed, asked.count)
        becomes = "" if asked.cores == WHOLE_CARD else quality
        return [
            taken._replace(cores=asked.cores, card=msgspec.structs.replace(taken.state.card, mode=becomes))
            for taken in passed[: asked.count]
        ]

    def least(self, state: CardState, word: str) -> PodRequest:
        """The smallest request of a pod that may share the card with the pods on it."""
        app_class = ONLINE if state.classes else None
        return self.alone(ContainerRequest(word, "", 1, 1, 0, 0), more=(app_class, state.card.mode))


def _linked(run: Run, passed: list[CardUse], count: int) -> list[CardUse]:
    zones = defaultdict[object, list[CardUse]](list)
    for taken in passed:
        zones[dict(taken.state.card.custom).get(LINK_ZONE, 0)].append(taken)
    alone = zones.pop(0, [])
    by_size = checks.equal_groups(run, zones.values(), largest_first=False)
    enough = next((zone for zone in by_size if len(zone) >= count), None)
    return enough or [taken for zone in (*by_size, alone) for taken in zone]
