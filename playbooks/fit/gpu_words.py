"""GPUs asked for in a few words (`2x16Gi`, `50%`, `1`, `4xT4`, `1xAscend910B3:16Gi`), and the pod that does so."""

import re
import shlex
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
EXAMPLE = "fit 2x16Gi, fit 1x50% --cores 30, fit 4"

_WORDS = re.compile(r"(?:([0-9]{1,9})\s*[x×*])?\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z%]*)", re.ASCII | re.IGNORECASE)
_OF_DEVICE = re.compile(
    r"(?:([0-9]{1,9})\s*[x×*])?\s*([a-z][a-z0-9./_-]*)(?:\s*:\s*([0-9.]+\s*[a-z%]*))?", re.ASCII | re.IGNORECASE
)
_KNOWN = {name.casefold(): name for name in (*(names.word for names in NAMES), *(device.word for device in DEFAULTS))}
_BY_WORD = {device.word: device for device in DEFAULTS}
_CHIPS = "ascend"
"""The prefix of chips of which the device config may name more than the chart does."""
_MODEL = re.compile(
    r"(?:rtx[- ]?)?((?:l40s|[2-5]0[5-9]0|a\d[05]00|[talp][24]|a16|p[46]0|[pv]100|mi\d{3}"
    r"|(?:[abhltkm]|g[bh]|mlu)[1-9]\d{0,2}0)[gx]?)(?:s|ti|nvl)?(?:-(?:sxm\d?|pcie|nvl|\d{2,3}gb?))*s?",
    re.ASCII | re.IGNORECASE,
)
"""A model as vendors name GPUs: letters and a number of their series, `H100`, `T4`, `RTX 4090`, `L40S`, `MI300X`."""
_DECIMAL = re.compile(r"((?:^|[x×*:])\s*[0-9.]+\s*)([gm])b?$", re.IGNORECASE)
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
    typed = _DECIMAL.sub(lambda unit: f"{unit[1]}{unit[2].upper()}i", " ".join(words))  # people who say G mean Gi
    if _TWO_NUMBERS.search(typed):
        # To join the numbers of `2 8Gi` would ask for 28Gi: what it was meant to say, where that can be read.
        meant = _TWO_NUMBERS.sub("x", typed, count=1)
        try:
            _read("".join(meant.split()), meant, None, "")
        except UsageError as error:
            raise UsageError(_unread(typed), example=EXAMPLE) from error
        if _TWO_NUMBERS.search(meant):
            raise UsageError(_unread(typed), example=EXAMPLE)
        meant = shlex.join(["".join(meant.split()), *_options(cores, kind)])
        raise UsageError(_unread(typed), hint=Text("error-command.did-you-mean", meant=meant))
    return _read("".join(typed.split()), typed, cores, kind)


def model_in(word: str) -> str:
    """The GPU model that the word names, as in GPUs' types (`RTX4090` is `4090`); empty where it names none."""
    found = _MODEL.fullmatch(word)
    return found[1].upper() if found else ""


def device_in(word: str) -> str:
    """The device of another vendor that the word names, as `fit` takes it; empty for any other word."""
    return _KNOWN.get(word.casefold(), "").removeprefix(FIRST.names.word)


def _unread(typed: str) -> Text:
    return Text("error-fit.no-number-with-memory", typed=repr(typed[:60]))


def _read(text: str, typed: str, cores: int | None, kind: str) -> CardWords:
    if _COUNT.fullmatch(text):
        cards = _count(text, text)
        return CardWords(f"{cards}x{kind or f'{WHOLE_CARD}%'}", cards, cores=cores, type=kind)
    if _NO_AMOUNT.fullmatch(text):
        raise UsageError(Text("error-fit.no-amount-after-number", text=text), example=EXAMPLE)
    if (of := _OF_DEVICE.fullmatch(text)) and (device := _device(of[2])) is not None:
        return _read_of(device, of, typed, cores, kind)
    if of and not kind and (model := model_in(of[2])):
        return _read(f"{of[1] or 1}x{of[3]}" if of[3] else of[1] or "1", typed, cores, model)
    if of and of[1] and of[2].casefold() not in _UNITS:
        raise UsageError(
            Text("error-fit.no-device-of-hami", device=of[2][:60]), example=f"fit {of[1]}xDCU, {EXAMPLE[4:]}"
        )
    found = _WORDS.fullmatch(text)
    if found is None:
        raise UsageError(_unread(typed), example=EXAMPLE)
    count, amount, unit = _count(found[1] or "1", text), Decimal(found[2]), found[3]
    name = f"{count}x{kind}:{found[2]}{unit}" if kind else text
    if unit == "%":
        if not 0 < amount <= WHOLE_CARD or amount != amount.to_integral_value():
            raise UsageError(Text("error-fit.share-gpu-is-whole-number", text=text), example=EXAMPLE)
        return CardWords(name, count, percentage=int(amount), cores=cores, type=kind)
    memory = _mib(amount, unit, f"{count}x{found[2]}", _options(cores, kind))
    return CardWords(name, count, memory_mib=memory, cores=cores, type=kind)


def _options(cores: int | None, kind: str) -> list[str]:
    return [*(["--cores", str(cores)] if cores is not None else ()), *(["--type", kind] if kind else ())]


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


def _mib(amount: Decimal, unit: str, asked: str, options: Sequence[str]) -> int:
    known = unit.lower()
    example = shlex.join(["fit", f"{asked}{'Mi' if known.startswith('m') else 'Gi'}", *options])
    if known not in _UNITS:
        wrong = Text("error-fit.not-unit-memory", unit=repr(unit))
        raise UsageError(wrong, hint=Text("error-fit.units"), example=example)
    if not unit and amount < _LEAST_WITHOUT_UNIT:
        unclear = Text("error-fit.without-unit", typed=amount, amount=amount, least=_LEAST_WITHOUT_UNIT)
        raise UsageError(unclear, hint=Text("error-fit.name-the-unit"), example=example)
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
    options = [*_options(words.cores, words.type), *(["-n", namespace] if namespace != DEFAULT_NAMESPACE else [])]
    return [f"{words.cards}x{amount}", *options]
