"""`2x16Gi`, `2x50%`, `1`: cards asked for in a few words, and the pod that HAMi's webhook would make of them."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from bot.errors import UsageError
from bot.hami.asked import INT32_MAX, WHOLE_CARD
from bot.hami.fit import EXCLUSIVE_CORES
from bot.hami.requests import DeviceConfig
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import Container, ObjectMeta, Pod, PodSpec, Quantity, ResourceRequirements

DEFAULT_NAMESPACE = "default"
EXAMPLE = "fit 2x16Gi, fit 1x50% --cores 30, fit 4 (whole cards)."
EXCLUSIVE_BY_DEFAULT = Version(2, 7, 0)
"""From here on who asks for whole cards gets all their cores [HAMi pkg/device/nvidia/device.go MutateAdmission]."""

_WORDS = re.compile(r"(?:([0-9]{1,9})\s*[x×*])?\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z%]*)", re.ASCII | re.IGNORECASE)
_TWO_NUMBERS = re.compile(r"(?<=[0-9])\s+(?=[0-9])")
_NO_AMOUNT = re.compile(r"[0-9]{1,9}[x×*]", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_UNITS = {"": 1, "mi": 1, "mib": 1, "gi": 1024, "gib": 1024, "ti": 1024 * 1024, "tib": 1024 * 1024}
_LEAST_WITHOUT_UNIT = 100
_MAX_CARDS = 10_000


class CardWords(NamedTuple):
    """Cards as asked for: MiB of each, or per cent of each, or (both 0) whole cards. `cores` None: none asked for."""

    text: str
    cards: int
    memory_mib: int = 0
    percentage: int = 0
    cores: int | None = None
    type: str = ""


def read_card_words(words: Sequence[str], cores: int | None, kind: str) -> CardWords:
    """The request in the words that were typed. Raises UsageError with an example for what is unclear."""
    typed = " ".join(words)
    if _TWO_NUMBERS.search(typed):
        if meant := _with_an_x(typed):
            raise UsageError(_unread(typed), hint=f"Did you mean {meant}?")
        raise UsageError(_unread(typed), example=EXAMPLE)
    return _read("".join(words), typed, cores, kind)


def _unread(typed: str) -> str:
    return f"{typed[:60]!r} is no number of cards with an amount of memory"


def _with_an_x(typed: str) -> str:
    """What `2 8Gi` was meant to say, where that can be read; to join the numbers would ask for 28Gi."""
    meant = _TWO_NUMBERS.sub("x", typed, count=1)
    try:
        _read("".join(meant.split()), meant, None, "")
    except UsageError:
        return ""
    return "" if _TWO_NUMBERS.search(meant) else "".join(meant.split())


def _read(text: str, typed: str, cores: int | None, kind: str) -> CardWords:
    if _COUNT.fullmatch(text):
        cards = _count(text, text)
        return CardWords(f"{cards}x{WHOLE_CARD}%", cards, cores=cores, type=kind)
    if _NO_AMOUNT.fullmatch(text):
        raise UsageError(f"{text} names no amount of memory after the number of cards", example=EXAMPLE)
    found = _WORDS.fullmatch(text)
    if found is None:
        raise UsageError(_unread(typed), example=EXAMPLE)
    count, amount, unit = _count(found[1] or "1", text), Decimal(found[2]), found[3]
    if unit == "%":
        if not 0 < amount <= WHOLE_CARD or amount != amount.to_integral_value():
            raise UsageError(f"{text}: a share of a card is a whole number from 1% to 100%", example=EXAMPLE)
        return CardWords(text, count, percentage=int(amount), cores=cores, type=kind)
    return CardWords(text, count, memory_mib=_mib(amount, unit, f"{count}x{found[2]}"), cores=cores, type=kind)


def _count(text: str, words: str) -> int:
    if not 0 < int(text) <= _MAX_CARDS:
        raise UsageError(f"{words}: a pod asks for 1 to {_MAX_CARDS:,} cards", example=EXAMPLE)
    return int(text)


def _mib(amount: Decimal, unit: str, example: str) -> int:
    known = unit.lower()
    if known not in _UNITS:
        near = f"{example}Mi" if known.startswith("m") else f"{example}Gi"
        raise UsageError(f"{unit!r} is no unit of card memory", hint="The units are Gi and Mi.", example=f"fit {near}")
    if not unit and amount < _LEAST_WITHOUT_UNIT:
        raise UsageError(
            f"{amount} without a unit would be {amount} MiB, which is less than {_LEAST_WITHOUT_UNIT}",
            hint="Name the unit.",
            example=f"fit {example}Gi",
        )
    mib = amount * _UNITS[known]
    if not 0 < mib <= INT32_MAX:
        raise UsageError(f"{amount}{unit} is no amount of memory that a card could have", example=EXAMPLE)
    if mib != mib.to_integral_value():
        raise UsageError(f"{amount}{unit} is no whole number of MiB", example=EXAMPLE)
    return int(mib)


def pod_of(words: CardWords, namespace: str, config: DeviceConfig, version: Version | None) -> Pod:
    """A pod of one container that asks for this, as that version's webhook would admit it; its name is the words."""
    limits: dict[str, Quantity] = {config.gpus.count: words.cards}
    if words.memory_mib:
        limits[config.gpus.memory] = -(-words.memory_mib // config.gpus.memory_factor)
    if words.percentage:
        limits[config.gpus.percentage] = words.percentage
    whole = words.percentage == WHOLE_CARD or not (words.percentage or words.memory_mib)
    if words.cores is not None:
        limits[config.gpus.cores] = words.cores
    elif whole and (version is None or version >= EXCLUSIVE_BY_DEFAULT):
        limits[config.gpus.cores] = EXCLUSIVE_CORES
    annotations = {FIRST.names.use_type: words.type} if words.type else None
    container = Container(name="main", resources=ResourceRequirements(limits=limits, requests=limits))
    return Pod(
        metadata=ObjectMeta(name=words.text, namespace=namespace, annotations=annotations),
        spec=PodSpec(containers=[container]),
    )


def words_of(words: CardWords, namespace: str) -> list[str]:
    """What to type to ask for this."""
    amount = f"{words.memory_mib}Mi" if words.memory_mib else f"{words.percentage or WHOLE_CARD}%"
    cores = [] if words.cores is None else ["--cores", str(words.cores)]
    kind = ["--type", words.type] if words.type else []
    return [f"{words.cards}x{amount}", *cores, *kind, *(["-n", namespace] if namespace != DEFAULT_NAMESPACE else [])]
