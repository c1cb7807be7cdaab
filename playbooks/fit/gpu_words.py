"""GPUs asked for in a few words (`2x16Gi`, `2x50%`, `1`, `1xAscend910B3:16Gi`), and the pod that asks for them."""

import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec
from msgspec import structs

from bot.errors import UsageError
from bot.hami.pods.pod_request import INT32_MAX, WHOLE_CARD, Resources
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import DEFAULTS, FIRST, NAMES
from bot.hami.vendors.vendor import Device
from bot.kube.models import Container, ObjectMeta, Pod, PodSpec, Quantity, ResourceRequirements
from bot.texts import Text

DEFAULT_NAMESPACE = "default"
EXAMPLE = "fit 2x16Gi, fit 1x50% --cores 30, fit 4 (whole GPUs)."

_WORDS = re.compile(r"(?:([0-9]{1,9})\s*[x×*])?\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z%]*)", re.ASCII | re.IGNORECASE)
_OF_DEVICE = re.compile(
    r"(?:([0-9]{1,9})\s*[x×*])?\s*([a-z][a-z0-9./_-]*)(?:\s*:\s*([0-9.]+\s*[a-z%]*))?", re.ASCII | re.IGNORECASE
)
_KNOWN = {name.casefold(): name for name in (*(names.word for names in NAMES), *(device.word for device in DEFAULTS))}
_BY_WORD = {device.word: device for device in DEFAULTS}
_CHIPS = "ascend"
"""The prefix of chips of which the device config may name more than the chart does."""
_TWO_NUMBERS = re.compile(r"(?<=[0-9])\s+(?=[0-9])")
_NO_AMOUNT = re.compile(r"[0-9]{1,9}[x×*]", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_UNITS = {"": 1, "mi": 1, "mib": 1, "gi": 1024, "gib": 1024, "ti": 1024 * 1024, "tib": 1024 * 1024}
_LEAST_WITHOUT_UNIT = 100
_MAX_CARDS = 10_000


class CardWords(msgspec.Struct, frozen=True):
    """GPUs as asked for in words: MiB of each, or per cent of each, or (both 0) whole GPUs. `cores` is None if not
    typed; `device` is the word of a device or one of its resources, empty for the first vendor's.
    """

    text: str
    cards: int
    memory_mib: int = 0
    percentage: int = 0
    cores: int | None = None
    type: str = ""
    device: str = ""


def read_card_words(words: Sequence[str], cores: int | None, kind: str) -> CardWords:
    """Reads from typed words which GPUs are asked for. Raises UsageError with an example for what is unclear."""
    typed = " ".join(words)
    if _TWO_NUMBERS.search(typed):
        # To join the numbers of `2 8Gi` would ask for 28Gi: what it was meant to say, where that can be read.
        meant = _TWO_NUMBERS.sub("x", typed, count=1)
        try:
            _read("".join(meant.split()), meant, None, "")
        except UsageError as error:
            raise UsageError(_unread(typed), example=EXAMPLE) from error
        if _TWO_NUMBERS.search(meant):
            raise UsageError(_unread(typed), example=EXAMPLE)
        raise UsageError(_unread(typed), hint=Text("error-command.did-you-mean", meant="".join(meant.split())))
    return _read("".join(words), typed, cores, kind)


def _unread(typed: str) -> Text:
    return Text("error-fit.no-number-with-memory", typed=repr(typed[:60]))


def _read(text: str, typed: str, cores: int | None, kind: str) -> CardWords:
    if _COUNT.fullmatch(text):
        cards = _count(text, text)
        return CardWords(f"{cards}x{WHOLE_CARD}%", cards, cores=cores, type=kind)
    if _NO_AMOUNT.fullmatch(text):
        raise UsageError(Text("error-fit.no-amount-after-number", text=text), example=EXAMPLE)
    if (of := _OF_DEVICE.fullmatch(text)) and (device := _device(of[2])) is not None:
        return _read_of(device, of, typed, cores, kind)
    if of and of[1] and of[2].casefold() not in _UNITS:
        raise UsageError(
            Text("error-fit.no-device-of-hami", device=of[2][:60]), example=f"fit {of[1]}xDCU, {EXAMPLE[4:]}"
        )
    found = _WORDS.fullmatch(text)
    if found is None:
        raise UsageError(_unread(typed), example=EXAMPLE)
    count, amount, unit = _count(found[1] or "1", text), Decimal(found[2]), found[3]
    if unit == "%":
        if not 0 < amount <= WHOLE_CARD or amount != amount.to_integral_value():
            raise UsageError(Text("error-fit.share-gpu-is-whole-number", text=text), example=EXAMPLE)
        return CardWords(text, count, percentage=int(amount), cores=cores, type=kind)
    return CardWords(text, count, memory_mib=_mib(amount, unit, f"{count}x{found[2]}"), cores=cores, type=kind)


def _device(typed: str) -> str | None:
    word = _KNOWN.get(typed.casefold())
    if word is not None:
        return "" if word == FIRST.names.word else word
    return typed if "/" in typed or typed.casefold().startswith(_CHIPS) else None


def _read_of(device: str, of: re.Match[str], typed: str, cores: int | None, kind: str) -> CardWords:
    """What follows the device's word is the memory of each."""
    count, amount = of[1] or "1", of[3]
    words = _read(f"{count}x{amount}" if amount else count, typed, cores, kind)
    if not device:
        return words
    known = _BY_WORD.get(device)
    if words.percentage:
        raise UsageError(Text("error-fit.by-amount-not-share", device=device), example="fit 1xDCU:8Gi")
    if words.memory_mib and known is not None and not known.resources.memory:
        raise UsageError(Text("error-fit.by-number-alone", device=device), example=f"fit {count}x{device}")
    if kind and known is not None and not known.names.use_type:
        raise UsageError(Text("error-fit.hami-reads-no-type", device=device), hint=Text("error-fit.leave-type-out"))
    return structs.replace(words, text=f"{words.cards}x{device}" + (f":{amount}" if amount else ""), device=device)


def _count(text: str, words: str) -> int:
    if not 0 < int(text) <= _MAX_CARDS:
        raise UsageError(Text("error-fit.pod-requests-devices", words=words, most=f"{_MAX_CARDS:,}"), example=EXAMPLE)
    return int(text)


def _mib(amount: Decimal, unit: str, example: str) -> int:
    known = unit.lower()
    if known not in _UNITS:
        near = f"{example}Mi" if known.startswith("m") else f"{example}Gi"
        raise UsageError(
            Text("error-fit.not-unit-memory", unit=repr(unit)), hint=Text("error-fit.units"), example=f"fit {near}"
        )
    if not unit and amount < _LEAST_WITHOUT_UNIT:
        raise UsageError(
            Text("error-fit.without-unit", typed=amount, amount=amount, least=_LEAST_WITHOUT_UNIT),
            hint=Text("error-fit.name-the-unit"),
            example=f"fit {example}Gi",
        )
    mib = amount * _UNITS[known]
    if not 0 < mib <= INT32_MAX:
        raise UsageError(Text("error-fit.no-amount-of-a-device", amount=amount, unit=unit), example=EXAMPLE)
    if mib != mib.to_integral_value():
        raise UsageError(Text("error-fit.no-whole-number-of-mib", amount=amount, unit=unit), example=EXAMPLE)
    return int(mib)


def device_of(words: CardWords, config: DeviceConfig) -> Device | None:
    """The device that the words mean, by its word or by a resource; None if the device config has no such device."""
    if not words.device:
        return config.devices[0]
    typed = words.device.casefold()
    by_word = {word.casefold(): device for word, device in config.by_word.items()}
    by_resource = {name.casefold(): device for name, device in config.by_resource.items()}
    return by_word.get(typed) or by_resource.get(typed)


def pod_of(words: CardWords, namespace: str, config: DeviceConfig) -> Pod:
    """A pod of one container that asks for these GPUs, as a user would write it; its name is the words."""
    device = device_of(words, config)
    limits = _limits(words, device.resources) if device else {}
    annotations = {device.names.use_type: words.type} if device and words.type else None
    container = Container(name="main", resources=ResourceRequirements(limits=limits, requests=limits))
    return Pod(
        metadata=ObjectMeta(name=words.text, namespace=namespace, annotations=annotations),
        spec=PodSpec(containers=[container]),
    )


def _limits(words: CardWords, resources: Resources) -> dict[str, Quantity]:
    limits: dict[str, Quantity] = {resources.count: words.cards}
    if words.memory_mib:
        limits[resources.memory] = -(-words.memory_mib // resources.memory_factor)
    if words.percentage:
        limits[resources.percentage] = words.percentage
    if words.cores is not None:
        limits[resources.cores] = words.cores
    return {name: amount for name, amount in limits.items() if name}


def words_of(words: CardWords, namespace: str) -> list[str]:
    """The words of `/hami fit` that ask for these GPUs."""
    amount = f"{words.memory_mib}Mi" if words.memory_mib else f"{words.percentage or WHOLE_CARD}%"
    if words.device:
        amount = f"{words.device}:{amount}" if words.memory_mib else words.device
    cores = [] if words.cores is None else ["--cores", str(words.cores)]
    kind = ["--type", words.type] if words.type else []
    return [f"{words.cards}x{amount}", *cores, *kind, *(["-n", namespace] if namespace != DEFAULT_NAMESPACE else [])]
